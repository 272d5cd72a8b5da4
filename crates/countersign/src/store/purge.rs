//! Retention: erases the content of old approvals, one page at a time.
//!
//! A purge has an age limit and a page size. It returns the number of erased approvals, and a cursor to continue. The
//! operator decides when to purge and how long content is kept.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{Filter, LONGEST_PAGE, Store, StoreError, other_answer};
use crate::command::{Answer, Command, Erase, Erasure};
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::time::Time;

/// Number of erasures in flight at once, so that they can share a commit.
const AT_ONCE: usize = 64;

/// Selection of the approvals to erase.
#[derive(Clone, Debug)]
pub struct Purge {
    /// Tenant whose approvals are erased.
    pub tenant: Tenant,
    /// Only approvals that have not changed since this time.
    pub before: Time,
    /// Cursor: continues after this approval. Newer approvals come first; `None` starts with the newest.
    pub after: Option<ApprovalId>,
    /// Maximum number of approvals to examine.
    pub limit: usize,
    /// Actor that is recorded as the author of the erasures.
    pub by: Actor,
    /// Hash of the policy in force, recorded in the events.
    pub policy: Hash,
    /// True to count what would be erased, and erase nothing.
    pub dry_run: bool,
}

/// Result of one page of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Number of approvals that this page erased, or would erase in a dry run.
    pub erased: usize,
    /// Number of approvals that had been erased before. If a page contains nothing else, an earlier purge has already
    /// got this far.
    pub already: usize,
    /// Cursor for the next page; `None` when all old approvals were examined.
    pub next: Option<ApprovalId>,
}

pub(super) async fn purge<S: Store + ?Sized>(store: &S, purge: &Purge) -> Result<Purged, StoreError> {
    // Ids grow with time, and the listing is newest first: start after anything proposed later than `before`.
    let millis = u64::try_from(purge.before.as_micros() / 1000).unwrap_or(0);
    let first = ApprovalId::from_parts(millis.saturating_add(1), &[0; 10]);
    let limit = purge.limit.clamp(1, LONGEST_PAGE);
    let filter = Filter {
        after: Some(purge.after.unwrap_or(first)),
        limit: Some(limit),
        ..Filter::default()
    };
    let old = store.list(&purge.tenant, &filter).await?;
    let mut purged = Purged {
        next: old.last().map(|last| last.id).filter(|_| old.len() >= limit),
        already: old.iter().filter(|approval| approval.erased_at.is_some()).count(),
        ..Purged::default()
    };
    // The erase command checks this again inside its transaction; the filter only saves needless writes.
    let worth = old.iter().filter(|approval| approval.is_erasable(purge.before));
    if purge.dry_run {
        purged.erased = worth.count();
        return Ok(purged);
    }
    let commands = worth.map(|approval| {
        Command::Erase(Erase {
            tenant: purge.tenant.clone(),
            approval: approval.id,
            before: purge.before,
            by: purge.by.clone(),
            policy: purge.policy,
        })
    });
    let writes: Vec<_> = commands.map(|command| store.write(command)).collect();
    let answers: Vec<Answer> = stream::iter(writes).buffered(AT_ONCE).try_collect().await?;
    for answer in answers {
        match answer {
            Answer::Erase(Erasure::Done) => purged.erased += 1,
            Answer::Erase(_) => {}
            _ => return Err(other_answer()),
        }
    }
    Ok(purged)
}
