//! Owners: a channel belongs to the agent that opened it.
//!
//! Enters: a proposal in a channel, the entry that names the channel's agent, the card that is pending there. Leaves:
//! a refusal, or the proposal may go on and the channel is the agent's. All in the transaction of the proposal.
//! Deliberately absent: which channels several agents share; the policy says that, and such a channel has no owner.

use std::borrow::Cow;
use std::time::Duration;

use super::Rows;
use super::propose::Propose;
use crate::hash::{Fields, Hash};
use crate::id::{Channel, Tenant};
use crate::registry::{Entry, Kind};
use crate::store::StoreError;
use crate::time::Time;

/// How long a channel stays an agent's after it last proposed there.
pub const OWNED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The entry is written again at most this often, so that most proposals only read it.
const REFRESHED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

impl Propose {
    /// The entry that names the channel's agent; nothing when no agent's card can be in the way.
    pub(super) fn owner(&self) -> Option<(Kind, Cow<'static, str>)> {
        let channel = self.channel.as_ref().filter(|_| self.is_guarded())?;
        Some((Kind::Owner, key(&self.tenant, channel).into()))
    }

    /// True when the channel belongs to another agent.
    pub(super) fn is_in_anothers_channel<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<bool, StoreError> {
        let (Some(channel), Some((kind, key))) = (&self.channel, self.owner()) else {
            return Ok(false);
        };
        let owner = rows.entry(kind, &key)?.filter(|entry| entry.is_there(now));
        if let Some(owner) = owner {
            return Ok(*owner.body != *self.agent.as_str().as_bytes());
        }
        // A channel of before there were owners: the card that is pending there says whose it is.
        let pending = rows.pending_in(&self.tenant, channel)?;
        Ok(pending.is_some_and(|pending| {
            let is_other = pending.agent != self.agent || pending.is_of_older_talk();
            is_other && pending.expires_at > now && !pending.agent.is_of_service()
        }))
    }

    /// Makes the channel this agent's, or keeps it so. Only for a proposal that is saved.
    pub(super) fn take_channel<R: Rows>(&self, rows: &mut R, now: Time) -> Result<(), StoreError> {
        let Some((kind, key)) = self.owner() else {
            return Ok(());
        };
        let stored = rows.entry(kind, &key)?;
        let fresh = now.plus(OWNED_FOR.saturating_sub(REFRESHED_EVERY));
        let is_fresh = |owner: &Entry| owner.expires_at.is_none_or(|until| until >= fresh);
        if stored.as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        rows.keep_entry(Entry {
            kind,
            key: key.into_owned(),
            tenant: self.tenant.clone(),
            body: self.agent.as_str().as_bytes().into(),
            version: stored.map_or(0, |stored| stored.version).saturating_add(1),
            expires_at: Some(now.plus(OWNED_FOR)),
        })
    }

    /// True unless the policy shares the channel, or a person proposes through the service itself: that is nobody's
    /// agent, and takes no channel.
    fn is_guarded(&self) -> bool {
        !self.is_shared && !self.agent.is_of_service()
    }
}

fn key(tenant: &Tenant, channel: &Channel) -> String {
    let hash: Hash = Fields::new("countersign/owner/1")
        .field(tenant.as_str().as_bytes())
        .field(channel.as_str().as_bytes())
        .finish();
    hash.to_string()
}
