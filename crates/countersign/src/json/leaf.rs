//! The values without parts inside accepted bytes, each with its place.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::{Step, scan};
use super::{Limits, Top};

/// What a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    String,
    /// A number of any size.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
    /// `{}`
    EmptyObject,
    /// `[]`
    EmptyArray,
}

/// One value without parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf<'a> {
    /// Where it is: a JSON pointer (RFC 6901).
    pub pointer: String,
    /// What it is.
    pub kind: Kind,
    /// The bytes it came from, quotes included.
    pub range: Range<usize>,
    /// Those bytes.
    pub raw: &'a str,
}

impl<'a> Leaf<'a> {
    /// A string's text without quotes and escapes; any other leaf as it is written.
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

/// The door has limited the bytes already, and nothing here grows with depth but the heap.
const UNLIMITED: Limits = Limits {
    bytes: usize::MAX,
    depth: usize::MAX,
    paths: usize::MAX,
};

/// Where a scan is: the pointer of the value it is at.
#[derive(Default)]
struct At {
    pointer: String,
    /// How long the pointer is of each object and array around it.
    around: Vec<usize>,
}

impl At {
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

/// Lists every leaf of bytes that [`check`](super::check) accepted, in their order.
///
/// An empty outer object is one leaf with the pointer ``. Of other bytes it lists what stands before the fault.
pub fn leaves(bytes: &[u8]) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    let mut at = At::default();
    let _fault = scan(bytes, UNLIMITED, Top::Object, |step| {
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

/// A member's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where the member is: a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The name without quotes and escapes.
    pub text: String,
}

/// Lists the names of all members of bytes that [`check`](super::check) accepted, in their order.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    let mut at = At::default();
    let _fault = scan(bytes, UNLIMITED, Top::Object, |step| {
        at.follow(&step);
        if let Step::Key(raw) = step {
            let pointer = at.pointer.clone();
            let text = unescape(raw).into_owned();
            found.push(Key { pointer, text });
        }
    });
    found
}

/// Finds the outermost values whose pointers are wanted, of bytes that [`check`](super::check) accepted, in their order:
/// each with the bytes it came from.
pub fn find(bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = At::default();
    // Where a wanted value with parts began, and how deep.
    let mut begun: Option<(usize, usize)> = None;
    let _fault = scan(bytes, UNLIMITED, Top::Object, |step| {
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

/// The pointer of the value that a byte of a JSON text belongs to; nothing for a key, or for text that is not JSON up to
/// there.
pub(crate) fn pointer_at(text: &str, offset: usize) -> Option<String> {
    let mut at = At::default();
    let mut is_value = false;
    // Cut off there, the scan ends inside the value.
    let _fault = scan(text.get(..offset)?.as_bytes(), UNLIMITED, Top::Any, |step| {
        is_value = matches!(step, Step::Key(_) | Step::Index(_));
        at.follow(&step);
    });
    is_value.then_some(at.pointer)
}

/// Appends `/segment`, with `~` and `/` written as RFC 6901 wants.
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

/// Resolves the escapes between a JSON string's quotes. Text that is not a JSON string's inside loses the faulty
/// escapes.
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

/// Reads `uXXXX` or `uXXXX\uXXXX`: the character and how many bytes it took.
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
