//! An outgoing message: JSON without any line break.
//!
//! Its bytes were accepted by the strict parser in `frame` or composed by the gateway, and contain no character at
//! which a reader could end a line. Everything that sends to a client or a server takes this type, so raw lines cannot
//! be sent.
//!
//! MCP over stdio ends a message with a line feed, but readers end lines at more characters: text mode in Python at CR,
//! `readline` in Node.js at U+2028 and U+2029, `str.splitlines` also at VT, FF, FS, GS, RS and U+0085. In JSON, a
//! control character can only occur outside strings, where it is whitespace at best; U+0085, U+2028 and U+2029 can only
//! occur inside strings, where an escape means the same. So all of them can be replaced without changing the meaning.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use countersign::stopwatch::TimeLimit;
use memchr::memmem;
use tokio::sync::oneshot;

/// Non-ASCII characters that end a line for some reader, and their JSON escapes.
const LINE_ENDS: [(&str, &[u8]); 3] = [
    ("\u{85}", b"\\u0085"),
    ("\u{2028}", b"\\u2028"),
    ("\u{2029}", b"\\u2029"),
];
/// Number of bytes checked at a time.
const CHUNK: usize = 64;

/// A message without line breaks; an empty one is a keepalive.
#[derive(Clone, Default)]
pub struct OneLine(Bytes, Option<Arc<Until>>);

/// Time limit for sending a message, and the channel that reports that the message was held back.
struct Until {
    limit: TimeLimit,
    held_back: Mutex<Option<oneshot::Sender<()>>>,
}

impl PartialEq for OneLine {
    fn eq(&self, other: &OneLine) -> bool {
        self.0 == other.0
    }
}

impl Eq for OneLine {}

impl OneLine {
    /// Creates a line from a JSON message. Copies only if a character has to be replaced.
    ///
    /// INVARIANT: whatever `message` contains, the line has no control character but the tab, and no U+0085, U+2028 or
    /// U+2029.
    pub fn new(message: impl Into<Bytes>) -> OneLine {
        let message = without_line_end(message.into());
        match is_one_line(&message) {
            true => OneLine(message, None),
            false => OneLine(replaced(&message).into(), None),
        }
    }

    /// Returns the same message with a time limit after which it is not sent (X84). The receiver fires only if the
    /// message is held back.
    pub fn until(self, limit: TimeLimit) -> (OneLine, oneshot::Receiver<()>) {
        let (sender, held_back) = oneshot::channel();
        let until = Until {
            limit,
            held_back: Mutex::new(Some(sender)),
        };
        (OneLine(self.0, Some(Arc::new(until))), held_back)
    }

    /// Returns true if the message was held back because it was late, which has been reported to its sender.
    pub fn was_held_back(&self) -> bool {
        self.1.as_ref().is_some_and(|until| {
            let held_back = until.held_back.lock().unwrap_or_else(PoisonError::into_inner);
            held_back.is_none()
        })
    }

    /// Returns true if the message may still be sent; otherwise reports to its sender that it is held back. This must
    /// be the last check before writing, and a late message must not be written.
    pub fn is_in_time(&self) -> bool {
        let Some(until) = &self.1 else {
            return true;
        };
        if until.limit.left().is_some() {
            return true;
        }
        let waiting = until
            .held_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waiting) = waiting {
            let _ = waiting.send(());
        }
        false
    }

    /// Returns the empty line that keeps an HTTP stream open. It is not written to pipes.
    pub fn sign_of_life() -> OneLine {
        OneLine::default()
    }

    /// Returns the bytes, sharing their memory.
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Returns the bytes of a range, sharing their memory; `None` if the range is out of bounds.
    pub fn part(&self, place: Range<usize>) -> Option<Bytes> {
        (place.start <= place.end && place.end <= self.0.len()).then(|| self.0.slice(place))
    }

    /// Returns the message with one range replaced.
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

/// Strips trailing line ends, which belong to the transport.
fn without_line_end(message: Bytes) -> Bytes {
    let kept = message.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
    message.slice(..kept.map_or(0, |last| last + 1))
}

fn is_one_line(message: &[u8]) -> bool {
    // No early exit inside a chunk, so that the loop can be vectorized.
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
        // Characters that share bytes with a line end.
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
