//! Noting what was denied, so that it is not asked again for a while.
//!
//! Enters: an approval that was decided. Leaves: an entry of the registry for each set of calls that was denied together.
//! Deliberately absent: what a later proposal makes of it; see [`crate::command::Denials`].

use std::time::Duration;

use futures_util::future::try_join_all;

use crate::approval::Approval;
use crate::command::{CallSet, Denials, denied_sets};
use crate::id::Tenant;
use crate::registry::{Entry, Kind, Put};
use crate::store::{Store, StoreError};
use crate::time::Time;

/// How often an entry is written again that somebody else changed meanwhile.
const TRIES: usize = 8;

/// Notes for `wait` what a person denied of this approval. Noting it twice changes nothing.
pub(crate) async fn note_denial(
    store: &dyn Store,
    approval: &Approval,
    wait: Duration,
) -> Result<(), StoreError> {
    let Some(decided) = &approval.decision else {
        return Ok(());
    };
    let (at, until) = (decided.at, decided.at.plus(wait));
    let sets = denied_sets(approval).into_iter();
    let kept = sets.map(|calls| keep(store, &approval.tenant, calls, at, until));
    try_join_all(kept).await.map(|_| ())
}

async fn keep(
    store: &dyn Store,
    tenant: &Tenant,
    calls: CallSet,
    at: Time,
    until: Time,
) -> Result<(), StoreError> {
    let Some(key) = calls.key() else {
        return Ok(());
    };
    for _ in 0..TRIES {
        let there = store.entry(Kind::Denial, &key).await?;
        let mut denials = match &there {
            Some(there) => Denials::read(&there.body)?,
            None => Denials::default(),
        };
        denials.add(calls.clone(), until, at);
        let entry = Entry {
            kind: Kind::Denial,
            key: key.clone(),
            tenant: tenant.clone(),
            body: denials.write(),
            version: there.map_or(0, |there| there.version),
            expires_at: denials.last(),
        };
        if let Put::Kept(_) = store.put_entry(entry).await? {
            return Ok(());
        }
    }
    Err(StoreError::Unavailable("a denial could not be noted".to_owned()))
}
