//! Replaces a call's secrets with marks, such as `hidden, 8 bytes, hash 1a2b3c4d`, wherever they would be shown.
//!
//! Secret paths come from a call's own terms and from the policy. The values at those paths in the arguments, the
//! snapshot and the result are secret. They are replaced in rows, texts and JSON, also where a tool, an agent or a
//! person repeats them: in another letter case, escaped or percent-encoded in part or in whole, in base64 or hex, with
//! or without line breaks. No person is exempt: a secret is for the tool alone.

mod concealed;
mod decoded;
mod fold;
mod form;
mod search;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use concealed::Concealed;
pub(crate) use concealed::{concealed, concealed_with, too_many, too_many_in_edit};
use decoded::with_marks;
use search::{Found, Search};

use crate::call::Call;
use crate::json::{self, Node, TopLevel, Tree};
use crate::policy::Policy;
use crate::summary::{Row, SecretPath, hide_values, is_secret, marked, rows, secret_values};

/// Replacement for a whole text if it is unknown which part of it is secret.
const ALL_HIDDEN: &str = "hidden";
/// Minimum length, in characters, of a value that is hidden wherever it occurs. A shorter value is hidden only where it
/// is a separate word.
const SHORT: usize = 4;
/// Maximum number of different secret values in the calls of one approval; a proposal with more is refused, because
/// every text of a card is searched for all of them. Enough for two in each call of the largest card.
pub const MOST_SECRETS: usize = 256;
/// Maximum number of secret values that are searched for. Results of tools are not refused, so there may be more; then
/// everything is hidden.
const MOST_SEARCHED: usize = 1_024;

/// The secrets of one call or of several calls, and the marks that replace them.
#[derive(Clone, Debug, Default)]
pub struct Secrecy {
    paths: Vec<SecretPath>,
    salt: Vec<u8>,
    values: Vec<SecretValue>,
    /// Search for the values, built on first use; holds `None` if it cannot be built.
    search: OnceLock<Option<Arc<Search>>>,
    /// JSON pointers of arguments that repeat a secret.
    repeating_pointers: BTreeSet<String>,
}

/// A secret value, and the mark that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretValue {
    /// JSON pointer of the value in its document, escaped.
    place: String,
    text: String,
    mark: String,
}

