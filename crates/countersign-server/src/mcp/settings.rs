//! The operator's settings of a gateway.

use std::time::Duration;

use clap::ValueEnum;
use countersign::effect::{Effect, Risk};

/// Default time for which a call is held open. Shorter than the fixed request timeouts of known clients, except for the
/// shortest of them.
pub const HOLD: Duration = Duration::from_secs(45);

/// Default time without a request after which an HTTP session and its server are ended.
pub const SESSION_IDLE: Duration = Duration::from_secs(10 * 60);

/// The operator's settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a call is held open for a decision, before it is answered as pending.
    pub hold: Duration,
    /// Overrides of `hold`, by client name.
    pub hold_for: Vec<(String, Duration)>,
    /// Whether an approval stays open or is withdrawn when the client cancels its call.
    pub on_cancel: OnCancel,
    /// Calls that the person at the client may approve by an answer in the client.
    pub ask_client: AskClient,
    /// Time without a request after which an HTTP session and its server are ended.
    pub session_idle: Duration,
    /// Whether the tool for `--permission-prompt-tool` is offered.
    pub permission_prompt: bool,
    /// Folder of a client on this machine, for following the links in its permission prompts; `None` for clients over
    /// HTTP.
    pub client_folder: Option<String>,
    /// Option that names the store in commands that are suggested to people, with a leading space; may be empty.
    pub place_words: String,
}

/// Handling of an approval whose call the client cancels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnCancel {
    /// It stays, and what is approved runs
    #[default]
    Keep,
    /// It is withdrawn
    Withdraw,
}

/// Selection of the calls that the person at the client may approve there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AskClient {
    /// None
    Never,
    /// `write` of low or medium risk
    #[default]
    Harmless,
    /// Everything that is not destructive, `external` and every risk included
    NotDestructive,
    /// Everything
    Always,
}

impl AskClient {
    /// Returns true if an answer in the client may decide a call of this effect and risk.
    ///
    /// A program can answer in a client just as a person can (X60). By default the client is therefore asked only about
    /// reversible calls that do little harm.
    pub fn covers(self, effect: Effect, risk: Risk) -> bool {
        match self {
            AskClient::Never => false,
            AskClient::Harmless => effect == Effect::Write && matches!(risk, Risk::Low | Risk::Medium),
            AskClient::NotDestructive => effect != Effect::Destructive,
            AskClient::Always => true,
        }
    }
}

impl Settings {
    /// Returns how long a call of the client with this name is held open.
    pub fn hold(&self, client: Option<&str>) -> Duration {
        let named = self
            .hold_for
            .iter()
            .find(|(name, _)| Some(name.as_str()) == client);
        named.map_or(self.hold, |(_, hold)| *hold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x60_only_small_writes_are_asked_in_the_client_by_default() {
        let effects = [Effect::Read, Effect::Write, Effect::Destructive, Effect::External];
        for effect in effects {
            for risk in Risk::ALL {
                let is_small = effect == Effect::Write && risk <= Risk::Medium;
                assert_eq!(
                    AskClient::default().covers(effect, risk),
                    is_small,
                    "{effect} {risk}"
                );
                assert!(!AskClient::Never.covers(effect, risk));
                assert!(AskClient::Always.covers(effect, risk));
            }
        }
        assert!(AskClient::NotDestructive.covers(Effect::External, Risk::Critical));
        assert!(!AskClient::NotDestructive.covers(Effect::Destructive, Risk::Low));
    }
}
