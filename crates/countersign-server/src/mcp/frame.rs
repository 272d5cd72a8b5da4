//! One JSON-RPC message as the bytes it came in, and where its parts stand in them.
//!
//! Enters: the bytes of one message. Leaves: what kind it is, its id and the places of its members.
//! Deliberately absent: a parsed form that could be written out again. What is forwarded are the bytes.
//!
//! A member that stands there twice, or under a name that differs from a known one only in case, makes the message
//! unreadable: the server behind might read another one than we do.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A message.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Every byte of it, as it came.
    pub bytes: Bytes,
    /// What it is.
    pub kind: Kind,
    /// Where its id stands.
    pub id: Option<Range<usize>>,
    /// Where its parameters stand.
    pub params: Option<Range<usize>>,
    /// Where its result stands.
    pub result: Option<Range<usize>>,
    /// Where its error stands.
    pub error: Option<Range<usize>>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It wants an answer.
    Request {
        /// To be answered under this id.
        id: Id,
        /// What is wanted.
        method: String,
    },
    /// It wants none.
    Notification {
        /// What it tells.
        method: String,
    },
    /// It is an answer.
    Response {
        /// To this request.
        id: Id,
    },
    /// It is a list of messages, as the protocol once allowed.
    Batch,
}

/// A request's id, comparable however it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    /// For this reason.
    pub fn new(reason: &str) -> Unreadable {
        Unreadable(reason.to_owned())
    }
}

impl Id {
    /// An id of ours.
    pub fn own(text: &str) -> Id {
        Id(quote(text).into())
    }

    /// Reads an id: a string or a number.
    pub fn read(raw: &RawValue) -> Option<Id> {
        let text = raw.get();
        match text.as_bytes().first()? {
            b'"' => Some(Id(quote(&serde_json::from_str::<String>(text).ok()?).into())),
            b'-' | b'0'..=b'9' => Some(Id(text.into())),
            _ => None,
        }
    }

    /// The id as JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl Frame {
    /// Looks at a message.
    pub fn read(bytes: Bytes) -> Result<Frame, Unreadable> {
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            serde_json::from_slice::<&RawValue>(&bytes).map_err(unreadable)?;
            return Ok(Frame::of(bytes, Kind::Batch));
        }
        let [id, method, params, result, error] =
            pick(&bytes, ["id", "method", "params", "result", "error"])?;
        let method: Option<String> = match method {
            Some(raw) => Some(serde_json::from_str(raw.get()).map_err(unreadable)?),
            None => None,
        };
        let known = id.and_then(Id::read);
        let kind = match (known, method) {
            (Some(id), Some(method)) => Kind::Request { id, method },
            (None, Some(method)) if id.is_none() => Kind::Notification { method },
            (Some(id), None) if result.is_some() != error.is_some() => Kind::Response { id },
            // An error about a message nobody could read has no id to name.
            (None, None) if error.is_some() && result.is_none() => Kind::Response {
                id: Id("null".into()),
            },
            _ => {
                return Err(Unreadable::new(
                    "it is neither a request nor a notification nor a response",
                ));
            }
        };
        let place = |raw: Option<&RawValue>| raw.map(|raw| span(&bytes, raw.get()));
        let (id, params) = (place(id), place(params));
        let (result, error) = (place(result), place(error));
        Ok(Frame {
            id,
            params,
            result,
            error,
            ..Frame::of(bytes, kind)
        })
    }

    fn of(bytes: Bytes, kind: Kind) -> Frame {
        Frame {
            bytes,
            kind,
            id: None,
            params: None,
            result: None,
            error: None,
        }
    }

    /// The bytes of one part.
    pub fn part(&self, place: &Option<Range<usize>>) -> Option<&[u8]> {
        place.clone().and_then(|place| self.bytes.get(place))
    }

    /// The bytes of one part, sharing the frame's memory.
    pub fn shared(&self, place: &Option<Range<usize>>) -> Option<Bytes> {
        let place = place.clone().filter(|place| place.end <= self.bytes.len())?;
        Some(self.bytes.slice(place))
    }
}

/// Where a part of some bytes stands in them.
pub fn span(whole: &[u8], part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// The same bytes with one part replaced.
pub fn splice(bytes: &[u8], place: Range<usize>, with: &[u8]) -> Bytes {
    let mut spliced = Vec::with_capacity(bytes.len() + with.len());
    spliced.extend_from_slice(bytes.get(..place.start).unwrap_or_default());
    spliced.extend_from_slice(with);
    spliced.extend_from_slice(bytes.get(place.end..).unwrap_or_default());
    spliced.into()
}

/// A text as JSON.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The named members of an object, wherever they stand in it.
pub fn pick<'a, const N: usize>(
    object: &'a [u8],
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], Unreadable> {
    let mut deserializer = serde_json::Deserializer::from_slice(object);
    let picked = deserializer
        .deserialize_map(Members { names: &names })
        .map_err(unreadable)?;
    deserializer.end().map_err(unreadable)?;
    Ok(picked)
}

