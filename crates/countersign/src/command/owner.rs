//! Channel owners: a channel belongs to the agent that opened it.
//!
//! A proposal in a channel is compared with the registry entry that names the channel's agent and with the card pending
//! there. Either it is refused, or the channel is assigned to its agent, in the transaction of the proposal. Channels
//! that the policy lists as shared have no owner.

use std::borrow::Cow;
use std::time::Duration;

use super::Rows;
use super::propose::Propose;
use crate::hash::{Fields, Hash};
use crate::id::{Channel, Tenant};
use crate::registry::{Entry, Kind};
use crate::store::StoreError;
use crate::time::Time;

/// Time for which a channel belongs to its agent after the agent's last proposal in the channel.
pub const OWNED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Minimum time between renewals of the entry, so that most proposals only read the entry.
const REFRESHED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

impl Propose {
    /// Returns kind and key of the entry that names the channel's owner; `None` if ownership does not apply.
    pub(super) fn owner(&self) -> Option<(Kind, Cow<'static, str>)> {
        let channel = self.channel.as_ref().filter(|_| self.is_guarded())?;
        Some((Kind::Owner, key(&self.tenant, channel).into()))
    }

    /// Returns true if the channel of this proposal belongs to another agent.
    pub(super) fn is_in_anothers_channel<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<bool, StoreError> {
        let (Some(channel), Some((kind, key))) = (&self.channel, self.owner()) else {
            return Ok(false);
        };
        let owner = rows.entry(kind, &key)?.filter(|entry| entry.is_live(now));
        if let Some(owner) = owner {
            return Ok(*owner.body != *self.agent.as_str().as_bytes());
        }
        // A channel that is older than the recording of owners belongs to the agent of its pending card.
        let pending = rows.pending_in(&self.tenant, channel)?;
        Ok(pending.is_some_and(|pending| {
            let is_other = pending.agent != self.agent || pending.is_of_older_talk();
            is_other && pending.expires_at > now && !pending.agent.is_of_service()
        }))
    }

    /// Assigns the channel to this agent, or renews the assignment. Must be called only for a proposal that is saved.
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

    /// Returns true if the channel belongs to one agent. False if the policy shares the channel, or if a person
    /// proposes through the service itself, which takes no channel.
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
