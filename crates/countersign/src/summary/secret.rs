//! Which arguments are secret, and what is shown in their place.

use std::borrow::Cow;

use crate::hash::Fields;
use crate::json::{Node, Tree};

/// Where a secret stands: `api_key`, `auth.token`, `users.*.password` (any key or index), or a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Named(String),
    Any,
}

/// Text that is not the path of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the path of an argument\nhint: write `api_key`, `auth.token` or `/auth/token`")]
pub struct BadSecretPath(pub String);

impl SecretPath {
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
    let mut segments = pointer.split('/').skip(1);
    segments.any(|segment| {
        secrets = secrets.below(&segment.replace("~1", "/").replace("~0", "~"));
        secrets.is_here()
    })
}

/// What is shown instead of a secret. The salt keeps the hash from confirming a guess.
pub(super) fn mark(value: &Tree<'_>, salt: &[u8]) -> String {
    let bytes = value.text().as_bytes();
    let hash = Fields::new("countersign secret")
        .field(salt)
        .field(bytes)
        .finish();
    let hash: String = hash.to_string().chars().take(8).collect();
    format!("hidden, {} bytes, hash {hash}", bytes.len())
}

/// Replaces every secret by its mark.
pub(crate) fn hide<'a>(tree: Tree<'a>, paths: &[SecretPath], salt: &[u8]) -> Tree<'a> {
    match paths.is_empty() {
        true => tree,
        false => hide_below(tree, &Secrets::new(paths), salt),
    }
}

fn hide_below<'a>(tree: Tree<'a>, secrets: &Secrets<'_>, salt: &[u8]) -> Tree<'a> {
    if secrets.is_here() {
        let mark = mark(&tree, salt);
        return Tree {
            raw: Cow::Owned(mark.clone()),
            node: Node::String(Cow::Owned(mark)),
        };
    }
    if secrets.0.is_empty() {
        return tree;
    }
    let node = match tree.node {
        Node::Array(items) => {
            let numbered = items.into_iter().enumerate();
            Node::Array(
                numbered
                    .map(|(at, item)| hide_below(item, &secrets.below(&at.to_string()), salt))
                    .collect(),
            )
        }
        Node::Object(fields) => {
            let hidden = fields.into_iter().map(|(key, value)| {
                let value = hide_below(value, &secrets.below(&key), salt);
                (key, value)
            });
            Node::Object(hidden.collect())
        }
        leaf => leaf,
    };
    Tree { raw: tree.raw, node }
}
