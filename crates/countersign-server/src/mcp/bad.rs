//! Bytes that are no message: why, and what they seem to be about.
//!
//! Enters: what the strict reader turned away. Leaves: the ids that stand in it, so that whoever waits for an answer hears
//! that there will be none. What is found here ends waits and names requests in errors; nothing is let through by it.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::frame::{Id, Unreadable};

/// How much of the bytes is looked at for ids.
const LOOKED_AT: usize = 1024 * 1024;
/// The most ids that are looked at.
const MOST_IDS: usize = 4;

/// Bytes that could not be read as a message.
#[derive(Clone, Debug)]
pub struct Bad {
    problem: Unreadable,
    bytes: Bytes,
}

/// What bad bytes seem to be about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seems {
    ids: Vec<Id>,
    has_method: bool,
}

impl Bad {
    /// Bytes that could not be read, for this reason. The beginning of a message that is too long is enough.
    pub fn new(problem: Unreadable, bytes: Bytes) -> Bad {
        let bytes = bytes.slice(..bytes.len().min(LOOKED_AT));
        Bad { problem, bytes }
    }

    /// Why they are no message.
    pub fn problem(&self) -> &Unreadable {
        &self.problem
    }

    /// Whether there is nothing but whitespace in them, as between messages.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }

    /// Whether this id stands anywhere in them.
    pub fn mentions(&self, id: &Id) -> bool {
        memchr::memmem::find(&self.bytes, id.as_json().as_bytes()).is_some()
    }

    /// What they seem to be about, read as kindly as can be.
    pub fn seems(&self) -> Seems {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut seems = Seems::default();
        // What was found before the text makes no sense any more counts.
        let _ = serde_json::Deserializer::from_str(&text).deserialize_map(Look(&mut seems));
        seems
    }
}

impl Seems {
    /// The one request that they answer.
    pub fn answers(&self) -> Option<&Id> {
        self.only_id().filter(|_| !self.has_method)
    }

    /// The one id under which they ask something.
    pub fn asks(&self) -> Option<&Id> {
        self.only_id().filter(|_| self.has_method)
    }

    /// The id in them, if there is no other one.
    pub fn only_id(&self) -> Option<&Id> {
        match self.ids.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

struct Look<'s>(&'s mut Seems);

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => {
                    let id = Id::read(map.next_value::<&RawValue>()?);
                    if self.0.ids.len() < MOST_IDS {
                        self.0.ids.extend(id.filter(|id| !self.0.ids.contains(id)));
                    }
                }
                "method" => {
                    self.0.has_method = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], answers: Option<&str>, asks: Option<&str>) {
        let bad = Bad::new(Unreadable::new("bad"), Bytes::copy_from_slice(bytes));
        let seems = bad.seems();
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(seems.answers().map(Id::as_json), answers, "{shown}");
        assert_eq!(seems.asks().map(Id::as_json), asks, "{shown}");
    }

    #[test]
    fn x82_a_bad_message_tells_what_it_seems_to_be_about() {
        check(br#"{"id":1,"result":{},"result":{}}"#, Some("1"), None);
        check(b"{\"id\":\"a\",\"result\":{\"x\":\"\xff\"}}", Some("\"a\""), None);
        check(br#"{"id":1,"result":{"x":NaN}}"#, Some("1"), None);
        check(br#"{"id":1,"result":{"x":"#, Some("1"), None);
        check(br#"{"id":1,"id":2,"result":{}}"#, None, None);
        check(br#"{"id":1,"id":1,"result":{}}"#, Some("1"), None);
        check(
            br#"{"method":"m","id":1,"params":{},"params":{}}"#,
            None,
            Some("1"),
        );
        check(b"server started", None, None);
        check(br#"[{"id":1,"result":{}}]"#, None, None);
    }
}
