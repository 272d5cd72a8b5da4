//! Secret arguments, and the marks that replace them.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::hash::Fields;
use crate::json::{Node, Tree, push_segment};
use crate::secrecy::Secrecy;

/// Placeholder for a secret in the preview of an edit, which must not depend on the secret.
pub(crate) const UNSHOWN: &str = "(secret, not shown in a preview)";

/// Path of a secret: `api_key`, `auth.token`, `users.*.password` (any key or index), or a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Segment {
    Named(String),
    Any,
    /// Part of a text, as a range of bytes; always the last segment. Such a part is hidden wherever it is repeated. The
    /// text that contains the part must be secret as a whole, too.
    Within(u32, u32),
}

/// Text that is not the path of an argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the path of an argument\nhint: write `api_key`, `auth.token` or `/auth/token`")]
pub struct BadSecretPath(pub String);

impl SecretPath {
    /// Returns the path that covers everything, for arguments whose secret parts are unknown.
    pub fn everything() -> SecretPath {
        SecretPath(Vec::new())
    }

    /// Returns true if all arguments are secret.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path of the value at a JSON pointer.
    pub(crate) fn at(pointer: &str) -> SecretPath {
        SecretPath(segments(pointer).map(Segment::Named).collect())
    }

    /// Returns the path of a part of the text at a JSON pointer; `None` if an offset does not fit into 32 bits.
    pub(crate) fn within(pointer: &str, part: &Range<usize>) -> Option<SecretPath> {
        let mut path = SecretPath::at(pointer);
        let part = (u32::try_from(part.start).ok()?, u32::try_from(part.end).ok()?);
        path.0.push(Segment::Within(part.0, part.1));
        Some(path)
    }

    /// Parses a path as written in a policy.
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

/// Secret paths that apply at one position in the arguments, each reduced to its remaining segments.
#[derive(Clone, Debug)]
pub(crate) struct Secrets<'s>(Vec<&'s [Segment]>);

impl<'s> Secrets<'s> {
    pub(crate) fn new(paths: &'s [SecretPath]) -> Secrets<'s> {
        Secrets(paths.iter().map(|path| path.0.as_slice()).collect())
    }

    /// Returns true if the value at this position is secret.
    pub(crate) fn is_here(&self) -> bool {
        self.0.iter().any(|path| path.is_empty())
    }

    /// Returns true if the value at this position, or a value inside it, is secret.
    pub(crate) fn is_here_or_below(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the parts of the text at this position that are secret by themselves.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().filter_map(|path| match path {
            [Segment::Within(start, end)] => Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?),
            _ => None,
        })
    }

    /// Returns the paths that apply one level further down.
    pub(crate) fn below(&self, key: &str) -> Secrets<'s> {
        let applies = |segment: &Segment| match segment {
            Segment::Named(name) => name == key,
            Segment::Any => true,
            Segment::Within(..) => false,
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

/// Returns true if the value at a JSON pointer is secret, or part of a secret value.
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

/// Returns the pointers and texts of all secret values in a document that are worth hiding where they are repeated.
pub(crate) fn secret_values(tree: &Tree<'_>, paths: &[SecretPath]) -> Vec<(String, String)> {
    let mut values = Vec::new();
    collect(tree, &mut String::new(), &Secrets::new(paths), false, &mut values);
    values
}

fn collect(
    tree: &Tree<'_>,
    pointer: &mut String,
    secrets: &Secrets<'_>,
    is_inside: bool,
    values: &mut Vec<(String, String)>,
) {
    let length = pointer.len();
    let is_inside = is_inside || secrets.is_here();
    match &tree.node {
        Node::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                push_segment(pointer, &at.to_string());
                collect(item, pointer, &secrets.below(&at.to_string()), is_inside, values);
                pointer.truncate(length);
            }
        }
        Node::Object(fields) => {
            for (key, value) in fields {
                push_segment(pointer, key);
                collect(value, pointer, &secrets.below(key), is_inside, values);
                pointer.truncate(length);
            }
        }
        leaf if is_inside && leaf.is_telling() => {
            values.push((pointer.clone(), tree.text().to_owned()));
            let parts = secrets.parts().filter_map(|part| tree.text().get(part));
            let parts = parts.filter(|part| !part.trim().is_empty());
            values.extend(parts.map(|part| (pointer.clone(), part.to_owned())));
        }
        _ => {}
    }
}

/// Returns the mark that is shown instead of a secret. The salt prevents the hash in the mark from confirming a guess.
pub(super) fn mark(value: &Tree<'_>, salt: &[u8]) -> String {
    marked(value.text(), salt)
}

/// Like [`mark`], for a value's text.
pub(crate) fn marked(text: &str, salt: &[u8]) -> String {
    if text == UNSHOWN {
        return "hidden".to_owned();
    }
    let bytes = text.as_bytes();
    let hash = Fields::new("countersign secret")
        .field(salt)
        .field(bytes)
        .finish();
    let hash: String = hash.to_string().chars().take(8).collect();
    let unit = if bytes.len() == 1 { "byte" } else { "bytes" };
    format!("hidden, {} {unit}, hash {hash}", bytes.len())
}

/// Replaces each single value at or below these paths with its mark. Unlike [`hide_values`], keeps lists and objects,
/// so that a template can still look up their members.
pub(crate) fn mark_each<'a>(tree: Tree<'a>, secrets: &Secrets<'_>, is_inside: bool, salt: &[u8]) -> Tree<'a> {
    let is_inside = is_inside || secrets.is_here();
    let node = match tree.node {
        Node::Array(items) => {
            let items = items.into_iter().enumerate();
            let items =
                items.map(|(at, item)| mark_each(item, &secrets.below(&at.to_string()), is_inside, salt));
            Node::Array(items.collect())
        }
        Node::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                let value = mark_each(value, &secrets.below(&key), is_inside, salt);
                (key, value)
            });
            Node::Object(fields.collect())
        }
        leaf => {
            let tree = Tree {
                raw: tree.raw,
                node: leaf,
            };
            return match is_inside {
                true => shown(mark(&tree, salt)),
                false => tree,
            };
        }
    };
    let mut marked = Tree { raw: tree.raw, node };
    // The raw JSON still contains the secret.
    marked.raw = Cow::Owned(marked.to_json());
    marked
}

/// Replaces every secret with its mark, also where another value repeats it.
pub(crate) fn hide<'a>(tree: Tree<'a>, paths: &[SecretPath], salt: &[u8]) -> Tree<'a> {
    if paths.is_empty() {
        return tree;
    }
    let raw = tree.raw.clone();
    Secrecy::new(paths.to_vec(), salt, [raw.as_bytes()])
        .tree(tree)
        .tree
}

/// Replaces the values at these paths with marks, and other texts with the result of `repeats`, if it is `Some`. Also
/// returns true if anything was replaced; otherwise the tree is unchanged byte for byte.
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
        // The raw JSON still contains the secret.
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
