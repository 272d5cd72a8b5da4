//! Secrecy: what of a call nobody is shown, wherever it stands.
//!
//! Enters: the places that are secret (the call's own terms say, and a policy may add some), the call's arguments, what
//! it would change and what it answered. Leaves: rows, texts and JSON in which the values of those places are marks,
//! also where a tool, an agent or a person repeats them: in another letter case, escaped, percent-encoded, in base64 or hex.
//! Deliberately absent: who may see what. A secret is for the tool alone.

mod fold;
mod form;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use fold::Searched;
use form::Form;

use crate::call::Call;
use crate::json::{self, Node, Top, Tree};
use crate::policy::Policy;
use crate::summary::{Row, SecretPath, hide_values, is_secret, marked, rows, secret_values};

/// What stands for a text of which nobody can say what in it is secret.
const ALL: &str = "hidden";
/// A value of fewer characters is hidden only where it stands as a word of its own.
const SHORT: usize = 4;

/// What is secret about one call, or about several.
#[derive(Clone, Debug, Default)]
pub struct Secrecy {
    paths: Vec<SecretPath>,
    salt: Vec<u8>,
    values: Vec<Value>,
    /// Places of the arguments that repeat a secret.
    tainted: BTreeSet<String>,
}

/// A secret value in all its forms, and what is shown instead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    text: String,
    forms: Vec<Form>,
    mark: String,
}

impl Secrecy {
    /// What is secret at `paths` of any of these JSON documents.
    pub fn new<'d>(
        paths: Vec<SecretPath>,
        salt: &[u8],
        documents: impl IntoIterator<Item = &'d [u8]>,
    ) -> Secrecy {
        let mut secrecy = Secrecy {
            salt: salt.to_vec(),
            ..Secrecy::default()
        };
        if paths.is_empty() {
            return secrecy;
        }
        let mut seen = BTreeSet::new();
        for document in documents {
            let Ok(tree) = Tree::read(document, Top::Any) else {
                continue;
            };
            for text in secret_values(&tree, &paths) {
                if seen.insert(text.clone()) {
                    secrecy.values.push(Value {
                        forms: form::forms(&text),
                        mark: format!("[{}]", marked(&text, salt)),
                        text,
                    });
                }
            }
        }
        // A value that holds another one goes first.
        secrecy
            .values
            .sort_by_key(|value| std::cmp::Reverse(value.text.len()));
        secrecy.paths = paths;
        secrecy
    }

    /// What is secret about a stored call: by its own terms, and by what this policy says beyond them.
    pub fn of(call: &Call, policy: &Policy, salt: &[u8]) -> Secrecy {
        let documents = [
            Some(call.arguments.as_bytes()),
            call.original.as_ref().map(|original| original.as_bytes()),
            call.before.as_deref().map(|before| &*before.result),
            call.result.as_deref(),
        ];
        let paths = policy.secrets_of(call);
        let secrecy = Secrecy::new(paths, salt, documents.into_iter().flatten());
        secrecy.over(call.arguments.as_bytes())
    }

    /// The same, and it knows which places of these arguments repeat a secret.
    pub fn over(mut self, arguments: &[u8]) -> Secrecy {
        if !self.values.is_empty() {
            let leaves = json::leaves(arguments);
            let tainted = leaves.iter().filter(|leaf| self.is_in(&leaf.text()));
            self.tainted = tainted.map(|leaf| leaf.pointer.clone()).collect();
        }
        self
    }

    /// What is secret about either.
    pub fn and(mut self, other: Secrecy) -> Secrecy {
        self.values.extend(other.values);
        self.paths.extend(other.paths);
        self
    }

    /// True when some place is secret, whether or not something stands there.
    pub fn has_any(&self) -> bool {
        !self.paths.is_empty()
    }

    /// True when the value at this pointer of the arguments is secret, or repeats one.
    pub fn is_secret(&self, pointer: &str) -> bool {
        is_secret(&self.paths, pointer) || self.tainted.contains(pointer)
    }

    /// True when a text holds a secret, in any form.
    pub fn is_in(&self, text: &str) -> bool {
        self.is_everything() || matches!(self.text(text), Cow::Owned(_))
    }

    /// A text with marks in place of secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_everything() {
            return Cow::Borrowed(ALL);
        }
        if self.values.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut searched = Searched::new(Cow::Borrowed(text));
        for value in &self.values {
            for form in &value.forms {
                if let Some(hidden) = replaced(&searched, form, &value.mark) {
                    searched = Searched::new(Cow::Owned(hidden));
                }
            }
        }
        searched.into_text()
    }

    /// The same for text that came as bytes.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if !self.has_any() {
            return Cow::Borrowed(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        match self.text(&text) {
            Cow::Borrowed(shown) if shown == text => Cow::Borrowed(bytes),
            shown => Cow::Owned(shown.into_owned().into_bytes()),
        }
    }

    /// Arguments as rows for a card.
    pub fn table(&self, arguments: &[u8]) -> Vec<Row> {
        self.rows(arguments, LONGEST)
    }

    /// As [`Secrecy::table`], with no value cut.
    pub fn whole_table(&self, arguments: &[u8]) -> Vec<Row> {
        self.rows(arguments, usize::MAX)
    }

    fn rows(&self, arguments: &[u8], max_chars: usize) -> Vec<Row> {
        let mut rows = rows(arguments, &self.paths, &self.salt, max_chars);
        if self.values.is_empty() {
            return rows;
        }
        let leaves = json::leaves(arguments);
        for row in rows.iter_mut().filter(|row| !row.hidden) {
            // What is clipped or escaped in the row is looked for in the whole value.
            let whole = leaves
                .iter()
                .find(|leaf| crate::display::escape(&leaf.pointer) == row.pointer);
            if whole.is_some_and(|leaf| self.is_in(&leaf.text())) || self.is_in(&row.value) {
                let shown = whole.map(|leaf| self.text(&leaf.text()).into_owned());
                let shown = shown.unwrap_or_else(|| self.text(&row.value).into_owned());
                // INVARIANT: only the secret part of the value is replaced and nothing is cut, so the card stays complete and
                // can be approved.
                row.value = crate::display::escape(&shown).into_owned();
                (row.hidden, row.clipped) = (true, false);
            }
            if let Cow::Owned(pointer) = self.text(&row.pointer) {
                (row.pointer, row.hidden) = (pointer, true);
            }
        }
        rows
    }

    /// A JSON document with marks in place of secrets; still JSON. Unchanged, to the byte, where nothing in it is secret.
    pub fn json(&self, document: &[u8]) -> String {
        let plain = String::from_utf8_lossy(document);
        if !self.has_any() {
            return plain.into_owned();
        }
        let Ok(tree) = Tree::read(document, Top::Any) else {
            return format!("\"{ALL}\"");
        };
        let hidden = self.tree(tree);
        match hidden.is_changed {
            true => hidden.tree.to_json(),
            false => plain.into_owned(),
        }
    }

    pub(crate) fn tree<'a>(&self, tree: Tree<'a>) -> HiddenTree<'a> {
        let repeats = |text: &str| match self.text(text) {
            Cow::Owned(hidden) => Some(hidden),
            Cow::Borrowed(_) => None,
        };
        let (tree, is_changed) = hide_values(tree, &self.paths, &self.salt, &repeats);
        HiddenTree { tree, is_changed }
    }

    fn is_everything(&self) -> bool {
        self.paths.iter().any(SecretPath::is_everything)
    }
}