/// A member of the `_meta` of parameters.
pub fn pick_meta<'a>(params: &'a [u8], name: &str) -> Option<&'a RawValue> {
    let [meta] = pick(params, ["_meta"]).ok()?;
    let [found] = pick(meta?.get().as_bytes(), [name]).ok()?;
    found
}

/// All members of an object in their order: the name as it stands there, and the value.
pub fn members(object: &[u8]) -> Option<Vec<(String, &RawValue)>> {
    struct All;
    impl<'de> Visitor<'de> for All {
        type Value = Vec<(String, &'de RawValue)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(member) = map.next_entry()? {
                all.push(member);
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_slice(object)
        .deserialize_map(All)
        .ok()
}

fn unreadable(error: serde_json::Error) -> Unreadable {
    Unreadable(error.to_string())
}

struct Members<'n, const N: usize> {
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut picked = [None; N];
        while let Some(position) = map.next_key_seed(Name(self.names))? {
            match position {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(position) => {
                    let place = picked.get_mut(position);
                    let value = Some(map.next_value()?);
                    if place.is_some_and(|place| std::mem::replace(place, value).is_some()) {
                        return Err(A::Error::custom("a member stands there twice"));
                    }
                }
            }
        }
        Ok(picked)
    }
}

/// Which of the names a key is.
struct Name<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let found = self.0.iter().position(|name| name.eq_ignore_ascii_case(key));
        match found {
            Some(position) if self.0.get(position) != Some(&key) => {
                Err(E::custom(format!("`{}` is not a member", key.escape_default())))
            }
            found => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Kind>) {
        let read = Frame::read(Bytes::copy_from_slice(text.as_bytes()));
        assert_eq!(read.ok().map(|frame| frame.kind), expected, "{text}");
    }

    fn request(id: &str, method: &str) -> Option<Kind> {
        let (id, method) = (Id(id.into()), method.to_owned());
        Some(Kind::Request { id, method })
    }

    #[test]
    fn messages_are_told_apart() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            request("1", "ping"),
        );
        check(
            r#" {"method":"p\u0069ng","id":"\u0061"} "#,
            request("\"a\"", "ping"),
        );
        let method = "ping".to_owned();
        check(r#"{"method":"ping"}"#, Some(Kind::Notification { method }));
        let id = Id("7".into());
        check(r#"{"id":7,"result":{}}"#, Some(Kind::Response { id: id.clone() }));
        check(r#"{"id":7,"error":{}}"#, Some(Kind::Response { id }));
        check(r#"[{"method":"ping"}]"#, Some(Kind::Batch));
    }

    #[test]
    fn x23_what_another_parser_might_read_otherwise_is_unreadable() {
        for text in [
            "",
            "nonsense",
            r#"{"method":"ping"} {"method":"tools/call"}"#,
            r#"{"id":1,"method":"ping","method":"tools/call"}"#,
            r#"{"id":1,"method":"ping","m\u0065thod":"tools/call"}"#,
            r#"{"id":1,"method":"ping","Method":"tools/call"}"#,
            r#"{"id":1,"METHOD":"tools/call"}"#,
            r#"{"id":1,"params":{},"params":{},"method":"ping"}"#,
            r#"{"id":null,"method":"tools/call"}"#,
            r#"{"id":[1],"method":"tools/call"}"#,
            r#"{"id":1,"result":{},"error":{}}"#,
            r#"{"id":1}"#,
            "{\"id\":1,\"method\":\"ping\",}",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn parts_are_the_bytes_that_came() {
        let text = r#"{ "params" : {"b":1e2, "a":12345678901234567890123} ,"id":"x","method":"m"}"#;
        let frame = Frame::read(Bytes::from_static(text.as_bytes())).unwrap();
        let params = frame.part(&frame.params).unwrap();
        assert_eq!(params, br#"{"b":1e2, "a":12345678901234567890123}"#);
        let spliced = splice(&frame.bytes, frame.id.clone().unwrap(), b"9");
        assert_eq!(spliced, text.replace("\"x\"", "9"));
        let listed = members(params).unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|(name, raw)| (name.as_str(), raw.get()))
            .collect();
        assert_eq!(listed, [("b", "1e2"), ("a", "12345678901234567890123")]);
    }
}
