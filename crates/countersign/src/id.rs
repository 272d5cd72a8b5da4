//! Names and ids: one type each, so that none can stand where another belongs.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

/// The longest name, in characters.
pub const LONGEST_NAME: usize = 256;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Names say something.
    #[error("a {0} must not be empty")]
    Empty(&'static str),
    /// Names are short.
    #[error("a {0} has at most {LONGEST_NAME} characters")]
    TooLong(&'static str),
    /// Names are stored in databases that know no NUL, and shown on one line.
    #[error("a {0} must not contain control characters")]
    Control(&'static str),
    /// Tool names are compared by eye.
    #[error("a tool name has only the letters A-Z and a-z, digits and `_ . / : -`, at most 128")]
    Tool,
}

/// In JSON, and wherever else serde writes, a type is what it displays.
macro_rules! as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use as_text;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Takes a text for a name, or says why it is none.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
                let text = text.into();
                check_name($word, &text)?;
                Ok($type(text))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// One customer's world. It is part of every key and query.
    Tenant,
    "tenant"
);
name!(
    /// One conversation. At most one approval is pending in it.
    Channel,
    "channel"
);
name!(
    /// The agent that proposes.
    Agent,
    "agent"
);
name!(
    /// Somebody with a credential: a person who decides, or whoever an agent acts for.
    Person,
    "person"
);
name!(
    /// One run of an agent.
    Run,
    "run"
);
name!(
    /// One session of an agent.
    Session,
    "session"
);
name!(
    /// Says that two requests are one request sent twice.
    Key,
    "idempotency key"
);

impl Tenant {
    /// The tenant of installations that have only one.
    pub fn single() -> Tenant {
        Tenant(Arc::from("main"))
    }
}

fn check_name(word: &'static str, text: &str) -> Result<(), BadName> {
    if text.is_empty() {
        return Err(BadName::Empty(word));
    }
    // Bytes first: nobody counts the characters of a novel.
    if text.len() > 4 * LONGEST_NAME || text.chars().count() > LONGEST_NAME {
        return Err(BadName::TooLong(word));
    }
    if text.chars().any(char::is_control) {
        return Err(BadName::Control(word));
    }
    Ok(())
}

/// A tool's name: plain ASCII, so that no two names look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Takes a text for a tool name, or says why it is none.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
        let text = text.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte);
        if text.is_empty() || text.len() > 128 || !text.bytes().all(fits) {
            return Err(BadName::Tool);
        }
        Ok(ToolName(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ToolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ToolName::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Names one approval. Ids grow with time, which keeps indexes compact; 74 bits of each are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(Uuid);

impl ApprovalId {
    /// An id made from a time in milliseconds and ten random bytes.
    pub fn from_parts(millis: u64, random: &[u8; 10]) -> ApprovalId {
        ApprovalId(uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid())
    }

    /// The sixteen bytes, as stores keep them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Reads the sixteen bytes back.
    pub fn from_bytes(bytes: [u8; 16]) -> ApprovalId {
        ApprovalId(Uuid::from_bytes(bytes))
    }

    /// Its last eight digits, the ones that differ, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().skip(28).collect()
    }
}

impl std::fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

/// A text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id")]
pub struct BadId(pub String);

impl FromStr for ApprovalId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.to_owned());
        // One way to write an id, not the five that exist.
        if text.len() != 36 {
            return Err(bad());
        }
        text.parse().map(ApprovalId).map_err(|_| bad())
    }
}

/// Names one call: its approval and its place there, counted from 1. It is also the tool's idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// The approval that holds the call.
    pub approval: ApprovalId,
    /// The call's place in it, from 1.
    pub position: u8,
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.approval, self.position)
    }
}

impl FromStr for CallId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.to_owned());
        let (approval, position) = text.rsplit_once('.').ok_or_else(bad)?;
        let position = position.parse().map_err(|_| bad())?;
        if !(1..=crate::approval::MOST_CALLS as u8).contains(&position) {
            return Err(bad());
        }
        Ok(CallId {
            approval: approval.parse().map_err(|_| bad())?,
            position,
        })
    }
}

as_text!(CallId);

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The gate itself: expiry, time-outs, replacement.
    Gate,
    /// An agent, by its credential.
    Agent(Agent),
    /// A person, by their credential.
    Person(Person),
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Actor::Gate => f.write_str("gate"),
            Actor::Agent(agent) => write!(f, "agent:{agent}"),
            Actor::Person(person) => write!(f, "person:{person}"),
        }
    }
}

impl FromStr for Actor {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        match text.split_once(':') {
            Some(("agent", name)) => Ok(Actor::Agent(Agent::new(name)?)),
            Some(("person", name)) => Ok(Actor::Person(Person::new(name)?)),
            _ if text == "gate" => Ok(Actor::Gate),
            _ => Err(BadName::Empty("actor")),
        }
    }
}

as_text!(Actor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x16_tool_names_are_ascii() {
        for good in [
            "create_contact",
            "carpeta/delete-potreros",
            "files:write.text",
            "A1",
        ] {
            assert!(ToolName::new(good).is_ok(), "`{good}`");
        }
        for bad in [
            "",
            "créate",
            "send email",
            "dеlete",
            "a\u{200b}b",
            &"x".repeat(129),
        ] {
            assert_eq!(ToolName::new(bad), Err(BadName::Tool), "`{bad}`");
        }
    }

    #[test]
    fn names_are_short_and_printable() {
        assert!(Channel::new("telegram:42").is_ok());
        assert_eq!(Channel::new(""), Err(BadName::Empty("channel")));
        assert_eq!(Channel::new("a\nb"), Err(BadName::Control("channel")));
        assert_eq!(Channel::new("x".repeat(257)), Err(BadName::TooLong("channel")));
    }

    #[test]
    fn call_ids_read_back() {
        let approval = ApprovalId::from_parts(1_700_000_000_000, &[7; 10]);
        let call = CallId {
            approval,
            position: 3,
        };
        assert_eq!(call.to_string().parse(), Ok(call));
        for bad in [
            "",
            "x",
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "01890a5d-ac96-774b-bcce-b302099a8057.0",
        ] {
            assert!(bad.parse::<CallId>().is_err(), "`{bad}`");
        }
    }

    #[test]
    fn actors_read_back() {
        for text in ["gate", "agent:crm", "person:alice@example.com", "person:a:b"] {
            assert_eq!(text.parse::<Actor>().unwrap().to_string(), text);
        }
    }
}
