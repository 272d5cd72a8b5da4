//! Handles a person's reply in a channel while an approval is pending in that channel.
//!
//! A reply arrives as a reading (yes, no, some of the calls, or something else), with its sender and the card that the
//! sender had seen. The result says what happened, and whether to pass the message on to the agent. The text is
//! interpreted in `reply`; messages to the person are written in `conversation`.

use super::{Gate, Resolved};
use crate::approval::{Approval, SharedApproval};
use crate::card::WholeCard;
use crate::decision::{Choice, Decider, Decision, Refusal, Verdict};
use crate::id::{Actor, Channel, Key, Tenant};
use crate::policy::OnOther;
use crate::reply::Reading;
use crate::store::StoreError;

/// A message in a channel, from a verified sender.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Tenant of the channel.
    pub tenant: Tenant,
    /// The channel that the message was sent in.
    pub channel: Channel,
    /// Sender, as verified by the channel's adapter.
    pub sender: Decider,
    /// Interpretation of the text.
    pub reading: Reading,
    /// The card that was shown last before the message was sent; `None` if there was none, or if it was not shown
    /// completely.
    pub seen: Option<WholeCard>,
    /// Id of the message, so that a duplicate delivery counts once. Without an id, duplicates are not recognised.
    pub message: Option<Key>,
}

/// Result of a reply. Exhaustive, because a surface that ignores a variant leaves the person without an answer.
#[derive(Debug)]
pub enum ReplyOutcome {
    /// No approval is pending in the channel, or this sender is not one of its approvers: pass the message on to the
    /// agent.
    PassOn,
    /// The approval was decided, and those of its calls whose tools this gate's executor runs were run.
    Decided(Resolved),
    /// The reply was about something else and withdrew the approval: pass the reply on to the agent.
    Cancelled(SharedApproval),
    /// The approval stays pending: pass the message on to the agent and show the card again.
    Kept(SharedApproval),
    /// The reply was a yes, but its sender was not shown the whole pending card, or was shown another one: show the
    /// pending card again.
    ShowAgain(SharedApproval),
    /// The reply was a yes, but the pending card is too long to be shown completely in this channel. The approval stays
    /// pending, and the person has to see the whole card elsewhere. [`Gate::hear`] does not return this; a
    /// [`conversation`](crate::conversation) does.
    Incomplete(SharedApproval),
    /// The decision was refused.
    Refused(Refusal),
}

/// Returns true if the sender is an approver of one of the calls.
pub(crate) fn may_answer(sender: &Decider, pending: &Approval) -> bool {
    let mut calls = pending.calls.iter();
    calls.any(|call| sender.is_among(&call.terms.approvers))
}

impl Gate {
    /// Handles a reply. Returns [`ReplyOutcome::PassOn`] if no approval is pending in its channel.
    pub async fn hear(&self, reply: Reply) -> Result<ReplyOutcome, StoreError> {
        let pending = self.store.pending_in(&reply.tenant, &reply.channel).await?;
        match pending {
            Some(pending) if may_answer(&reply.sender, &pending) => self.hear_about(reply, pending).await,
            _ => Ok(ReplyOutcome::PassOn),
        }
    }

    /// Handles a reply to a pending approval, from one of its approvers.
    pub(crate) async fn hear_about(
        &self,
        reply: Reply,
        pending: SharedApproval,
    ) -> Result<ReplyOutcome, StoreError> {
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
            Reading::Other => return self.handle_other_reply(reply, pending).await,
        };
        // A yes counts only if its sender was shown this whole card.
        let is_pending = |card: &WholeCard| *card == WholeCard::shown(&pending);
        match reply.seen.clone().filter(is_pending) {
            Some(card) => {
                let (tenant, sender) = (reply.tenant.clone(), reply.sender.clone());
                self.answer(reply, Decision::on(tenant, card, sender, verdict))
                    .await
            }
            None => Ok(ReplyOutcome::ShowAgain(pending)),
        }
    }

    async fn answer(&self, reply: Reply, decision: Decision) -> Result<ReplyOutcome, StoreError> {
        let decision = Decision {
            key: reply.message,
            ..decision
        };
        let resolved = self.decide_and_run(decision).await?;
        Ok(match resolved.refusal {
            Some(refusal) => ReplyOutcome::Refused(refusal),
            None => ReplyOutcome::Decided(resolved),
        })
    }

    async fn handle_other_reply(
        &self,
        reply: Reply,
        pending: SharedApproval,
    ) -> Result<ReplyOutcome, StoreError> {
        if self.policy.channel().on_other == OnOther::Keep {
            return Ok(ReplyOutcome::Kept(pending));
        }
        let by = Actor::Person(reply.sender.person);
        let reason = Some("another message came instead of a decision".to_owned());
        let answer = self.withdraw(&reply.tenant, pending.id, by, reason).await?;
        Ok(match answer.refusal {
            Some(refusal) => ReplyOutcome::Refused(refusal),
            None => ReplyOutcome::Cancelled(answer.approval.unwrap_or(pending)),
        })
    }
}
