//! Accepted bytes as a tree that still knows how each part was written.

use std::borrow::Cow;

use super::scan::{Step, scan};
use super::{Kind, Limits, Malformed, Top, unescape};

/// A value and the text it came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree<'a> {
    pub(crate) raw: Cow<'a, str>,
    pub(crate) node: Node<'a>,
}

/// What a value is. A number stays text; see [`Number`](super::Number).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number,
    String(Cow<'a, str>),
    Array(Vec<Tree<'a>>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

impl<'a> Tree<'a> {
    /// Reads bytes that [`check`](super::check) accepted, or any one value.
    ///
    /// Depth stays limited, because what is built here is walked by recursion.
    pub(crate) fn read(bytes: &'a [u8], top: Top) -> Result<Tree<'a>, Malformed> {
        let limits = Limits {
            bytes: usize::MAX,
            depth: Limits::ARGUMENTS.depth,
            paths: usize::MAX,
        };
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut root = None;
        scan(bytes, limits, top, |step| match step {
            Step::Open { is_object, at } => {
                let node = match is_object {
                    true => Node::Object(Vec::new()),
                    false => Node::Array(Vec::new()),
                };
                let key = Cow::Borrowed("");
                open.push(Open { at, node, key });
            }
            Step::Key(raw) => {
                if let Some(parent) = open.last_mut() {
                    parent.key = unescape(raw);
                }
            }
            Step::Index(_) => {}
            Step::Leaf(kind, range) => {
                let tree = leaf(kind, text.get(range).unwrap_or_default());
                place(tree, &mut open, &mut root);
            }
            Step::Close { at } => {
                if let Some(done) = open.pop() {
                    let raw = Cow::Borrowed(text.get(done.at..at).unwrap_or_default());
                    let tree = Tree { raw, node: done.node };
                    place(tree, &mut open, &mut root);
                }
            }
        })?;
        // The scanner only succeeds after one whole value.
        Ok(root.unwrap_or_else(|| leaf(Kind::Null, "null")))
    }

    /// A string's text, any other value as it is written.
    pub(crate) fn text(&self) -> &str {
        match &self.node {
            Node::String(text) => text,
            _ => &self.raw,
        }
    }

    /// The tree as JSON: numbers as they came, everything else in the usual way.
    pub(crate) fn to_json(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        match &self.node {
            Node::Array(items) => {
                let items: Vec<String> = items.iter().map(Tree::to_json).collect();
                format!("[{}]", items.join(","))
            }
            Node::Object(fields) => {
                let field =
                    |(key, value): &(Cow<'_, str>, Tree<'_>)| format!("{}:{}", quote(key), value.to_json());
                let fields: Vec<String> = fields.iter().map(field).collect();
                format!("{{{}}}", fields.join(","))
            }
            Node::String(text) => quote(text),
            Node::Null | Node::Bool(_) | Node::Number => self.raw.to_string(),
        }
    }

    /// The number of values in the tree, itself included.
    pub(crate) fn count(&self) -> usize {
        1 + match &self.node {
            Node::Array(items) => items.iter().map(Tree::count).sum(),
            Node::Object(fields) => fields.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }
}

/// An object or array whose end has not been seen; `key` is where its next value goes.
struct Open<'a> {
    at: usize,
    node: Node<'a>,
    key: Cow<'a, str>,
}

fn leaf<'a>(kind: Kind, raw: &'a str) -> Tree<'a> {
    let node = match kind {
        Kind::Null => Node::Null,
        Kind::Bool => Node::Bool(raw == "true"),
        Kind::Number => Node::Number,
        Kind::String => {
            let inner = raw.get(1..raw.len().saturating_sub(1));
            Node::String(unescape(inner.unwrap_or_default()))
        }
        Kind::EmptyObject => Node::Object(Vec::new()),
        Kind::EmptyArray => Node::Array(Vec::new()),
    };
    Tree {
        raw: Cow::Borrowed(raw),
        node,
    }
}

fn place<'a>(tree: Tree<'a>, open: &mut [Open<'a>], root: &mut Option<Tree<'a>>) {
    match open.last_mut() {
        None => *root = Some(tree),
        Some(parent) => match &mut parent.node {
            Node::Object(fields) => fields.push((std::mem::take(&mut parent.key), tree)),
            Node::Array(items) => items.push(tree),
            _ => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_serde(tree: &Tree) -> serde_json::Value {
        match &tree.node {
            Node::Array(items) => items.iter().map(to_serde).collect(),
            Node::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone().into_owned(), to_serde(value)))
                .collect(),
            _ => serde_json::from_str(&tree.raw).unwrap(),
        }
    }

    #[track_caller]
    fn check(text: &str) {
        let tree = Tree::read(text.as_bytes(), Top::Any).unwrap();
        assert_eq!(
            to_serde(&tree),
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
        assert_eq!(tree.raw, text);
    }

    #[test]
    fn i7_keeps_values_and_their_text() {
        check("{}");
        check("[]");
        check("\"x\\n\"");
        check("12");
        check(r#"{"a":[1,{"b":null,"c":[[],{}]},"\u00e9"],"d\n":{"e":true,"f":-1.50}}"#);
        assert!(Tree::read(b"[1", Top::Any).is_err());
        assert!(Tree::read(b"[1]", Top::Object).is_err());
        assert_eq!(Tree::read(br#"{"a":[1,2]}"#, Top::Object).unwrap().count(), 4);
    }
}
