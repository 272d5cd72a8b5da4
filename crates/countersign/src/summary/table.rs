//! The arguments as rows, for cards.

use serde::{Deserialize, Serialize};

use super::secret::{SecretPath, Secrets, mark};
use crate::display::{Warning, clip, escape, warnings};
use crate::json::{Node, Top, Tree, push_segment};
use crate::secrecy::Secrecy;

/// One value of a call's arguments; everything in it is safe to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Where it stands: a JSON pointer, escaped, since the keys are the agent's.
    pub pointer: String,
    /// What is shown.
    pub value: String,
    /// How large the value is: of a string, its text; of anything else, as written.
    pub bytes: usize,
    /// Whether part of it is not shown. Nothing may be approved from such a view alone.
    pub clipped: bool,
    /// Whether it is a secret, and `value` only a mark.
    pub hidden: bool,
    /// What a person should be told about it or its name.
    pub warnings: Vec<Warning>,
}

/// Lists every value of checked arguments in their order. Bytes that cannot be read give no rows.
pub fn table(arguments: &[u8], secrets: &[SecretPath], salt: &[u8]) -> Vec<Row> {
    Secrecy::new(secrets.to_vec(), salt, [arguments]).table(arguments)
}

/// The same by places alone: a value that repeats a secret is not hidden. Longer values are cut to `max_chars`.
pub(crate) fn rows(arguments: &[u8], secrets: &[SecretPath], salt: &[u8], max_chars: usize) -> Vec<Row> {
    let mut table = Table {
        salt,
        max_chars,
        rows: Vec::new(),
    };
    if let Ok(tree) = Tree::read(arguments, Top::Object) {
        table.add(&tree, &mut String::new(), &Secrets::new(secrets));
    }
    table.rows
}

struct Table<'s> {
    salt: &'s [u8],
    max_chars: usize,
    rows: Vec<Row>,
}

impl Table<'_> {
    fn add(&mut self, tree: &Tree<'_>, pointer: &mut String, secrets: &Secrets<'_>) {
        let length = pointer.len();
        let is_hidden = secrets.is_here();
        match &tree.node {
            Node::Object(fields) if !is_hidden && !fields.is_empty() => {
                for (key, value) in fields {
                    push_segment(pointer, key);
                    self.add(value, pointer, &secrets.below(key));
                    pointer.truncate(length);
                }
            }
            Node::Array(items) if !is_hidden && !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    let at = at.to_string();
                    push_segment(pointer, &at);
                    self.add(item, pointer, &secrets.below(&at));
                    pointer.truncate(length);
                }
            }
            // An empty outer object has nothing to show.
            Node::Object(_) if length == 0 && !is_hidden => {}
            _ if is_hidden => self.rows.push(Row {
                pointer: escape(pointer).into_owned(),
                value: mark(tree, self.salt),
                bytes: tree.text().len(),
                clipped: false,
                hidden: true,
                warnings: warnings(pointer),
            }),
            _ => self.rows.push(plain_row(tree, pointer, self.max_chars)),
        }
    }
}

fn plain_row(tree: &Tree<'_>, pointer: &str, max_chars: usize) -> Row {
    let text = tree.text();
    let shown = clip(text, max_chars);
    let mut found = warnings(pointer);
    for warning in warnings(text) {
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    Row {
        pointer: escape(pointer).into_owned(),
        value: shown.to_string(),
        bytes: text.len(),
        clipped: shown.is_clipped(),
        hidden: false,
        warnings: found,
    }
}
