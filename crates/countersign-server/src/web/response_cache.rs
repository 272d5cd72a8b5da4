//! Cache of approvals serialized as JSON, one entry per approval.
//!
//! Input: an approval. Output: the response body. The body can be sent again while the store's change counter is the
//! same, except for the time of the response. That time is the last field, and it is replaced in the cached bytes.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use countersign::approval::Approval;
use countersign::cache::GenerationalCache;
use countersign::id::{Agent, ApprovalId, Tenant};
use countersign::policy::Policy;
use countersign::state::State;
use countersign::time::Time;

use super::json;
use crate::access::Caller;
use crate::view;

/// Size of the cache in bytes: room for a few hundred responses.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// Text before the time at the end of a body, which ends in `"now":"2026-01-31T09:30:00.000Z"}`. [`BEHIND`] is the text
/// after the time.
const NOW: &str = "\"now\":\"";
const BEHIND: &str = "\"}";

/// Recently sent responses.
pub struct ResponseCache(GenerationalCache<(Tenant, ApprovalId), CachedResponse>);

#[derive(Clone)]
struct CachedResponse {
    bytes: Bytes,
    /// Value of the store's change counter before the approval was read.
    stamp: u64,
    /// The agent that may read the approval. `None` if a served agent of an older version proposed it.
    agent: Option<Agent>,
    /// Time at which the approval expires, if it is pending. From then on the cached state is wrong.
    pending_until: Option<Time>,
}

impl Default for ResponseCache {
    fn default() -> Self {
        ResponseCache(GenerationalCache::new(MOST_BYTES))
    }
}

impl ResponseCache {
    /// Builds the response for an approval at `now` and caches it for [`again`](Self::again). `stamp` is the value of
    /// the store's change counter before the approval was read; with `None`, nothing is cached. An approval whose
    /// expiry is not yet recorded is not cached either.
    pub fn answer(&self, approval: &Approval, policy: &Policy, now: Time, stamp: Option<u64>) -> Response {
        let bytes = match json::write(&view::approval(approval, policy, now)) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => return error.into_response(),
        };
        // An approval that is past its deadline, but not recorded as expired yet, is not cached: recording the expiry
        // changes the store.
        let is_recorded = view::state(approval, now) == approval.state;
        let Some(stamp) = stamp.filter(|_| is_recorded) else {
            return json::answer(bytes);
        };
        let name = (approval.tenant.clone(), approval.id);
        let kept = CachedResponse {
            bytes: bytes.clone(),
            stamp,
            agent: Some(approval.agent.clone()).filter(|_| !approval.is_of_older_talk()),
            pending_until: (approval.state == State::Pending).then_some(approval.expires_at),
        };
        self.0.insert(name, kept, bytes.len());
        json::answer(bytes)
    }

    /// Returns the cached response; `None` if there is none, the caller may not see it, or the store has changed since.
    pub fn again(&self, caller: &Caller, id: ApprovalId, stamp: Option<u64>, now: Time) -> Option<Response> {
        let is_current = |kept: &CachedResponse| {
            Some(kept.stamp) == stamp
                && caller
                    .agent
                    .as_ref()
                    .is_none_or(|agent| Some(agent) == kept.agent.as_ref())
                && kept.pending_until.is_none_or(|until| now < until)
        };
        let kept = self.0.get(&(caller.tenant.clone(), id), is_current)?;
        at(&kept.bytes, now).map(json::answer)
    }
}

/// Replaces the time at the end of a body. `None` if the body does not end with a time of the same length.
fn at(bytes: &[u8], now: Time) -> Option<Bytes> {
    let now = now.to_string();
    let end = bytes.len().checked_sub(BEHIND.len())?;
    let begin = end.checked_sub(now.len())?;
    let is_there = bytes.get(..begin)?.ends_with(NOW.as_bytes()) && bytes.get(end..)? == BEHIND.as_bytes();
    let mut bytes = is_there.then(|| bytes.to_vec())?;
    bytes.get_mut(begin..end)?.copy_from_slice(now.as_bytes());
    Some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_at_the_end_is_replaced() {
        let now = Time::from_micros(1_794_776_400_123_000);
        let text = br#"{"comment":"\"now\":\"2026-01-01T00:00:00.000Z\"}","now":"2026-01-01T00:00:00.000Z"}"#;
        let text = at(text, now).unwrap();
        assert_eq!(
            std::str::from_utf8(&text).unwrap(),
            r#"{"comment":"\"now\":\"2026-01-01T00:00:00.000Z\"}","now":"2026-11-15T21:00:00.123Z"}"#
        );
        for other in [
            &b""[..],
            b"{}",
            br#"{"now":1}"#,
            br#"{"then":"2026-01-01T00:00:00.000Z"}"#,
        ] {
            assert_eq!(at(other, now), None);
        }
    }
}
