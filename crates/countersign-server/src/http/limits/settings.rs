//! What of the limits an operator may set: the table `[limits]` of the configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::http::client::TrustedProxies;

/// Limits as the operator wants them. Those that are not set are in force with these values.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Open connections in all; more wait to be accepted.
    pub connections: usize,
    /// Open connections of one address. Where it is not set, this machine itself has no limit of its own.
    pub connections_per_address: Option<usize>,
    /// Tries to sign in from one address.
    pub sign_ins_per_minute: NonZeroU32,
    /// Streams of events that one caller has open.
    pub streams_per_caller: usize,
    /// Requests of one caller that wait for a decision.
    pub waits_per_caller: usize,
    /// Lists that one caller reads at the same time.
    pub lists_per_caller: usize,
    /// Messages of one person that served agents are answering.
    pub turns_per_person: usize,
    /// How long a request's body may take.
    #[serde(deserialize_with = "duration")]
    pub body_within: Duration,
    /// Proxies that say where a request comes from: `trusted_proxies`, beside this table.
    #[serde(skip)]
    pub trusted_proxies: TrustedProxies,
}

impl Default for LimitSettings {
    fn default() -> LimitSettings {
        LimitSettings {
            connections: 20_000,
            connections_per_address: None,
            sign_ins_per_minute: NonZeroU32::new(20).unwrap_or(NonZeroU32::MIN),
            streams_per_caller: 10,
            waits_per_caller: 2_000,
            lists_per_caller: 8,
            turns_per_person: 4,
            body_within: Duration::from_secs(30),
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::duration::parse(&text).map_err(serde::de::Error::custom)
}
