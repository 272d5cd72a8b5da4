//! Which arguments are secret, and what is shown in their place.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::hash::Fields;
use crate::json::{Node, Tree};
use crate::secrecy::Secrecy;

/// Where a secret stands: `api_key`, `auth.token`, `users.*.password` (any key or index), or a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Segment {
    Named(String),
    Any,
}

/// Text that is not the path of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the path of an argument\nhint: write `api_key`, `auth.token` or `/auth/token`")]
pub struct BadSecretPath(pub String);

impl SecretPath {
    /// The path of everything: for arguments of which nobody can say what is secret.
    pub fn everything() -> SecretPath {
        SecretPath(Vec::new())
    }

    /// True when all of the arguments are secret.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the value at a JSON pointer.
    pub(crate) fn at(pointer: &str) -> SecretPath {
        SecretPath(segments(pointer).map(Segment::Named).collect())
    }

    /// Reads a path as it is written in a policy.
    pub fn parse(text: &str) -> Result<SecretPath, BadSecretPath> {
        let segments: Vec<Segment> = match text.strip_prefix('/') {
            Some(pointer) => {
                let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
                pointer
                    .split('/')
                    .map(|part| Segment::Named(unescape(part)))
                    .collect()
            }
            None => {
                let segment = |part: &str| match part {
                    "*" => Segment::Any,
                    name => Segment::Named(name.to_owned()),
                };
                text.split('.').map(segment).collect()
            }
        };
        match segments.contains(&Segment::Named(String::new())) {
            true => Err(BadSecretPath(text.to_owned())),
            false => Ok(SecretPath(segments)),
        }
    }
}

/// The paths that still apply at some place in the arguments, with what remains of each.
#[derive(Clone, Debug)]
pub(super) struct Secrets<'s>(Vec<&'s [Segment]>);

impl<'s> Secrets<'s> {
    pub(super) fn new(paths: &'s [SecretPath]) -> Secrets<'s> {
        Secrets(paths.iter().map(|path| path.0.as_slice()).collect())
    }

    /// Whether the value at this place is secret.
    pub(super) fn is_here(&self) -> bool {
        self.0.iter().any(|path| path.is_empty())
    }

    /// The paths that apply one step further down.
    pub(super) fn below(&self, key: &str) -> Secrets<'s> {
        let applies = |segment: &Segment| match segment {
            Segment::Named(name) => name == key,
            Segment::Any => true,
        };
        let further = self.0.iter().filter_map(|path| path.split_first());
        Secrets(
            further
                .filter(|(first, _)| applies(first))
                .map(|(_, rest)| rest)
                .collect(),
        )
    }
}

/// Whether the value at a JSON pointer is secret, or part of one.
pub(crate) fn is_secret(paths: &[SecretPath], pointer: &str) -> bool {
    let mut secrets = Secrets::new(paths);
    secrets.is_here()
        || segments(pointer).any(|segment| {
            secrets = secrets.below(&segment);
            secrets.is_here()
        })
}

fn segments(pointer: &str) -> impl Iterator<Item = String> {
    let segments = pointer.split('/').skip(1);
    segments.map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// The texts of all secret values of a document that are worth hiding where they are repeated.
pub(crate) fn secret_values(tree: &Tree<'_>, paths: &[SecretPath]) -> Vec<String> {
    let mut values = Vec::new();
    collect(tree, &Secrets::new(paths), false, &mut values);
    values
}

fn collect(tree: &Tree<'_>, secrets: &Secrets<'_>, is_inside: bool, values: &mut Vec<String>) {
    let is_inside = is_inside || secrets.is_here();
    match &tree.node {
        Node::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &secrets.below(&at.to_string()), is_inside, values);
            }
        }
        Node::Object(fields) => {
            for (key, value) in fields {
                collect(value, &secrets.below(key), is_inside, values);
            }
        }
        leaf if is_inside && leaf.is_telling() => values.push(tree.text().to_owned()),
        _ => {}
    }
}

/// What is shown instead of a secret. The salt keeps the hash from confirming a guess.
pub(super) fn mark(value: &Tree<'_>, salt: &[u8]) -> String {
    marked(value.text(), salt)
}

/// The same for a value's text.
pub(crate) fn marked(text: &str, salt: &[u8]) -> String {
    let bytes = text.as_bytes();
    let hash = Fields::new("countersign secret")
        .field(salt)
        .field(bytes)
        .finish();
    let hash: String = hash.to_string().chars().take(8).collect();
    format!("hidden, {} bytes, hash {hash}", bytes.len())
}

/// Replaces every secret by its mark, also where another value repeats it.
pub(crate) fn hide<'a>(tree: Tree<'a>, paths: &[SecretPath], salt: &[u8]) -> Tree<'a> {
    if paths.is_empty() {
        return tree;
    }
    let raw = tree.raw.clone();
    Secrecy::new(paths.to_vec(), salt, [raw.as_bytes()])
        .tree(tree)
        .tree
}

/// Replaces what stands at these paths by marks, and other texts by what `repeats` makes of them. True when anything was
/// replaced; else the tree is as it came, to the byte.
pub(crate) fn hide_values<'a>(
    tree: Tree<'a>,
    paths: &[SecretPath],
    salt: &[u8],
    repeats: &dyn Fn(&str) -> Option<String>,
) -> (Tree<'a>, bool) {
    hide_below(tree, &Secrets::new(paths), salt, repeats)
}

fn hide_below<'a>(
    tree: Tree<'a>,
    secrets: &Secrets<'_>,
    salt: &[u8],
    repeats: &dyn Fn(&str) -> Option<String>,
) -> (Tree<'a>, bool) {
    if secrets.is_here() {
        return (shown(mark(&tree, salt)), true);
    }
    let mut is_changed = false;
    let node = match tree.node {
        Node::Array(items) => {
            let hidden = items.into_iter().enumerate().map(|(at, item)| {
                let (item, changed) = hide_below(item, &secrets.below(&at.to_string()), salt, repeats);
                is_changed |= changed;
                item
            });
            Node::Array(hidden.collect())
        }
        Node::Object(fields) => {
            let hidden = fields.into_iter().map(|(key, value)| {
                let (value, changed) = hide_below(value, &secrets.below(&key), salt, repeats);
                let hidden_key = repeats(&key);
                is_changed |= changed || hidden_key.is_some();
                (hidden_key.map_or(key, Cow::Owned), value)
            });
            Node::Object(hidden.collect())
        }
        Node::String(text) => match repeats(&text) {
            Some(hidden) => return (shown(hidden), true),
            None => Node::String(text),
        },
        Node::Number => match repeats(&tree.raw) {
            Some(hidden) => return (shown(hidden), true),
            None => Node::Number,
        },
        leaf => leaf,
    };
    let mut hidden = Tree { raw: tree.raw, node };
    if is_changed {
        // What it was written as still holds the secret.
        hidden.raw = Cow::Owned(hidden.to_json());
    }
    (hidden, is_changed)
}

fn shown(text: String) -> Tree<'static> {
    Tree {
        raw: Cow::Owned(serde_json::Value::from(text.as_str()).to_string()),
        node: Node::String(Cow::Owned(text)),
    }
}
