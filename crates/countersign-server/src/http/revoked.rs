//! Ends streams and long polls of callers whose credential holds no longer.
//!
//! Enters: a caller who begins to follow something. Leaves: a [`Watch`] that says when to stop: the token was revoked or its
//! time is over, the session ended, the account changed or is gone, wherever that was written.
//! One task for all of them asks the store twice a second, about each entry once, and about none while the store's stamp
//! says that nothing was written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign::decision::Ground;
use countersign::registry::{Entry, Kind};
use countersign::store::StoreError;
use countersign::time::Time;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::App;
use crate::access::Caller;

/// How often the credentials are looked at. A stream ends within twice this.
const EVERY: Duration = Duration::from_millis(400);

/// Who follows something just now.
#[derive(Default)]
pub struct Revocations(Mutex<Followers>);

#[derive(Default)]
struct Followers {
    next: u64,
    is_checked: bool,
    all: HashMap<u64, Follower>,
}

struct Follower {
    grounds: Vec<Ground>,
    expires_at: Option<Time>,
    /// The store's stamp when the grounds were last found to hold.
    held_at: Option<u64>,
    end: CancellationToken,
}

/// Says when a caller has to stop following. Looked after until it is dropped.
pub struct Watch {
    app: App,
    number: u64,
    end: CancellationToken,
}

impl Watch {
    /// Looks after a caller from now on.
    pub fn of(app: &App, caller: &Caller) -> Watch {
        let end = CancellationToken::new();
        let follower = Follower {
            grounds: caller.grounds.clone(),
            expires_at: caller.expires_at,
            held_at: None,
            end: end.clone(),
        };
        let mut followers = app.revocations.followers();
        let number = followers.next;
        followers.next = number.wrapping_add(1);
        followers.all.insert(number, follower);
        if !std::mem::replace(&mut followers.is_checked, true) {
            tokio::spawn(check_all(app.clone()));
        }
        Watch {
            app: app.clone(),
            number,
            end,
        }
    }

    /// Resolves when the credential holds no longer.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.end.clone().cancelled_owned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.app.revocations.followers().all.remove(&self.number);
    }
}

impl Revocations {
    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks everybody again and again, until nobody is left.
async fn check_all(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = app.stopping.cancelled() => return,
        }
        {
            let mut followers = app.revocations.followers();
            if followers.all.is_empty() {
                followers.is_checked = false;
                return;
            }
        }
        if let Err(error) = check_once(&app).await {
            // What is followed comes from the same store, so there is nothing to be learned meanwhile.
            tracing::warn!("credentials of open streams could not be looked at: {error}");
        }
    }
}

async fn check_once(app: &App) -> Result<(), StoreError> {
    // The stamp first: what is written behind it is looked at the next time.
    let stamp = app.store().stamp().await?;
    let now = app.store().now().await?;
    let names = end_expired(app, stamp, now);
    let entries = app.store().entries_named(&names).await?;
    let found: HashMap<(Kind, String), Option<Entry>> = names.into_iter().zip(entries).collect();
    let mut followers = app.revocations.followers();
    for follower in followers.all.values_mut() {
        // One that came meanwhile waits for the next time.
        let is_looked_at = |ground: &Ground| found.contains_key(&(ground.kind, ground.key.clone()));
        if !follower.grounds.iter().all(is_looked_at) {
            continue;
        }
        let holds = |ground: &Ground| {
            let entry = found.get(&(ground.kind, ground.key.clone()));
            ground.holds(entry.and_then(Option::as_ref), now)
        };
        match follower.grounds.iter().all(holds) {
            true => follower.held_at = stamp,
            false => follower.end.cancel(),
        }
    }
    Ok(())
}

/// Ends those whose time is over, and names the entries that the others rest on and that may have changed.
fn end_expired(app: &App, stamp: Option<u64>, now: Time) -> Vec<(Kind, String)> {
    let followers = app.revocations.followers();
    let mut names = Vec::new();
    for follower in followers.all.values() {
        if follower.expires_at.is_some_and(|expires_at| expires_at <= now) && !is_session(follower) {
            follower.end.cancel();
        }
        let is_unchanged = stamp.is_some() && follower.held_at == stamp;
        // A session's time is in its entry, and moves on as it is used.
        if !is_unchanged || is_session(follower) {
            let grounds = follower.grounds.iter();
            names.extend(grounds.map(|ground| (ground.kind, ground.key.clone())));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn is_session(follower: &Follower) -> bool {
    follower.grounds.iter().any(|ground| ground.kind == Kind::Session)
}
