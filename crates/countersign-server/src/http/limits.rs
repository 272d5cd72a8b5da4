//! Who asks too often is asked to wait.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::ApiError;

type Keyed = RateLimiter<String, HashMapStateStore<String>, DefaultClock>;

/// How many decisions one person may make in a second, unless the operator says otherwise.
pub const DECISIONS_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// How many messages one person may send to agents in a second.
const MESSAGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
const SIGN_INS_A_MINUTE: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// How many streams of events one caller may hold open.
const MOST_STREAMS: usize = 10;
/// Beyond so many names, those that are at rest are forgotten.
const MOST_NAMES: usize = 10_000;

/// The limits in force.
pub struct Limits {
    decisions: Keyed,
    sign_ins: Keyed,
    messages: Keyed,
    streams: Arc<Mutex<HashMap<String, usize>>>,
}

impl Limits {
    /// Limits, with so many decisions per person and second.
    pub fn new(decisions_per_second: NonZeroU32) -> Limits {
        Limits {
            decisions: RateLimiter::hashmap(Quota::per_second(decisions_per_second)),
            sign_ins: RateLimiter::hashmap(Quota::per_minute(SIGN_INS_A_MINUTE)),
            messages: RateLimiter::hashmap(Quota::per_second(MESSAGES_PER_SECOND)),
            streams: Arc::default(),
        }
    }

    /// Counts a decision.
    pub fn decision(&self, who: &str) -> Result<(), ApiError> {
        check(&self.decisions, who, "too many decisions in one second")
    }

    /// Counts a try to sign in.
    pub fn sign_in(&self, who: &str) -> Result<(), ApiError> {
        check(&self.sign_ins, who, "too many tries to sign in")
    }

    /// Counts a message to an agent.
    pub fn message(&self, who: &str) -> Result<(), ApiError> {
        check(&self.messages, who, "too many messages in one second")
    }

    /// Counts an open stream for as long as what this gives is kept.
    pub fn stream(&self, who: &str) -> Result<OpenStream, ApiError> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let open = streams.entry(who.to_owned()).or_default();
        if *open >= MOST_STREAMS {
            return Err(ApiError::too_many(format!(
                "at most {MOST_STREAMS} streams at a time"
            )));
        }
        *open += 1;
        Ok(OpenStream {
            streams: self.streams.clone(),
            who: who.to_owned(),
        })
    }
}

/// A stream that counts while it is open.
pub struct OpenStream {
    streams: Arc<Mutex<HashMap<String, usize>>>,
    who: String,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = streams.get_mut(&self.who) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                streams.remove(&self.who);
            }
        }
    }
}

fn check(limiter: &Keyed, who: &str, message: &str) -> Result<(), ApiError> {
    if limiter.len() > MOST_NAMES {
        limiter.retain_recent();
    }
    limiter
        .check_key(&who.to_owned())
        .map_err(|_| ApiError::too_many(message))
}
