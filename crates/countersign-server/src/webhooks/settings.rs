//! Settings of a webhook: the `[webhooks.NAME]` tables of the configuration.

use std::collections::BTreeSet;

use countersign_http_client::Target;
use serde::Deserialize;

use super::signature::SigningKeys;

/// Events that are sent if `events` is absent: decisions and ends.
const DECISIONS_AND_ENDS: [&str; 10] = [
    "approved",
    "denied",
    "expired",
    "superseded",
    "withdrawn",
    "succeeded",
    "failed",
    "lost",
    "refused",
    "reconciled",
];
/// Events that are sent only if `events` lists them.
const FURTHER: [&str; 9] = [
    "proposed",
    "endorsed",
    "passed",
    "decision_refused",
    "started",
    "late_result",
    "undo_started",
    "undo_failed",
    "undone",
];

/// Settings of one webhook.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// URL that requests are sent to; `https` unless it is on this machine.
    url: String,
    /// Environment variable with the signing keys, separated by spaces. Every request is signed with all of them.
    keys_env: String,
    /// Names of the events to send, such as `approved`. If absent, decisions and ends are sent.
    events: Option<BTreeSet<String>>,
    /// Agents whose events are sent. If absent, those of all agents.
    agents: Option<BTreeSet<String>>,
}

impl WebhookSettings {
    /// Parses the URL. Fails if requests to it could be read in transit.
    pub(super) fn target(&self) -> Result<Target, String> {
        let target = Target::parse(&self.url)?;
        match target.is_remote_plaintext() {
            true => Err(format!("`{}` is not encrypted; use https", self.url)),
            false => Ok(target),
        }
    }

    /// Reads the signing keys from the environment.
    pub(super) fn keys(&self) -> Result<SigningKeys, String> {
        let variable = &self.keys_env;
        let text = std::env::var(variable)
            .map_err(|_| format!("the environment variable `{variable}` is not set"))?;
        SigningKeys::parse(&text).map_err(|problem| format!("`{variable}`: {problem}"))
    }

    /// Returns the events and agents to send. Fails if there is no event of a name.
    pub(super) fn filter(&self) -> Result<EventFilter, String> {
        let events = match &self.events {
            None => DECISIONS_AND_ENDS.iter().map(|name| (*name).to_owned()).collect(),
            Some(events) => events.clone(),
        };
        let mut known = DECISIONS_AND_ENDS.iter().chain(&FURTHER);
        match events
            .iter()
            .find(|name| !known.clone().any(|known| known == name))
        {
            Some(unknown) => {
                let last = known.next_back().copied().unwrap_or_default();
                let others: Vec<&str> = known.copied().collect();
                Err(format!(
                    "there is no event `{unknown}`; there are {} and {last}",
                    others.join(", ")
                ))
            }
            None if events.is_empty() => Err("`events` is empty, so nothing would be sent".to_owned()),
            None => Ok(EventFilter {
                events,
                agents: self.agents.clone(),
            }),
        }
    }
}

/// Selects the events that a webhook sends.
pub(super) struct EventFilter {
    events: BTreeSet<String>,
    agents: Option<BTreeSet<String>>,
}

impl EventFilter {
    pub(super) fn wants(&self, event: &str, agent: &str) -> bool {
        self.events.contains(event) && self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }
}
