//! How the operator wants a gateway.

use std::time::Duration;

use clap::ValueEnum;

/// How long a call is held open when nobody says: below every fixed limit known of clients, but for the shortest.
pub const HOLD: Duration = Duration::from_secs(45);

/// How the operator wants it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a call is held open for a decision, before it is answered as pending.
    pub hold: Duration,
    /// The same, for clients of these names.
    pub hold_for: Vec<(String, Duration)>,
    /// What becomes of an approval when the client cancels its call.
    pub on_cancel: OnCancel,
    /// Which calls the person at the client may approve there.
    pub ask_client: AskClient,
    /// Whether the tool for `--permission-prompt-tool` is offered.
    pub permission_prompt: bool,
}

/// What becomes of an approval when the client cancels its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnCancel {
    /// It stays, and what is approved runs
    #[default]
    Keep,
    /// It is withdrawn
    Withdraw,
}

/// Which calls the person at the client may approve there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AskClient {
    /// None
    Never,
    /// All that destroy nothing
    #[default]
    Harmless,
    /// All
    Always,
}

impl Settings {
    /// How long a call of this client is held open.
    pub fn hold(&self, client: Option<&str>) -> Duration {
        let named = self
            .hold_for
            .iter()
            .find(|(name, _)| Some(name.as_str()) == client);
        named.map_or(self.hold, |(_, hold)| *hold)
    }
}
