//! Names and ids: one type each, so that none can stand where another belongs.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::UnicodeNormalization as _;
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
    /// The service makes names with this prefix itself; nobody else can.
    #[error("a {0} must not begin with `{1}`: such names are the service's own")]
    Reserved(&'static str, &'static str),
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
                check_reserved($word, &text)?;
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
    ///
    /// Conversations with agents of the service itself have names that only [`Channel::talk`] makes. [`Channel::new`],
    /// parsing and deserialising refuse them, so no request and no credential can name one.
    Channel,
    "channel"
);
name!(
    /// The agent that proposes.
    ///
    /// There are two kinds: an agent that a credential names, and an agent of the service itself
    /// ([`Agent::served`], [`Agent::of_service`]). Only these two functions make the second kind: [`Agent::new`],
    /// parsing and deserialising refuse its names, so a token that is called the same is another agent.
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

/// Before the random part of the name of a talk's channel.
const TALK: &str = "talk:";
/// Before the name of an agent that the service serves.
const SERVED: &str = "served:";
/// Before the name of a part of the service that proposes for people, such as its inbox.
const SERVICE: &str = "service:";

impl Channel {
    /// The channel of a talk with an agent of the service: `secret` is what nobody can guess, `session` what the
    /// person calls it.
    pub fn talk(secret: [u8; 16], session: &str) -> Result<Channel, BadName> {
        Channel::stored(format!("{TALK}{:032x}/{session}", u128::from_be_bytes(secret)))
    }

    /// The session's name, if this is the channel of a talk with an agent of the service.
    pub fn talk_session(&self) -> Option<&str> {
        let (_, session) = self.0.strip_prefix(TALK)?.split_once('/')?;
        Some(session)
    }

    /// Reads a channel of any kind back from a store. Never for what a request says.
    pub fn stored(text: impl Into<Arc<str>>) -> Result<Channel, BadName> {
        let text = text.into();
        check_name("channel", &text)?;
        Ok(Channel(text))
    }
}

impl Agent {
    /// An agent that the service serves under this name.
    pub fn served(name: &str) -> Result<Agent, BadName> {
        Agent::stored(format!("{SERVED}{}", Agent::new(name)?))
    }

    /// A part of the service that proposes for people, such as `inbox`.
    pub fn of_service(part: &str) -> Result<Agent, BadName> {
        Agent::stored(format!("{SERVICE}{}", Agent::new(part)?))
    }

    /// True for a part of the service that proposes for people.
    pub fn is_of_service(&self) -> bool {
        self.0.starts_with(SERVICE)
    }

    /// The name that a served agent is served under; nothing for other agents.
    pub fn served_name(&self) -> Option<&str> {
        self.0.strip_prefix(SERVED)
    }

    /// Reads an agent of any kind back, from a store or to look for what it proposed. Never for one who proposes.
    pub fn stored(text: impl Into<Arc<str>>) -> Result<Agent, BadName> {
        let text = text.into();
        check_name("agent", &text)?;
        Ok(Agent(text))
    }
}

impl Person {
    /// True if both are one name, written in two ways; see [`crate::name`].
    pub fn is_same(&self, other: &Person) -> bool {
        self == other || crate::name::fold(self.as_str()) == crate::name::fold(other.as_str())
    }
}

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

/// Refuses names that only the service makes, also those that merely look like one.
fn check_reserved(word: &'static str, text: &str) -> Result<(), BadName> {
    let prefixes: &[&'static str] = match word {
        "channel" => &[TALK],
        "agent" => &[SERVED, SERVICE],
        _ => return Ok(()),
    };
    // No prefix is longer than eight letters; a compatibility character may stand for several.
    let begin: String = text
        .trim_start()
        .chars()
        .take(16)
        .nfkc()
        .collect::<String>()
        .to_lowercase();
    let begin = begin.trim_start();
    match prefixes.iter().find(|prefix| begin.starts_with(**prefix)) {
        Some(prefix) => Err(BadName::Reserved(word, prefix)),
        None => Ok(()),
    }
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
            // Histories are read back: the agent may be of any kind.
            Some(("agent", name)) => Ok(Actor::Agent(Agent::stored(name)?)),
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
    fn x97_only_the_service_makes_its_own_names() {
        let served = Agent::served("crm").unwrap();
        assert_eq!(served.to_string(), "served:crm");
        assert_eq!(served.served_name(), Some("crm"));
        assert_ne!(served, Agent::new("crm").unwrap());
        assert_eq!(Agent::new("crm").unwrap().served_name(), None);
        assert_eq!(Agent::stored("served:crm").unwrap(), served);
        for text in [
            "served:crm",
            "Served:crm",
            " served:crm",
            "ｓｅｒｖｅｄ：crm",
            "service:inbox",
            "SERVED:",
        ] {
            assert!(
                matches!(Agent::new(text), Err(BadName::Reserved("agent", _))),
                "`{text}`"
            );
            assert!(text.parse::<Agent>().is_err(), "`{text}`");
            assert!(serde_json::from_value::<Agent>(text.into()).is_err(), "`{text}`");
        }
        let talk = Channel::talk([7; 16], "main").unwrap();
        assert_eq!(talk.to_string(), "talk:07070707070707070707070707070707/main");
        assert_eq!(talk.talk_session(), Some("main"));
        assert_eq!(Channel::stored(talk.as_str()).unwrap(), talk);
        for text in [talk.as_str(), "talk:", "TALK:x/main", "\u{a0}talk:x/main"] {
            assert!(
                matches!(Channel::new(text), Err(BadName::Reserved("channel", _))),
                "`{text}`"
            );
            assert!(text.parse::<Channel>().is_err(), "`{text}`");
            assert!(
                serde_json::from_value::<Channel>(text.into()).is_err(),
                "`{text}`"
            );
        }
        for text in ["talk", "talking:x", "my talk:1", "served", "a served:crm"] {
            assert!(Channel::new(text).is_ok() && Agent::new(text).is_ok(), "`{text}`");
        }
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
