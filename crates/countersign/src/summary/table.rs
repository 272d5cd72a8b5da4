//! The arguments as rows, for cards.

use serde::{Deserialize, Serialize};

use super::secret::{SecretPath, Secrets, mark};
use crate::display::{Warning, clip, escape, warnings};
use crate::json::{Node, Top, Tree, push_segment};
use crate::secrecy::Secrecy;

/// Longest value in a row, in characters.
const MAX_CHARS: usize = 1_000;

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

/// The same by places alone: a value that repeats a secret is not hidden.
pub(crate) fn rows(arguments: &[u8], secrets: &[SecretPath], salt: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Ok(tree) = Tree::read(arguments, Top::Object) {
        add_rows(&tree, &mut String::new(), &Secrets::new(secrets), salt, &mut rows);
    }
    rows
}

fn add_rows(tree: &Tree<'_>, pointer: &mut String, secrets: &Secrets<'_>, salt: &[u8], rows: &mut Vec<Row>) {
    let length = pointer.len();
    let is_hidden = secrets.is_here();
    match &tree.node {
        Node::Object(fields) if !is_hidden && !fields.is_empty() => {
            for (key, value) in fields {
                push_segment(pointer, key);
                add_rows(value, pointer, &secrets.below(key), salt, rows);
                pointer.truncate(length);
            }
        }
        Node::Array(items) if !is_hidden && !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                let at = at.to_string();
                push_segment(pointer, &at);
                add_rows(item, pointer, &secrets.below(&at), salt, rows);
                pointer.truncate(length);
            }
        }
        // An empty outer object has nothing to show.
        Node::Object(_) if length == 0 && !is_hidden => {}
        _ if is_hidden => rows.push(Row {
            pointer: escape(pointer).into_owned(),
            value: mark(tree, salt),
            bytes: tree.text().len(),
            clipped: false,
            hidden: true,
            warnings: warnings(pointer),
        }),
        _ => rows.push(plain_row(tree, pointer)),
    }
}

fn plain_row(tree: &Tree<'_>, pointer: &str) -> Row {
    let text = tree.text();
    let shown = clip(text, MAX_CHARS);
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
