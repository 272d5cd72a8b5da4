//! Strict parser for one JSON-RPC message, which finds the byte ranges of its members.
//!
//! The result is the kind of message, its id and the ranges of its members, in bytes without line breaks. There is no
//! parsed form that could be serialized again, because messages are forwarded as bytes.
//!
//! Anything that two parsers might read differently is rejected: duplicate members at any depth, members whose name
//! differs from a known one only in case, invalid UTF-8, ids that are not exact integers in every parser, and JSON-RPC
//! batches, which the protocol once allowed. `bad` extracts what it can from rejected bytes.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use countersign::json::{self, Limits};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bad::Bad;
use super::one_line::OneLine;

/// Maximum size of a message in bytes.
pub const LONGEST: usize = 256 * 1024 * 1024;
/// Maximum nesting depth of a message. Many JSON parsers are recursive and accept less.
const DEEPEST: usize = 512;
/// Largest whole number that every parser reads exactly; doubles round some larger ones.
const LARGEST_ID: i64 = (1 << 53) - 1;

/// A JSON-RPC message, and the byte ranges of its members.
#[derive(Clone, Debug)]
pub struct Frame {
    /// All bytes of the message, as shown, stored and sent.
    pub line: OneLine,
    /// Request, notification or response.
    pub kind: Kind,
    /// Byte range of the id in `line`; `None` if the message has no id.
    pub id: Option<Range<usize>>,
    /// Byte range of the parameters in `line`; `None` if the message has none.
    pub params: Option<Range<usize>>,
    /// Byte range of the result in `line`; `None` if the message has none.
    pub result: Option<Range<usize>>,
    /// Byte range of the error in `line`; `None` if the message has none.
    pub error: Option<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message that wants a response.
    Request {
        /// The request id, which the response repeats.
        id: Id,
        /// The method's name.
        method: String,
    },
    /// A message that wants no response.
    Notification {
        /// The method's name.
        method: String,
    },
    /// A response, with a result or an error.
    Response {
        /// The id of the request; `null` for an error about an unreadable message.
        id: Id,
    },
}

/// A request id in normal form, so that different spellings of the same id are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

/// Why bytes are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    /// Creates an error with this reason.
    pub fn new(reason: &str) -> Unreadable {
        Unreadable(reason.to_owned())
    }
}

impl Id {
    /// Creates a random id that cannot be guessed from other ids. Returns `None` if no random bytes are available.
    pub fn unguessable(prefix: &str) -> Option<Id> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).ok()?;
        Some(Id::own(&format!("{prefix}{:032x}", u128::from_be_bytes(random))))
    }

    /// Creates the id of a request that the gateway itself sends, from the plain text of the id.
    pub fn own(text: &str) -> Id {
        Id(quote(text).into())
    }

    /// Reads an id. `None` if it is neither a string nor a whole number that every parser reads exactly.
    pub fn read(raw: &RawValue) -> Option<Id> {
        let text = raw.get();
        if text.starts_with('"') {
            return Some(Id(quote(&serde_json::from_str::<String>(text).ok()?).into()));
        }
        let number: i64 = text.parse().ok()?;
        let is_exact = number.checked_abs()? <= LARGEST_ID && number.to_string() == text;
        is_exact.then(|| Id(text.into()))
    }

    /// Returns the id as JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl Frame {
    /// Parses a message from a client or a server. Anything that two parsers might read differently is rejected.
    pub fn read(bytes: Bytes) -> Result<Frame, Bad> {
        match strictly(&bytes) {
            Ok(()) => Frame::again(OneLine::new(bytes.clone())).map_err(|problem| Bad::new(problem, bytes)),
            Err(problem) => Err(Bad::new(problem, bytes)),
        }
    }

    /// Parses a message that was strictly checked as it arrived and has been edited since.
    pub fn read_line(line: OneLine) -> Result<Frame, Bad> {
        let bytes = line.bytes();
        Frame::again(line).map_err(|problem| Bad::new(problem, bytes))
    }

    /// Parses a message without the strict check, because it was checked as it arrived or this gateway wrote it.
    pub fn again(line: OneLine) -> Result<Frame, Unreadable> {
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        let [version, raw_id, method, params, result, error] = pick(&line, names)?;
        let is_known = |version: &RawValue| {
            serde_json::from_str::<String>(version.get()).is_ok_and(|version| version == "2.0")
        };
        if !version.is_none_or(is_known) {
            return Err(Unreadable::new("`jsonrpc` is not \"2.0\""));
        }
        if params.is_some_and(|params| !params.get().starts_with('{') && params.get() != "null") {
            return Err(Unreadable::new("`params` is no object"));
        }
        let method = match method {
            Some(method) => Some(method_name(method)?),
            None => None,
        };
        let id = match raw_id.map(|raw_id| (raw_id.get(), Id::read(raw_id))) {
            None | Some(("null", _)) => None,
            Some((_, Some(id))) => Some(id),
            Some((_, None)) => {
                return Err(Unreadable::new(
                    "`id` is neither a string nor a whole number below 2^53",
                ));
            }
        };
        let answer = (result.is_some(), error.is_some());
        let kind = match (id, method) {
            (Some(id), Some(method)) if answer == (false, false) => Kind::Request { id, method },
            (None, Some(method)) if answer == (false, false) && raw_id.is_none() => {
                Kind::Notification { method }
            }
            (Some(id), None) if answer.0 != answer.1 && params.is_none() => Kind::Response { id },
            // An error about an unreadable message has no id.
            (None, None) if answer == (false, true) && params.is_none() => Kind::Response {
                id: Id("null".into()),
            },
            _ => {
                return Err(Unreadable::new(
                    "it is neither a request nor a notification nor a response",
                ));
            }
        };
        let place = |raw: Option<&RawValue>| raw.map(|raw| span(&line, raw.get()));
        let (id, params) = (place(raw_id), place(params));
        let (result, error) = (place(result), place(error));
        Ok(Frame {
            line,
            kind,
            id,
            params,
            result,
            error,
        })
    }

    /// Returns the bytes of the member at `place`; `None` if the message has no such member.
    pub fn part(&self, place: &Option<Range<usize>>) -> Option<&[u8]> {
        place.clone().and_then(|place| self.line.get(place))
    }

    /// Returns the bytes of the member at `place`, sharing the frame's memory; `None` if the message has no such
    /// member.
    pub fn shared(&self, place: &Option<Range<usize>>) -> Option<Bytes> {
        self.line.part(place.clone()?)
    }
}

