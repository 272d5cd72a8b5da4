//! Names and ids, each with its own type so that they cannot be mixed up.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use uuid::Uuid;

/// Maximum length of a name, in characters.
pub const LONGEST_NAME: usize = 256;

/// Reason why a text is not a valid name. The first value of a variant, if it has one, is the kind of name, such as
/// `channel`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The text is empty.
    #[error("{} must not be empty", with_article(.0))]
    Empty(&'static str),
    /// The text is too long.
    #[error("{} has at most {LONGEST_NAME} characters", with_article(.0))]
    TooLong(&'static str),
    /// The text contains control characters. Databases reject NUL, and names are shown on one line.
    #[error("{} must not contain control characters", with_article(.0))]
    Control(&'static str),
    /// The prefix is reserved for names that the service itself creates.
    #[error("{} must not begin with `{}`: such names are the service's own", with_article(.0), .1)]
    Reserved(&'static str, &'static str),
    /// The text begins or ends with whitespace or an invisible character, or has two of them in a row, so it could be
    /// mistaken for another name. Only channel names are checked for this.
    #[error("{} has no blank at its beginning or end, and no two in a row", with_article(.0))]
    Blanks(&'static str),
    /// The text is not a valid tool name. Tool names are limited to ASCII, because people compare them by eye.
    #[error("a tool name has only the letters A-Z and a-z, digits and `_ . / : -`, at most 128")]
    Tool,
}

/// Allows functions to accept either a name or a text that is converted to a name.
impl From<std::convert::Infallible> for BadName {
    fn from(never: std::convert::Infallible) -> BadName {
        match never {}
    }
}

/// Implements serde through `Display` and `FromStr`.
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
            /// Creates a name from a text, which must have 1 to [`LONGEST_NAME`] characters and no control characters.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
                let text = text.into();
                check_name($word, &text)?;
                check_reserved($word, &text)?;
                check_blanks($word, &text)?;
                Ok($type(text))
            }

            /// Returns the name as text.
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

        impl TryFrom<&str> for $type {
            type Error = BadName;
            fn try_from(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
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
    /// A customer whose data is kept separate. Part of every key and query.
    Tenant,
    "tenant"
);
name!(
    /// A conversation. At most one approval is pending in each channel.
    ///
    /// Conversations with served agents have names that only [`Channel::talk`] creates. [`Channel::new`], parsing and
    /// deserialising reject such names, so no request or credential can name one.
    Channel,
    "channel"
);
name!(
    /// The agent that proposes.
    ///
    /// There are two kinds: agents named by a credential, and agents of the service itself ([`Agent::served`],
    /// [`Agent::of_service`]). Only these two functions create the second kind: [`Agent::new`], parsing and
    /// deserialising reject its names, so a token cannot impersonate one.
    Agent,
    "agent"
);
name!(
    /// Holder of a credential: a person who decides, or for whom an agent acts.
    Person,
    "person"
);
name!(
    /// Identifies one run of an agent.
    Run,
    "run"
);
name!(
    /// Identifies one session of an agent.
    Session,
    "session"
);
name!(
    /// Idempotency key: two requests with the same key are the same request, sent twice.
    Key,
    "idempotency key"
);

/// Prefix of the channel name of a conversation with a served agent.
const TALK: &str = "talk:";
/// Prefix of the name of a served agent.
const SERVED: &str = "served:";
/// Prefix of the name of a part of the service that proposes for people, such as its inbox.
const SERVICE: &str = "service:";

impl Channel {
    /// Creates the channel of a conversation with a served agent. `secret` makes the name unguessable; `session` is the
    /// name that the person chose.
    pub fn talk(secret: [u8; 16], session: &str) -> Result<Channel, BadName> {
        Channel::stored(format!("{TALK}{:032x}/{session}", u128::from_be_bytes(secret)))
    }

    /// Returns the name of the session; `None` if this is not the channel of a conversation with a served agent.
    pub fn talk_session(&self) -> Option<&str> {
        let (_, session) = self.0.strip_prefix(TALK)?.split_once('/')?;
        Some(session)
    }

    /// Restores a channel of any kind from a store. Must not be used for names that come from a request.
    pub fn stored(text: impl Into<Arc<str>>) -> Result<Channel, BadName> {
        let text = text.into();
        check_name("channel", &text)?;
        Ok(Channel(text))
    }
}

impl Agent {
    /// Creates the name of an agent that the service itself runs.
    pub fn served(name: &str) -> Result<Agent, BadName> {
        Agent::stored(format!("{SERVED}{}", Agent::new(name)?))
    }

    /// Creates the name of a part of the service, such as `inbox`, that proposes for people.
    pub fn of_service(part: &str) -> Result<Agent, BadName> {
        Agent::stored(format!("{SERVICE}{}", Agent::new(part)?))
    }

    /// Returns true if this is a part of the service that proposes for people.
    pub fn is_of_service(&self) -> bool {
        self.0.starts_with(SERVICE)
    }

    /// Returns the configured name of an agent that the service itself runs; `None` for other agents.
    pub fn served_name(&self) -> Option<&str> {
        self.0.strip_prefix(SERVED)
    }

    /// Restores an agent of any kind, from a store or for a query. Must not be used for the agent of a new proposal.
    pub fn stored(text: impl Into<Arc<str>>) -> Result<Agent, BadName> {
        let text = text.into();
        check_name("agent", &text)?;
        Ok(Agent(text))
    }
}

impl Person {
    /// Returns true if both are spellings of one name; see [`crate::name`].
    pub fn is_same(&self, other: &Person) -> bool {
        self == other || crate::name::fold(self.as_str()) == crate::name::fold(other.as_str())
    }
}

impl Tenant {
    /// Returns the only tenant of a single-tenant installation.
    pub fn single() -> Tenant {
        Tenant(Arc::from("main"))
    }
}

fn check_name(word: &'static str, text: &str) -> Result<(), BadName> {
    if text.is_empty() {
        return Err(BadName::Empty(word));
    }
    // Check the byte length first, to avoid counting the characters of a huge text.
    if text.len() > 4 * LONGEST_NAME || text.chars().count() > LONGEST_NAME {
        return Err(BadName::TooLong(word));
    }
    if text.chars().any(char::is_control) {
        return Err(BadName::Control(word));
    }
    Ok(())
}

/// Rejects channel names that differ from others only in whitespace or invisible characters.
fn check_blanks(word: &'static str, text: &str) -> Result<(), BadName> {
    let mut before = true;
    let mut has_two = false;
    for character in text.chars() {
        let is_blank = crate::display::is_unseen(character);
        has_two |= before && is_blank;
        before = is_blank;
    }
    match word == "channel" && (has_two || before) {
        true => Err(BadName::Blanks(word)),
        false => Ok(()),
    }
}

/// Returns the word with the indefinite article that fits it.
fn with_article(word: &str) -> String {
    match word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => format!("an {word}"),
        false => format!("a {word}"),
    }
}

/// Rejects names reserved for the service, including look-alikes in other case or compatibility characters.
fn check_reserved(word: &'static str, text: &str) -> Result<(), BadName> {
    let prefixes: &[&'static str] = match word {
        "channel" => &[TALK],
        "agent" => &[SERVED, SERVICE],
        _ => return Ok(()),
    };
    // Prefixes have at most eight letters; one compatibility character may expand to several.
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

/// Name of a tool: plain ASCII, so that no two names look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Creates a tool name from a text of 1 to 128 ASCII letters, digits and the characters `_`, `.`, `/`, `:` and `-`.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
        let text = text.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte);
        if text.is_empty() || text.len() > 128 || !text.bytes().all(fits) {
            return Err(BadName::Tool);
        }
        Ok(ToolName(text))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ToolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&str> for ToolName {
    type Error = BadName;
    fn try_from(text: &str) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl TryFrom<String> for ToolName {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ToolName::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Id of an approval: a UUIDv7. It grows with time, which keeps indexes compact, and has 74 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(Uuid);

impl ApprovalId {
    /// Builds an id from a Unix time in milliseconds and ten random bytes.
    pub fn from_parts(millis: u64, random: &[u8; 10]) -> ApprovalId {
        ApprovalId(uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid())
    }

    /// Returns the sixteen bytes, as stored.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Restores an id from its sixteen bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> ApprovalId {
        ApprovalId(Uuid::from_bytes(bytes))
    }

    /// Returns the last eight hex digits, which are random, for display.
    pub fn short(&self) -> String {
        self.to_string().chars().skip(28).collect()
    }
}

impl std::fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

/// Error for a text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id")]
pub struct BadId(pub String);

impl FromStr for ApprovalId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.to_owned());
        // Accept only the hyphenated form, not the other notations of a UUID.
        if text.len() != 36 {
            return Err(bad());
        }
        text.parse().map(ApprovalId).map_err(|_| bad())
    }
}

/// Id of a call: its approval and its position in that approval, from 1. Also the idempotency key for the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// The approval that holds the call.
    pub approval: ApprovalId,
    /// Position within the approval, from 1.
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

/// The person, agent or gate that caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The gate itself, in case of expiry, timeout or supersession.
    Gate,
    /// An agent, identified by its credential.
    Agent(Agent),
    /// A person, identified by their credential.
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
            // Events are read back with this code, so service agents are accepted, too.
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