impl Secrecy {
    /// Creates the secrecy of these JSON documents by collecting the values at `paths`. Documents that are not JSON are
    /// skipped.
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
            let Ok(tree) = Tree::read(document, TopLevel::Any) else {
                continue;
            };
            for (place, text) in secret_values(&tree, &paths) {
                if secrecy.values.len() <= MOST_SEARCHED && seen.insert(text.clone()) {
                    secrecy.values.push(SecretValue {
                        place: crate::display::escape(&place).into_owned(),
                        mark: format!("[{}]", marked(&text, salt)),
                        text,
                    });
                }
            }
        }
        secrecy.paths = paths;
        if secrecy.values.len() > MOST_SEARCHED {
            secrecy.paths.push(SecretPath::everything());
        }
        secrecy
    }

    /// Creates the secrecy of a stored call: its own terms declare some of the secrets, and this policy adds more.
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

    /// Also records which of these arguments repeat a secret, so that [`is_secret`](Secrecy::is_secret) returns true
    /// for them.
    pub fn over(mut self, arguments: &[u8]) -> Secrecy {
        if !self.values.is_empty() {
            let leaves = json::leaves(arguments);
            let repeating = leaves.iter().filter(|leaf| self.is_in(&leaf.text()));
            self.repeating_pointers = repeating.map(|leaf| leaf.pointer.clone()).collect();
        }
        self
    }

    /// Adds the paths and values of `other`.
    pub fn and(self, other: Secrecy) -> Secrecy {
        let mut both = self.with_values_of(&other);
        both.paths.extend(other.paths);
        both
    }

    /// Adds the values of `other`, but not its paths.
    pub(crate) fn with_values_of(mut self, other: &Secrecy) -> Secrecy {
        let known: BTreeSet<&str> = self.values.iter().map(|value| value.text.as_str()).collect();
        let is_new = |value: &&SecretValue| !known.contains(value.text.as_str());
        let more: Vec<SecretValue> = other.values.iter().filter(is_new).cloned().collect();
        if !more.is_empty() {
            self.values.extend(more);
            self.search = OnceLock::new();
        }
        self
    }

    /// Returns true if any path is secret, even if no value exists there.
    pub fn has_any(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Returns true if the argument at this JSON pointer is secret or repeats a secret.
    pub fn is_secret(&self, pointer: &str) -> bool {
        is_secret(&self.paths, pointer) || self.repeating_pointers.contains(pointer)
    }

    /// Returns true if a text contains a secret in any form.
    pub fn is_in(&self, text: &str) -> bool {
        self.is_everything() || self.places(text).is_none_or(|places| !places.is_empty())
    }

    /// Returns the text with marks in place of secrets. Returns the word `hidden` if everything is secret or the text
    /// cannot be searched.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_everything() {
            return Cow::Borrowed(ALL_HIDDEN);
        }
        let Some(places) = self.places(text) else {
            // INVARIANT: a text that cannot be searched is not shown.
            return Cow::Owned(ALL_HIDDEN.to_owned());
        };
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mark = |found: &Found| self.values.get(found.secret).map_or("", |value| &value.mark);
        let marked = places.iter().map(|found| (found.place.clone(), mark(found)));
        Cow::Owned(with_marks(text, marked))
    }

    /// Returns the byte ranges of a text that are secrets; the whole text if there are too many secrets to search for.
    pub(crate) fn parts(&self, text: &str) -> Vec<Range<usize>> {
        match self.places(text) {
            Some(places) => places.into_iter().map(|found| found.place).collect(),
            None => std::iter::once(0..text.len()).collect(),
        }
    }

    /// Returns the places in a text that contain secrets; `None` if there are too many secrets to search for.
    fn places(&self, text: &str) -> Option<Vec<Found>> {
        if self.values.is_empty() {
            return Some(Vec::new());
        }
        let search = self.search.get_or_init(|| {
            let texts = self.values.iter().map(|value| value.text.as_str());
            let is_searchable = self.values.len() <= MOST_SEARCHED;
            is_searchable.then(|| Search::new(texts).map(Arc::new)).flatten()
        });
        search.as_ref().map(|search| search.places(text))
    }

    /// Like [`Secrecy::text`], for bytes that should be text. Invalid UTF-8 is replaced only if something is hidden.
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

    /// Returns the arguments as rows for a card. Long values are clipped.
    pub fn table(&self, arguments: &[u8]) -> Vec<Row> {
        self.rows(arguments, LONGEST)
    }

    /// Like [`Secrecy::table`], with no value clipped.
    pub fn whole_table(&self, arguments: &[u8]) -> Vec<Row> {
        self.rows(arguments, usize::MAX)
    }

    fn rows(&self, arguments: &[u8], max_chars: usize) -> Vec<Row> {
        let mut rows = rows(arguments, &self.paths, &self.salt, max_chars);
        if self.values.is_empty() {
            return rows;
        }
        let leaves = json::leaves(arguments);
        let by_pointer = leaves
            .iter()
            .rev()
            .map(|leaf| (crate::display::escape(&leaf.pointer), leaf));
        let by_pointer: HashMap<Cow<'_, str>, &json::Leaf<'_>> = by_pointer.collect();
        for row in rows.iter_mut().filter(|row| !row.hidden) {
            // The row may be clipped or escaped, so the search uses the whole value.
            let whole = by_pointer.get(row.pointer.as_str());
            if whole.is_some_and(|leaf| self.is_in(&leaf.text())) || self.is_in(&row.value) {
                let shown = whole.map(|leaf| self.text(&leaf.text()).into_owned());
                let shown = shown.unwrap_or_else(|| self.text(&row.value).into_owned());
                // INVARIANT: only the secret part of the value is replaced and nothing is cut, so the card stays
                // complete and can be approved.
                row.value = crate::display::escape(&shown).into_owned();
                (row.hidden, row.clipped) = (true, false);
            }
            if !self.is_in(&without_indexes(&row.pointer)) {
                continue;
            }
            if let Cow::Owned(pointer) = self.text(&row.pointer) {
                // Quotes in the name may keep the secret from being found there; the pointer is shown instead.
                row.name = match self.text(&row.name) {
                    Cow::Owned(name) => name,
                    Cow::Borrowed(_) => pointer.clone(),
                };
                (row.pointer, row.hidden) = (pointer, true);
            }
        }
        rows
    }

    /// Returns a JSON document with marks in place of secrets. The result is still JSON, and if nothing was hidden, it
    /// is unchanged byte for byte.
    pub fn json(&self, document: &[u8]) -> String {
        let plain = String::from_utf8_lossy(document);
        if !self.has_any() {
            return plain.into_owned();
        }
        let Ok(tree) = Tree::read(document, TopLevel::Any) else {
            return format!("\"{ALL_HIDDEN}\"");
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

/// A document with its secrets hidden.
pub(crate) struct HiddenTree<'a> {
    pub(crate) tree: Tree<'a>,
    is_changed: bool,
}

/// Returns a pointer without its short array indexes, because a secret that is a short number would match them by
/// chance.
fn without_indexes(pointer: &str) -> String {
    let is_index = |part: &&str| {
        !part.is_empty() && part.len() < SHORT && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = pointer.split('/').filter(|part| !is_index(part)).collect();
    parts.join("/")
}

/// Longest value in a row, in characters.
const LONGEST: usize = 1_000;

/// Returns true if the range is a separate word of the text: no letter or digit is next to it.
fn is_word(text: &str, place: &Range<usize>) -> bool {
    let before = text.get(..place.start).and_then(|text| text.chars().next_back());
    let after = text.get(place.end..).and_then(|text| text.chars().next());
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    !is_letter(before) && !is_letter(after)
}

impl Node<'_> {
    /// Returns true if the value is worth hiding where it is repeated: a number, or a text that is not only whitespace.
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
