//! Leaves (scalars and empty containers) of accepted JSON, with their pointers.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::scan::{Step, scan};
use super::{Limits, TopLevel};

/// Type of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A string.
    String,
    /// A number of any size.
    Number,
    /// `true` or `false`.
    #[serde(rename = "boolean")]
    Bool,
    /// `null`.
    Null,
    /// An object; as a leaf, `{}`.
    Object,
    /// An array; as a leaf, `[]`.
    Array,
}

/// A scalar, or an empty object or array.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf<'a> {
    /// JSON pointer (RFC 6901).
    pub pointer: String,
    /// Type of the leaf.
    pub kind: Kind,
    /// Byte range in the input, including quotes.
    pub range: Range<usize>,
    /// Source text of the leaf, including quotes and escapes.
    pub raw: &'a str,
}

impl<'a> Leaf<'a> {
    /// Returns a string without quotes and escapes, or any other leaf as written.
    pub fn text(&self) -> Cow<'a, str> {
        match self.kind {
            Kind::String => {
                let inner = self.raw.get(1..self.raw.len().saturating_sub(1));
                unescape(inner.unwrap_or_default())
            }
            _ => Cow::Borrowed(self.raw),
        }
    }
}

/// No limits, because the bytes were checked before, and only heap use grows with depth.
const UNLIMITED: Limits = Limits {
    bytes: usize::MAX,
    depth: usize::MAX,
    paths: usize::MAX,
};

/// Tracks the pointer of the current value during a scan.
#[derive(Default)]
struct PointerTracker {
    pointer: String,
    /// Length of the pointer of each enclosing object and array.
    around: Vec<usize>,
}

impl PointerTracker {
    fn follow(&mut self, step: &Step<'_>) {
        match step {
            Step::Open { .. } => self.around.push(self.pointer.len()),
            Step::Key(raw) => self.below(&unescape(raw)),
            Step::Index(index) => self.below(&index.to_string()),
            Step::Close { .. } => self.pointer.truncate(self.around.pop().unwrap_or(0)),
            Step::Leaf(..) => {}
        }
    }

    fn below(&mut self, segment: &str) {
        self.pointer.truncate(self.around.last().copied().unwrap_or(0));
        push_segment(&mut self.pointer, segment);
    }
}

/// Lists every leaf, in order, of bytes that [`check`](super::check) accepted.
///
/// An empty outer object is one leaf with an empty pointer. For other bytes, lists the leaves before the fault.
pub fn leaves(bytes: &[u8]) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    let mut at = PointerTracker::default();
    let _fault = scan(bytes, UNLIMITED, TopLevel::Object, |step| {
        at.follow(&step);
        if let Step::Leaf(kind, range) = step {
            let raw = bytes.get(range.clone()).unwrap_or_default();
            found.push(Leaf {
                pointer: at.pointer.clone(),
                kind,
                range,
                raw: std::str::from_utf8(raw).unwrap_or_default(),
            });
        }
    });
    found
}

/// Name of an object member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// JSON pointer of the member (RFC 6901).
    pub pointer: String,
    /// The name without quotes and escapes.
    pub text: String,
}

/// Lists the names of all members, in order, of bytes that [`check`](super::check) accepted.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    let mut at = PointerTracker::default();
    let _fault = scan(bytes, UNLIMITED, TopLevel::Object, |step| {
        at.follow(&step);
        if let Step::Key(raw) = step {
            let pointer = at.pointer.clone();
            let text = unescape(raw).into_owned();
            found.push(Key { pointer, text });
        }
    });
    found
}

/// Finds the outermost values whose pointers satisfy `is_wanted`. Returns their pointers and byte ranges, in order. The
/// bytes must have been accepted by [`check`](super::check).
pub fn find(bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = PointerTracker::default();
    // Start and depth of a wanted object or array that is still open.
    let mut begun: Option<(usize, usize)> = None;
    let _fault = scan(bytes, UNLIMITED, TopLevel::Object, |step| {
        at.follow(&step);
        let depth = at.around.len();
        match step {
            Step::Open { at: from, .. } if begun.is_none() && is_wanted(&at.pointer) => {
                begun = Some((from, depth));
            }
            Step::Leaf(_, range) if begun.is_none() && is_wanted(&at.pointer) => {
                found.push((at.pointer.clone(), range));
            }
            Step::Close { at: to } => {
                if let Some((from, _)) = begun.take_if(|(_, begun)| *begun == depth + 1) {
                    found.push((at.pointer.clone(), from..to));
                }
            }
            _ => {}
        }
    });
    found
}

/// Returns the pointer of the value that contains the byte at `offset` of a JSON text. `None` if the byte belongs to a
/// key, or if the text before it is not JSON.
#[cfg(feature = "provenance")]
pub(crate) fn pointer_at(text: &str, offset: usize) -> Option<String> {
    let mut at = PointerTracker::default();
    let mut is_value = false;
    // The truncated text ends inside the value, so a fault is expected.
    let _fault = scan(text.get(..offset)?.as_bytes(), UNLIMITED, TopLevel::Any, |step| {
        is_value = matches!(step, Step::Key(_) | Step::Index(_));
        at.follow(&step);
    });
    is_value.then_some(at.pointer)
}

/// Appends `/segment`, escaping `~` and `/` according to RFC 6901.
pub(crate) fn push_segment(pointer: &mut String, segment: &str) {
    pointer.push('/');
    for character in segment.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// Resolves the escapes in the inside of a JSON string. Invalid escapes are dropped.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escape.chars();
        match characters.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => {
                let (character, length) = unicode_escape(escape);
                text.extend(character);
                rest = escape.get(length..).unwrap_or_default();
                continue;
            }
            Some(itself) => text.push(itself),
            None => {}
        }
        rest = characters.as_str();
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Decodes `uXXXX` or `uXXXX\uXXXX`; returns the character and the number of bytes consumed.
fn unicode_escape(escape: &str) -> (Option<char>, usize) {
    let unit = |from: usize| {
        let digits = escape.get(from..from + 4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(high) = unit(1) else {
        return (None, 1);
    };
    if !(0xd800..0xdc00).contains(&high) {
        return (char::from_u32(u32::from(high)), 5);
    }
    match unit(7) {
        Some(low) if escape.get(5..7) == Some("\\u") => {
            let pair = char::decode_utf16([high, low]).next();
            (pair.and_then(Result::ok), 11)
        }
        _ => (None, 5),
    }
}
