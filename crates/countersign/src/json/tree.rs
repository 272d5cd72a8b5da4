//! Parse tree of accepted JSON that keeps the source text of each value.

use std::borrow::Cow;

use super::scan::{Step, scan};
use super::{Kind, Limits, Malformed, TopLevel, unescape};

/// A value with its source text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree<'a> {
    pub(crate) raw: Cow<'a, str>,
    pub(crate) node: Node<'a>,
}

/// Type and content of a value. A number is kept as text; see [`Number`](super::Number).
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
    /// Parses bytes that [`check`](super::check) accepted, or any single value, depending on `top`.
    ///
    /// The depth is limited, because the tree is walked recursively.
    pub(crate) fn read(bytes: &'a [u8], top: TopLevel) -> Result<Tree<'a>, Malformed> {
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
        // The scanner succeeds only after one complete value, so there is a root.
        Ok(root.unwrap_or_else(|| leaf(Kind::Null, "null")))
    }

    /// Returns the content of a string, or the source text of any other value.
    pub(crate) fn text(&self) -> &str {
        match &self.node {
            Node::String(text) => text,
            _ => &self.raw,
        }
    }

    /// Returns the type of the value.
    pub(crate) fn kind(&self) -> Kind {
        match &self.node {
            Node::Null => Kind::Null,
            Node::Bool(_) => Kind::Bool,
            Node::Number => Kind::Number,
            Node::String(_) => Kind::String,
            Node::Array(_) => Kind::Array,
            Node::Object(_) => Kind::Object,
        }
    }

    /// Serialises the tree as JSON, keeping numbers as written.
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

    /// Returns the number of values in the tree, including this one.
    #[cfg(feature = "cel")]
    pub(crate) fn count(&self) -> usize {
        1 + match &self.node {
            Node::Array(items) => items.iter().map(Tree::count).sum(),
            Node::Object(fields) => fields.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }
}

/// An object or array that is still open; `key` is the key of its next value.
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
        Kind::Object => Node::Object(Vec::new()),
        Kind::Array => Node::Array(Vec::new()),
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
        let tree = Tree::read(text.as_bytes(), TopLevel::Any).unwrap();
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
        assert!(Tree::read(b"[1", TopLevel::Any).is_err());
        assert!(Tree::read(b"[1]", TopLevel::Object).is_err());
        assert_eq!(
            Tree::read(br#"{"a":[1,2]}"#, TopLevel::Object).unwrap().count(),
            4
        );
    }
}
