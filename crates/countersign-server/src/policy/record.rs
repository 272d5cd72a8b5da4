//! Policy on record: all processes that rule on the same calls over one store must use the same policy (X98).
//!
//! A process does not start while a process with a different policy is alive. Hooks live for only one call, so they
//! refuse calls while a different policy is on record. Three groups of processes each have a record of their own: the
//! services of one tenant, the gateways to a server of one name, and the hooks of one coding agent.

use std::time::Duration;

use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};
use countersign::time::Time;

use crate::failure::Failure;

/// Interval at which a starting process checks whether one with a different policy is still alive.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum number of attempts to write the record if other processes change it concurrently.
const TRIES: usize = 3;

/// How a starting process treats others with a different policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Refuse to start while another process with a different policy is alive.
    Refuse,
    /// Start anyway: the operator replaces processes one by one.
    Rolling,
}

impl Change {
    /// Converts the flag `--policy-change`: [`Change::Rolling`] if it is set, otherwise [`Change::Refuse`].
    pub fn from_flag(is_set: bool) -> Change {
        match is_set {
            true => Change::Rolling,
            false => Change::Refuse,
        }
    }
}

/// Waits until no process with a different policy is alive. `other` returns the latest expiry among the leases of such
/// processes, or `None` if there are none. Fails with `refusal` as soon as a lease is renewed.
pub async fn wait_for_others(
    other: impl AsyncFn() -> Result<Option<Time>, StoreError>,
    refusal: impl Fn() -> Failure,
) -> Result<(), Failure> {
    let mut seen: Option<Time> = None;
    while let Some(until) = other().await? {
        if seen.is_some_and(|seen| until > seen) {
            return Err(refusal());
        }
        seen = Some(until);
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Puts a policy on record under a key. Returns true if it replaced a different one.
pub async fn put(store: &dyn Store, tenant: &Tenant, key: String, policy: Hash) -> Result<bool, StoreError> {
    let there = store.entry(Kind::Setting, &key).await?;
    if there.as_ref().is_some_and(|there| *there.body == *body(policy)) {
        return Ok(false);
    }
    let version = there.as_ref().map_or(0, |there| there.version);
    // A concurrent write by another process is ignored: that process has the same policy, or a policy change is in
    // progress.
    store.put_entry(entry(tenant, key, policy, version)).await?;
    Ok(there.is_some())
}

/// Returns true if the policy is the one on record under a key. If no policy is on record, records this one and returns
/// true.
pub async fn is_on_record(
    store: &dyn Store,
    tenant: &Tenant,
    key: &str,
    policy: Hash,
) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        if let Some(there) = store.entry(Kind::Setting, key).await? {
            return Ok(*there.body == *body(policy));
        }
        let first = entry(tenant, key.to_owned(), policy, 0);
        if let Put::Written(_) = store.put_entry(first).await? {
            return Ok(true);
        }
    }
    Err(StoreError::Busy("the policy on record keeps changing".to_owned()))
}

/// Reads the hash of the policy on record under a key; `None` if no policy is on record.
pub async fn read(store: &dyn Store, key: &str) -> Result<Option<String>, StoreError> {
    let there = store.entry(Kind::Setting, key).await?;
    Ok(there.map(|there| String::from_utf8_lossy(&there.body).into_owned()))
}

fn entry(tenant: &Tenant, key: String, policy: Hash, version: u32) -> Entry {
    Entry {
        kind: Kind::Setting,
        key,
        tenant: tenant.clone(),
        body: body(policy).into(),
        version,
        expires_at: None,
    }
}

fn body(policy: Hash) -> Vec<u8> {
    policy.to_string().into_bytes()
}
