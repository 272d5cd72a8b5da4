//! Ends streams and long polls when the caller's credential is no longer valid.
//!
//! Input: a caller who opens a stream or a long poll (a follower). Output: a [`Watch`] that resolves when the token was
//! revoked or expired, the session ended, or the account changed or was removed, whichever process wrote that. A single
//! task checks all followers about twice a second. It reads each registry entry once, and none (except sessions) while
//! the store's change counter is unchanged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign::decision::AuthorityBasis;
use countersign::registry::{Entry, Kind};
use countersign::store::{Store, StoreError};
use countersign::time::Time;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::access::Caller;

/// Interval between checks. A stream ends within twice this time.
const EVERY: Duration = Duration::from_millis(400);

/// A server with streams or long polls: the service, or the HTTP endpoint of the MCP gateway.
pub trait Followed: Clone + Send + Sync + 'static {
    /// Returns the store that holds the credentials.
    fn store(&self) -> &dyn Store;
    /// Returns the registry of the open streams and long polls.
    fn revocations(&self) -> &Revocations;
    /// Returns the token that is cancelled when the service stops.
    fn stopping(&self) -> &CancellationToken;
}

/// Open streams and long polls, with the credentials that they depend on.
#[derive(Default)]
pub struct Revocations(Mutex<Followers>);

#[derive(Default)]
struct Followers {
    next: u64,
    is_checked: bool,
    all: HashMap<u64, Follower>,
}

struct Follower {
    authority_bases: Vec<AuthorityBasis>,
    expires_at: Option<Time>,
    /// Value of the store's change counter when the credentials were last found valid; `None` before the first check.
    held_at: Option<u64>,
    end: CancellationToken,
}

/// Registration of one follower, removed when dropped. See [`Watch::ended`].
pub struct Watch<F: Followed> {
    followed: F,
    number: u64,
    end: CancellationToken,
}

impl<F: Followed> Watch<F> {
    /// Registers a caller as a follower, and starts the task that checks all followers if it is not running.
    pub fn of(followed: &F, caller: &Caller) -> Watch<F> {
        let end = CancellationToken::new();
        let follower = Follower {
            authority_bases: caller.authority_bases.clone(),
            expires_at: caller.expires_at,
            held_at: None,
            end: end.clone(),
        };
        let mut followers = followed.revocations().followers();
        let number = followers.next;
        followers.next = number.wrapping_add(1);
        followers.all.insert(number, follower);
        if !std::mem::replace(&mut followers.is_checked, true) {
            tokio::spawn(check_all(followed.clone()));
        }
        Watch {
            followed: followed.clone(),
            number,
            end,
        }
    }

    /// Returns a future that resolves when the credential is no longer valid.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.end.clone().cancelled_owned()
    }
}

impl<F: Followed> Drop for Watch<F> {
    fn drop(&mut self) {
        let mut followers = self.followed.revocations().followers();
        followers.all.remove(&self.number);
    }
}

impl Revocations {
    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks all followers periodically until none is left or the service stops.
async fn check_all(followed: impl Followed) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = followed.stopping().cancelled() => return,
        }
        {
            let mut followers = followed.revocations().followers();
            if followers.all.is_empty() {
                followers.is_checked = false;
                return;
            }
        }
        if let Err(error) = check_once(&followed).await {
            // Streams stay open: they read from the same store, so they can deliver nothing while it fails.
            tracing::warn!("cannot check the credentials of open streams: {error}");
        }
    }
}

async fn check_once(followed: &impl Followed) -> Result<(), StoreError> {
    // Read the change counter first: anything written after that is checked next time.
    let stamp = followed.store().change_counter().await?;
    let now = followed.store().now().await?;
    let names = end_expired(followed, stamp, now);
    let entries = followed.store().entries_named(&names).await?;
    let found: HashMap<(Kind, String), Option<Entry>> = names.into_iter().zip(entries).collect();
    let mut followers = followed.revocations().followers();
    for follower in followers.all.values_mut() {
        // A follower that registered after `names` was collected is checked next time.
        let is_looked_at = |basis: &AuthorityBasis| found.contains_key(&(basis.kind, basis.key.clone()));
        if !follower.authority_bases.iter().all(is_looked_at) {
            continue;
        }
        let holds = |basis: &AuthorityBasis| {
            let entry = found.get(&(basis.kind, basis.key.clone()));
            basis.holds(entry.and_then(Option::as_ref), now)
        };
        match follower.authority_bases.iter().all(holds) {
            true => follower.held_at = stamp,
            false => follower.end.cancel(),
        }
    }
    Ok(())
}

/// Ends followers whose credential has expired, and returns the registry entries to read for the others. Followers that
/// were found valid when the store's change counter was `stamp` need no read, except for sessions.
fn end_expired(followed: &impl Followed, stamp: Option<u64>, now: Time) -> Vec<(Kind, String)> {
    let followers = followed.revocations().followers();
    let mut names = Vec::new();
    for follower in followers.all.values() {
        if follower.expires_at.is_some_and(|expires_at| expires_at <= now) && !is_session(follower) {
            follower.end.cancel();
        }
        let is_unchanged = stamp.is_some() && follower.held_at == stamp;
        // A session's expiry is in its entry and is extended by use.
        if !is_unchanged || is_session(follower) {
            let authority_bases = follower.authority_bases.iter();
            names.extend(authority_bases.map(|basis| (basis.kind, basis.key.clone())));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn is_session(follower: &Follower) -> bool {
    follower
        .authority_bases
        .iter()
        .any(|basis| basis.kind == Kind::Session)
}
