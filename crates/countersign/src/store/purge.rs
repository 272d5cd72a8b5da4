//! Retention: walks through what is old and erases its content.
//!
//! Enters: how old, and how many to look at. Leaves: how many were erased, and where to go on.
//! Deliberately absent: when to do it, and for how long content is kept; that is the operator's.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{Filter, LONGEST_PAGE, Store, StoreError, other_answer};
use crate::command::{Answer, Command, Erase, Erasure};
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::time::Time;

/// So many at once share a commit.
const AT_ONCE: usize = 64;

/// What to erase.
#[derive(Clone, Debug)]
pub struct Purge {
    /// Whose approvals.
    pub tenant: Tenant,
    /// Only those that have not changed since.
    pub before: Time,
    /// Goes on behind this one; newer ones come first.
    pub after: Option<ApprovalId>,
    /// The most approvals to look at.
    pub limit: usize,
    /// Who wants it.
    pub by: Actor,
    /// The policy in force.
    pub policy: Hash,
}

/// What was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Approvals whose content is gone now.
    pub erased: usize,
    /// Approvals whose content was gone before. A page of nothing else says that an earlier purge came this far.
    pub already: usize,
    /// Where to go on; nothing when all that is old was looked at.
    pub next: Option<ApprovalId>,
}

pub(super) async fn purge<S: Store + ?Sized>(store: &S, purge: &Purge) -> Result<Purged, StoreError> {
    // Ids grow with time, so whatever was proposed later stands before this one.
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
    // Looked at again inside the transaction; this only spares needless ones.
    let worth = old
        .iter()
        .filter(|approval| approval.erased_at.is_none() && approval.is_finished());
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
