//! Bytes that are not a valid message: the reason, and the request that they seem to belong to.
//!
//! Bytes that the strict parser rejected are searched for request ids, so that a waiting caller learns that no answer
//! will come. The ids are used only to end waits and to name requests in errors; nothing is forwarded because of them.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::frame::{Id, Unreadable};

/// Number of bytes kept and searched for ids.
const LOOKED_AT: usize = 1024 * 1024;
/// Maximum number of ids collected.
const MOST_IDS: usize = 4;

/// Bytes that could not be read as a message.
#[derive(Clone, Debug)]
pub struct Bad {
    problem: Unreadable,
    bytes: Bytes,
}

/// The ids found in unreadable bytes, and whether a `method` member was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LenientReading {
    ids: Vec<Id>,
    has_method: bool,
}

impl Bad {
    /// Creates the error from its reason and the first `LOOKED_AT` bytes.
    pub fn new(problem: Unreadable, bytes: Bytes) -> Bad {
        let bytes = bytes.slice(..bytes.len().min(LOOKED_AT));
        Bad { problem, bytes }
    }

    /// Returns why the bytes are not a message.
    pub fn problem(&self) -> &Unreadable {
        &self.problem
    }

    /// Returns true if the bytes are only whitespace, which is allowed between messages.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }

    /// Returns true if the JSON of this id occurs anywhere in the bytes.
    pub fn mentions(&self, id: &Id) -> bool {
        memchr::memmem::find(&self.bytes, id.as_json().as_bytes()).is_some()
    }

    /// Searches the bytes for ids and for a method, up to the point where they are no longer JSON.
    pub fn seems(&self) -> LenientReading {
        let text = String::from_utf8_lossy(&self.bytes);
        // In a batch, look at the first message only.
        let text = text.trim_start_matches(['\u{feff}', '[', ' ', '\t', '\r', '\n']);
        let mut seems = LenientReading::default();
        // Members found before the syntax error still count.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(LenientVisitor(&mut seems));
        seems
    }
}

impl LenientReading {
    /// Returns the ids of the requests that the bytes may answer. Empty if the bytes contain a method, because a
    /// response has none.
    pub fn answers(&self) -> &[Id] {
        match self.has_method {
            true => &[],
            false => &self.ids,
        }
    }

    /// Returns the id if the bytes seem to be a request, which means that they contain a method and exactly one id;
    /// otherwise `None`.
    pub fn asks(&self) -> Option<&Id> {
        self.only_id().filter(|_| self.has_method)
    }

    /// Returns the id found in the bytes; `None` if there is none or more than one.
    pub fn only_id(&self) -> Option<&Id> {
        match self.ids.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

struct LenientVisitor<'s>(&'s mut LenientReading);

impl<'de> Visitor<'de> for LenientVisitor<'_> {
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
    fn check(bytes: &[u8], answers: &[&str], asks: Option<&str>) {
        let bad = Bad::new(Unreadable::new("bad"), Bytes::copy_from_slice(bytes));
        let seems = bad.seems();
        let shown = String::from_utf8_lossy(bytes);
        let found: Vec<&str> = seems.answers().iter().map(Id::as_json).collect();
        assert_eq!(found, answers, "{shown}");
        assert_eq!(seems.asks().map(Id::as_json), asks, "{shown}");
    }

    #[test]
    fn x82_a_bad_message_tells_what_it_seems_to_be_about() {
        check(br#"{"id":1,"result":{},"result":{}}"#, &["1"], None);
        check(b"{\"id\":\"a\",\"result\":{\"x\":\"\xff\"}}", &["\"a\""], None);
        check(br#"{"id":1,"result":{"x":NaN}}"#, &["1"], None);
        check(br#"{"id":1,"result":{"x":"#, &["1"], None);
        check(br#"{"id":1,"id":2,"result":{}}"#, &["1", "2"], None);
        check(br#"{"id":1,"id":1,"result":{}}"#, &["1"], None);
        check(
            br#"{"method":"m","id":1,"params":{},"params":{}}"#,
            &[],
            Some("1"),
        );
        check(b"server started", &[], None);
        check(br#" [{"id":1,"result":{}},{"id":2,"result":{}}]"#, &["1"], None);
        check(b"\xef\xbb\xbf{\"id\":1,\"result\":{}}", &["1"], None);
    }
}
