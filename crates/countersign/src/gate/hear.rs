//! Hearing: a person's reply in a channel, while an approval is pending there.
//!
//! Enters: what the reply was read as, who sent it, and which card they had seen. Leaves: what happened, and whether
//! the message still goes on to the agent. Deliberately absent: reading the words, and saying any; see `reply` and
//! `conversation`.

use super::{Gate, Resolved};
use crate::approval::SharedApproval;
use crate::card::WholeCard;
use crate::decision::{Choice, Decider, Decision, Refusal, Verdict};
use crate::id::{Actor, Channel, Key, Tenant};
use crate::policy::OnOther;
use crate::reply::Reading;
use crate::store::StoreError;

/// A message in a channel, from a verified sender.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Whose world.
    pub tenant: Tenant,
    /// The conversation.
    pub channel: Channel,
    /// Who sent it, as the channel's adapter verified.
    pub sender: Decider,
    /// What it was read as.
    pub reading: Reading,
    /// The card that was last shown there before the message was sent, if all of it was.
    pub seen: Option<WholeCard>,
    /// The message's id: the same message twice counts once.
    pub message: Option<Key>,
}

/// What happened to a reply.
#[derive(Debug)]
pub enum Heard {
    /// Nothing is pending here, or not for this sender: the message goes on to the agent.
    NotForUs,
    /// Decided, and run so far as this gate runs it.
    Decided(Resolved),
    /// The approval was cancelled by another message, which goes on to the agent.
    Cancelled(SharedApproval),
    /// The approval stays, the message goes on to the agent, and the card is shown again.
    Kept(SharedApproval),
    /// A yes to something else than what is pending: the current card is shown again.
    ShowAgain(SharedApproval),
    /// A yes where part of the card was not shown: the approval stays, and the whole card is elsewhere.
    Incomplete(SharedApproval),
    /// The decision was refused, and why.
    Refused(Refusal),
}

impl Gate {
    /// Hears a reply: looks for the pending approval before anything else.
    pub async fn hear(&self, reply: Reply) -> Result<Heard, StoreError> {
        let Some(pending) = self.store.pending_in(&reply.tenant, &reply.channel).await? else {
            return Ok(Heard::NotForUs);
        };
        let is_approver = pending
            .calls
            .iter()
            .any(|call| reply.sender.is_among(&call.terms.approvers));
        if !is_approver {
            return Ok(Heard::NotForUs);
        }
        let verdict = match &reply.reading {
            Reading::Yes => Verdict::Approve,
            Reading::Part(part) => {
                let choices = (1..=pending.calls.len()).map(|position| match part.grants(position) {
                    true => Choice::Approve,
                    false => Choice::Deny,
                });
                Verdict::Each(choices.collect())
            }
            Reading::No => {
                let denial = Decision::deny(reply.tenant.clone(), pending.id, reply.sender.clone());
                let digest = Some(pending.digest);
                return self.answer(reply, Decision { digest, ..denial }).await;
            }
            Reading::Other => return self.go_on(reply, pending).await,
        };
        // A yes counts only for the card its sender had before their eyes, all of it.
        let is_pending = |card: &WholeCard| *card == WholeCard::shown(&pending);
        match reply.seen.clone().filter(is_pending) {
            Some(card) => {
                let (tenant, sender) = (reply.tenant.clone(), reply.sender.clone());
                self.answer(reply, Decision::on(tenant, card, sender, verdict))
                    .await
            }
            None => Ok(Heard::ShowAgain(pending)),
        }
    }

    async fn answer(&self, reply: Reply, decision: Decision) -> Result<Heard, StoreError> {
        let decision = Decision {
            key: reply.message,
            ..decision
        };
        let resolved = self.decide_and_run(decision).await?;
        Ok(match resolved.refusal {
            Some(refusal) => Heard::Refused(refusal),
            None => Heard::Decided(resolved),
        })
    }

    async fn go_on(&self, reply: Reply, pending: SharedApproval) -> Result<Heard, StoreError> {
        if self.policy.channel().on_other == OnOther::Keep {
            return Ok(Heard::Kept(pending));
        }
        let by = Actor::Person(reply.sender.person);
        let reason = Some("another message came instead of a decision".to_owned());
        let answer = self.withdraw(&reply.tenant, pending.id, by, reason).await?;
        Ok(match answer.refusal {
            Some(refusal) => Heard::Refused(refusal),
            None => Heard::Cancelled(answer.approval.unwrap_or(pending)),
        })
    }
}
