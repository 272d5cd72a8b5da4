//! A message on its way out: JSON that is one line for every reader.
//!
//! Enters: bytes that the strict reader in `frame` accepted, or text that we wrote. Leaves: the same JSON without any
//! character at which a reader could end a line. Deliberately absent: a way around it. Everything that sends to a client or
//! to a server takes this type, so no path can send a raw line.
//!
//! MCP ends a message on standard input with a line feed, but readers end lines at more than that: text mode in Python at
//! CR, `readline` in Node.js at U+2028 and U+2029, `str.splitlines` also at VT, FF, FS, GS, RS and U+0085. In JSON, a
//! control character can only stand outside of strings, where it is whitespace at best; U+0085, U+2028 and U+2029 can only
//! stand inside strings, where an escape means the same. So all of them can be replaced without a change of meaning.

use std::fmt;
use std::ops::{Deref, Range};

use bytes::Bytes;
use memchr::memmem;

/// Characters above ASCII that end a line for some reader, and how JSON writes them otherwise.
const LINE_ENDS: [(&str, &[u8]); 3] = [
    ("\u{85}", b"\\u0085"),
    ("\u{2028}", b"\\u2028"),
    ("\u{2029}", b"\\u2029"),
];
/// Bytes that are looked at together.
const CHUNK: usize = 64;

/// A message that is one line for every reader; or none, as a sign of life.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OneLine(Bytes);

impl OneLine {
    /// Takes a message that is JSON. Nothing is copied unless a character has to be replaced.
    ///
    /// INVARIANT: what is inside holds no control character but the tab, and no U+0085, U+2028 or U+2029, whatever came.
    pub fn new(message: impl Into<Bytes>) -> OneLine {
        let message = without_line_end(message.into());
        match is_one_line(&message) {
            true => OneLine(message),
            false => OneLine(replaced(&message).into()),
        }
    }

    /// Returns the empty line that keeps an HTTP stream open. Pipes to servers and clients leave it out.
    pub fn sign_of_life() -> OneLine {
        OneLine::default()
    }

    /// The bytes, sharing their memory.
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The bytes of one part, sharing their memory.
    pub fn part(&self, place: Range<usize>) -> Option<Bytes> {
        (place.start <= place.end && place.end <= self.0.len()).then(|| self.0.slice(place))
    }

    /// The same message with one part replaced.
    pub fn splice(&self, place: Range<usize>, with: &[u8]) -> OneLine {
        let mut spliced = Vec::with_capacity(self.0.len() + with.len());
        spliced.extend_from_slice(self.0.get(..place.start).unwrap_or_default());
        spliced.extend_from_slice(with);
        spliced.extend_from_slice(self.0.get(place.end..).unwrap_or_default());
        OneLine::new(spliced)
    }
}

impl Deref for OneLine {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for OneLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The line end behind a message belongs to how it travelled.
fn without_line_end(message: Bytes) -> Bytes {
    let kept = message.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
    message.slice(..kept.map_or(0, |last| last + 1))
}

fn is_one_line(message: &[u8]) -> bool {
    // Without an early end inside a chunk, so that compilers use wide instructions.
    let has_control = |chunk: &[u8]| chunk.iter().fold(false, |found, byte| found | is_control(*byte));
    if message.chunks(CHUNK).any(has_control) {
        return false;
    }
    let mut ends = LINE_ENDS.iter().map(|(end, _)| end.as_bytes());
    message.is_ascii() || !ends.any(|end| memmem::find(message, end).is_some())
}

const fn is_control(byte: u8) -> bool {
    byte < 0x20 && byte != b'\t'
}

fn replaced(message: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(message.len() + 64);
    let mut rest = message;
    while let Some(byte) = rest.first() {
        let end = LINE_ENDS.iter().find(|(end, _)| rest.starts_with(end.as_bytes()));
        let taken = match end {
            Some((end, escape)) => {
                made.extend_from_slice(escape);
                end.len()
            }
            None => {
                made.push(if is_control(*byte) { b' ' } else { *byte });
                1
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        let made = OneLine::new(message.to_owned());
        assert_eq!(&*made, expected.as_bytes(), "{message:?}");
    }

    #[test]
    fn x73_every_line_end_is_replaced() {
        check("{\"a\":1}\r\n", "{\"a\":1}");
        check("{\r\n\t\"a\":\n1\r}", "{  \t\"a\": 1 }");
        check(
            "{\"a\":\"x\u{85}\u{2028}\u{2029}y\"}",
            r#"{"a":"x\u0085\u2028\u2029y"}"#,
        );
        check("{\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{0}}", "{      }");
        check("\n\r\n", "");
        check(r#"{"a":"\n\r\u2028"}"#, r#"{"a":"\n\r\u2028"}"#);
        // Each has bytes in common with a line end.
        check(
            "{\"a\":\"Å…\u{2027}\u{202a}\u{84}\u{86}漢\"}",
            "{\"a\":\"Å…\u{2027}\u{202a}\u{84}\u{86}漢\"}",
        );
    }

    #[test]
    fn what_needs_no_change_is_not_copied() {
        let bytes = Bytes::from_static("{\"a\":\"é\"}\n".as_bytes());
        let made = OneLine::new(bytes.clone());
        assert_eq!(made.as_ptr(), bytes.as_ptr());
        assert_eq!(made.splice(5..5, b"\n"), OneLine::new("{\"a\": \"é\"}"));
    }
}