/// Checks that the bytes are exactly one JSON object that every parser reads alike.
fn strictly(bytes: &[u8]) -> Result<(), Unreadable> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Unreadable::new("it is a list; send messages one by one"));
    }
    let limits = Limits {
        bytes: LONGEST,
        depth: DEEPEST,
        paths: usize::MAX,
    };
    json::check_message(bytes, limits).map_err(|malformed| {
        let reason = malformed.reason.to_string();
        // The lines after the first are hints about arguments, which do not apply to a message.
        let reason = reason.lines().next().unwrap_or_default();
        Unreadable(format!("{reason} at byte {}", malformed.at))
    })
}

/// Reads a method's name. Only printable ASCII is accepted, as in the protocol: parsers may differ about anything else.
fn method_name(raw: &RawValue) -> Result<String, Unreadable> {
    let name = serde_json::from_str::<String>(raw.get()).ok();
    let is_plain = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    name.filter(is_plain)
        .ok_or_else(|| Unreadable::new("`method` is not a name in plain ASCII"))
}

/// Returns the range of `part` in `whole`; `part` must be a slice of `whole`.
pub fn span(whole: &[u8], part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// Returns the bytes with one range replaced.
pub fn splice(bytes: &[u8], place: Range<usize>, with: &[u8]) -> Bytes {
    let mut spliced = Vec::with_capacity(bytes.len() + with.len());
    spliced.extend_from_slice(bytes.get(..place.start).unwrap_or_default());
    spliced.extend_from_slice(with);
    spliced.extend_from_slice(bytes.get(place.end..).unwrap_or_default());
    spliced.into()
}

/// Returns a text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the named members of an object. Fails if a member occurs twice or its name differs from a wanted one only in
/// case.
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

/// Returns a member of `_meta` in the parameters of a message; `None` if it is missing or `_meta` cannot be read.
pub fn pick_meta<'a>(params: &'a [u8], name: &str) -> Option<&'a RawValue> {
    let [meta] = pick(params, ["_meta"]).ok()?;
    let [found] = pick(meta?.get().as_bytes(), [name]).ok()?;
    found
}

/// Returns all members of an object in order, as name and raw value; `None` if `object` is not a JSON object.
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