/// A document whose secrets are hidden.
pub(crate) struct HiddenTree<'a> {
    pub(crate) tree: Tree<'a>,
    is_changed: bool,
}

/// Longest value in a row, in characters.
const LONGEST: usize = 1_000;

/// The text with the mark in place of this form; nothing when it does not stand there.
fn replaced(searched: &Searched<'_>, form: &Form, mark: &str) -> Option<String> {
    let text = searched.text();
    let places = match form {
        Form::AnyCase(form) => searched.places(form),
        Form::Exact(form) => {
            let found = text.match_indices(form.as_str());
            found.map(|(at, form)| at..at + form.len()).collect()
        }
    };
    let is_short = form.text().chars().count() < SHORT;
    let mut shown = String::with_capacity(text.len());
    let mut shown_to = 0;
    for place in places {
        if is_short && !is_word(text, &place) {
            continue;
        }
        shown.push_str(text.get(shown_to..place.start)?);
        shown.push_str(mark);
        shown_to = place.end;
    }
    if shown_to == 0 {
        return None;
    }
    shown.push_str(text.get(shown_to..)?);
    Some(shown)
}

/// Whether what stands at this place is a word of its own.
fn is_word(text: &str, place: &Range<usize>) -> bool {
    let before = text.get(..place.start).and_then(|text| text.chars().next_back());
    let after = text.get(place.end..).and_then(|text| text.chars().next());
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    !is_letter(before) && !is_letter(after)
}

impl Node<'_> {
    /// True for a value that is worth hiding where it is repeated.
    pub(crate) fn is_telling(&self) -> bool {
        match self {
            Node::Number => true,
            Node::String(text) => !text.trim().is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
