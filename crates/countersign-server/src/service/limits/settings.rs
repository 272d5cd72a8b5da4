//! Configurable limits: the `[limits]` table of the configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Limits set by the operator. `Default` provides the values of limits that the operator has not set.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Maximum number of open connections in total (default 20,000). Further connections wait to be accepted.
    pub connections: usize,
    /// Maximum number of open connections per client address. If unset, the limit is 512, and connections from this
    /// machine are not limited.
    pub connections_per_address: Option<usize>,
    /// Maximum number of sign-in attempts per client address and minute (default 20).
    pub sign_ins_per_minute: NonZeroU32,
    /// Maximum number of open event streams per caller (default 10).
    pub streams_per_caller: usize,
    /// Maximum number of concurrent long polls per caller (default 2,000).
    pub waits_per_caller: usize,
    /// Maximum number of concurrent list requests per caller (default 8).
    pub lists_per_caller: usize,
    /// Maximum number of concurrent turns of served agents per person (default 4).
    pub turns_per_person: usize,
    /// Time limit for receiving a request body, as text such as `30s`, which is the default. The time starts when the
    /// service first waits for data of the body.
    #[serde(deserialize_with = "duration")]
    pub body_within: Duration,
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
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::duration::parse(&text).map_err(serde::de::Error::custom)
}