/// Deserializes a key into its position in the list of names.
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
        // Fold the two non-ASCII letters that case-insensitive parsers, such as Go's, take for `s` and `k`.
        let folded = match key.is_ascii() {
            true => std::borrow::Cow::Borrowed(key),
            false => std::borrow::Cow::Owned(key.replace('\u{17f}', "s").replace('\u{212a}', "k")),
        };
        let found = self.0.iter().position(|name| name.eq_ignore_ascii_case(&folded));
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
    use crate::mcp::generator;

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
        check(r#"{"id":7,"error":{}}"#, Some(Kind::Response { id: id.clone() }));
        check(r#"{"id":7,"result":{"x":"\ud83d"}}"#, Some(Kind::Response { id }));
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
            r#"[{"method":"ping"}]"#,
            "[]",
            r#"{"id":1,"method":"ping","params":{"a":{"b":1,"\u0062":2}}}"#,
            r#"{"id":1,"method":"ping","params":{"\ud800":1}}"#,
            r#"{"id":1,"method":"ping","params":[]}"#,
            r#"{"id":1,"method":"ping","params":"{}"}"#,
            r#"{"id":1,"method":"ping","paramſ":{}}"#,
            r#"{"id":1,"method":"ping","result":{}}"#,
            r#"{"id":1,"result":{},"params":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            r#"{"id":1.0,"method":"ping"}"#,
            r#"{"id":1e0,"method":"ping"}"#,
            r#"{"id":-0,"method":"ping"}"#,
            r#"{"id":9007199254740993,"method":"ping"}"#,
            r#"{"id":1,"method":"ping","params":{"x":NaN}}"#,
            r#"{"id":1,"method":["tools/call"]}"#,
            r#"{"id":1,"method":"tools/call "}"#,
            r#"{"id":1,"method":"tools\u200b/call"}"#,
            "\u{feff}{\"id\":1,\"method\":\"ping\"}",
            "{\"id\":1,\u{2028}\"method\":\"ping\"}",
            "{\"id\":1,\u{b}\"method\":\"ping\"}",
            "{\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\r\"}}",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_unreadable() {
        let bytes = Bytes::from_static(b"{\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}");
        let bad = Frame::read(bytes).unwrap_err();
        assert_eq!(bad.problem().to_string(), "not UTF-8 at byte 39");
    }

    #[test]
    fn x73_parts_stand_in_bytes_that_are_one_line() {
        let text = "{\r\n \"id\":1,\n \"method\":\"m\",\r \"params\":{\"a\":\"\u{2028}\"}\n}\n";
        let frame = Frame::read(Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(frame.part(&frame.params).unwrap(), br#"{"a":"\u2028"}"#);
    }

    #[test]
    fn x76_no_two_ids_of_ours_tell_of_each_other() {
        let (one, other) = (Id::unguessable("x:").unwrap(), Id::unguessable("x:").unwrap());
        assert_eq!(one.as_json().len(), "\"x:\"".len() + 32);
        assert_ne!(one.as_json().get(3..19), other.as_json().get(3..19));
    }

    #[test]
    fn parts_are_the_bytes_that_came() {
        let text = r#"{ "params" : {"b":1e2, "a":12345678901234567890123} ,"id":"x","method":"m"}"#;
        let frame = Frame::read(Bytes::from_static(text.as_bytes())).unwrap();
        let params = frame.part(&frame.params).unwrap();
        assert_eq!(params, br#"{"b":1e2, "a":12345678901234567890123}"#);
        let spliced = frame.line.splice(frame.id.clone().unwrap(), b"9");
        assert_eq!(&*spliced, text.replace("\"x\"", "9").as_bytes());
        let listed = members(params).unwrap();
        let listed: Vec<_> = listed
            .iter()
            .map(|(name, raw)| (name.as_str(), raw.get()))
            .collect();
        assert_eq!(listed, [("b", "1e2"), ("a", "12345678901234567890123")]);
    }

    #[test]
    fn x73_what_passes_the_door_is_one_line_and_means_the_same() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut frames = generator::Frames::new(move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        });
        let call =
            r#"{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"w","arguments":{"a":"é"}}}"#;
        let mut passed = 0;
        for _ in 0..10_000 {
            let bytes = frames.frame(call);
            let Ok(frame) = Frame::read(Bytes::from(bytes.clone())) else {
                continue;
            };
            passed += 1;
            let text = std::str::from_utf8(&frame.line).unwrap();
            assert!(
                generator::LINE_ENDS.iter().all(|end| !text.contains(end)),
                "{text:?}"
            );
            let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            assert_eq!(read(&frame.line), read(&bytes), "{text}");
            let again = Frame::read(frame.line.bytes()).unwrap();
            assert_eq!((again.line, again.kind), (frame.line, frame.kind));
        }
        assert!(passed > 500, "{passed}");
    }
}
