//! Arguments as rows for cards.

use serde::{Deserialize, Serialize};

use super::secret::{SecretPath, Secrets, mark};
use crate::display::{Warning, clip_value, escape, shown_name, warnings};
use crate::json::{Kind, Node, TopLevel, Tree, push_segment};
use crate::secrecy::Secrecy;

/// One value of a call's arguments. All fields are safe to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// JSON pointer of the value, escaped because the agent chooses the keys.
    pub pointer: String,
    /// Form of the pointer for people. A member's name that could be read as an index, or seem to end early, is in
    /// quotes.
    pub name: String,
    /// Type of the value.
    pub kind: Kind,
    /// Shown form of the value. A text that could be mistaken for a value of another type is in quotes, so that
    /// different values look different.
    pub value: String,
    /// Size of the value in bytes: for a string, of its text; for anything else, of its JSON.
    pub bytes: usize,
    /// True if part of the value is not shown. No card may be approved on the basis of such a row.
    pub clipped: bool,
    /// True if the value or its name is or repeats a secret, and a mark is shown instead.
    pub hidden: bool,
    /// Warnings about the value or its name.
    pub warnings: Vec<Warning>,
}

/// Lists every value of checked arguments, in order. Arguments that cannot be read yield no rows.
pub fn table(arguments: &[u8], secrets: &[SecretPath], salt: &[u8]) -> Vec<Row> {
    Secrecy::new(secrets.to_vec(), salt, [arguments]).table(arguments)
}

/// Like [`table`], but hides by path alone: a value that repeats a secret is not hidden. Values are clipped to
/// `max_chars`.
pub(crate) fn rows(arguments: &[u8], secrets: &[SecretPath], salt: &[u8], max_chars: usize) -> Vec<Row> {
    let mut table = Table {
        salt,
        max_chars,
        rows: Vec::new(),
    };
    if let Ok(tree) = Tree::read(arguments, TopLevel::Object) {
        table.add(&tree, &mut RowPlace::default(), &Secrets::new(secrets));
    }
    table.rows
}

/// JSON pointer of a value, and its form for people.
#[derive(Default)]
struct RowPlace {
    pointer: String,
    name: String,
}

impl RowPlace {
    fn enter(&mut self, segment: &str, is_index: bool) {
        let from = self.pointer.len();
        push_segment(&mut self.pointer, segment);
        let segment = self.pointer.get(from + 1..).unwrap_or_default();
        self.name.push('/');
        match is_index {
            true => self.name.push_str(segment),
            false => self.name.push_str(&shown_name(segment)),
        }
    }

    fn lengths(&self) -> (usize, usize) {
        (self.pointer.len(), self.name.len())
    }

    fn leave(&mut self, (pointer, name): (usize, usize)) {
        self.pointer.truncate(pointer);
        self.name.truncate(name);
    }
}

struct Table<'s> {
    salt: &'s [u8],
    max_chars: usize,
    rows: Vec<Row>,
}

impl Table<'_> {
    fn add(&mut self, tree: &Tree<'_>, place: &mut RowPlace, secrets: &Secrets<'_>) {
        let lengths = place.lengths();
        let is_hidden = secrets.is_here();
        match &tree.node {
            Node::Object(fields) if !is_hidden && !fields.is_empty() => {
                for (key, value) in fields {
                    place.enter(key, false);
                    self.add(value, place, &secrets.below(key));
                    place.leave(lengths);
                }
            }
            Node::Array(items) if !is_hidden && !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    let at = at.to_string();
                    place.enter(&at, true);
                    self.add(item, place, &secrets.below(&at));
                    place.leave(lengths);
                }
            }
            // An empty outer object has no rows.
            Node::Object(_) if place.pointer.is_empty() && !is_hidden => {}
            _ if is_hidden => self.rows.push(Row {
                pointer: escape(&place.pointer).into_owned(),
                name: place.name.clone(),
                kind: tree.kind(),
                value: mark(tree, self.salt),
                bytes: tree.text().len(),
                clipped: false,
                hidden: true,
                warnings: warnings(&place.pointer),
            }),
            _ => self.rows.push(plain_row(tree, place, self.max_chars)),
        }
    }
}

fn plain_row(tree: &Tree<'_>, place: &RowPlace, max_chars: usize) -> Row {
    let text = tree.text();
    let (value, is_clipped) = clip_value(tree.kind(), text, max_chars);
    let mut found = warnings(&place.pointer);
    for warning in warnings(text) {
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    Row {
        pointer: escape(&place.pointer).into_owned(),
        name: place.name.clone(),
        kind: tree.kind(),
        value,
        bytes: text.len(),
        clipped: is_clipped,
        hidden: false,
        warnings: found,
    }
}
