//! Settling: reports the outcome of each card of the session to the model, once per card.

use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::gate::{Until, Waited};
use countersign::id::ApprovalId;
use countersign::state::State;
use countersign::transcript::exchanges;

use super::TurnError;
use super::turn::Turn;
use crate::message::Message;
use crate::progress::Progress;
use crate::session::Step;

/// Maximum time that a turn waits for calls that run in another process. After it, the turn continues without their
/// results.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl Turn<'_> {
    /// Adds the results of finished cards to the session. Returns true if any card was settled.
    pub(super) async fn settle(&mut self) -> Result<bool, TurnError> {
        self.recover_pending_card().await?;
        let mut settled = false;
        for open in self.session.open_approvals().to_vec() {
            let Some(approval) = self.finished_approval(open).await? else {
                continue;
            };
            self.append(Step {
                messages: Message::of_exchanges(
                    exchanges(&approval, self.agent.gate().policy()),
                    &self.agent.config.outside_tools,
                )
                .into(),
                settled: Some(approval.id),
                ..Step::default()
            })
            .await?;
            self.report(Progress::Decided { approval }).await;
            settled = true;
        }
        Ok(settled)
    }

    /// Settles cards that were decided elsewhere or have expired, and lets the channel say how each of them ended.
    /// Returns true if any card was settled.
    pub(super) async fn settle_earlier_cards(&mut self) -> Result<bool, TurnError> {
        let earlier = self.session.settled_approvals().len();
        let settled = self.settle().await?;
        let newly_settled = self.session.settled_approvals().iter().skip(earlier);
        for id in newly_settled.copied().collect::<Vec<_>>() {
            let store = self.agent.gate().store();
            if let Some(approval) = store.approval(&self.context.tenant, id).await? {
                let language = self.agent.language(None);
                let say = self.agent.conversations.ending(&approval, language);
                self.say_as_channel(say.as_deref()).await?;
            }
        }
        Ok(settled)
    }

    /// Returns the approval that is pending in this channel, if this agent proposed it.
    pub(super) async fn pending_approval(&self) -> Result<Option<ApprovalId>, TurnError> {
        let store = self.agent.gate().store();
        let pending = store
            .pending_in(&self.context.tenant, &self.context.channel)
            .await?;
        Ok(pending
            .filter(|pending| pending.agent == self.agent.config.name)
            .map(|pending| pending.id))
    }

    /// Shows a card again if its approval is still pending.
    pub(super) async fn show_again(&mut self, id: ApprovalId) -> Result<(), TurnError> {
        let store = self.agent.gate().store();
        let Some(approval) = store.approval(&self.context.tenant, id).await? else {
            return Ok(());
        };
        if approval.state == State::Pending {
            let language = self.agent.language(None);
            let prompt = self.agent.conversations.prompt(&approval, language).await?;
            self.pending_card = None;
            let prompt = Box::new(prompt);
            self.report(Progress::ShowCard { approval, prompt }).await;
        }
        Ok(())
    }

    /// Adds a pending card to the session if it is missing there because the process that proposed it ended too
    /// early.
    async fn recover_pending_card(&mut self) -> Result<(), TurnError> {
        let Some(pending) = self.pending_approval().await? else {
            return Ok(());
        };
        if self.session.open_approvals().contains(&pending) {
            return Ok(());
        }
        self.append(Step {
            opened: Some(pending),
            ..Step::default()
        })
        .await
    }

    /// Returns the approval once it is decided and its calls have finished, running its released calls first. Returns
    /// `None` if the approval is still pending or not found, or if its calls take longer than [`LONGEST_WAIT`].
    async fn finished_approval(&self, id: ApprovalId) -> Result<Option<SharedApproval>, TurnError> {
        let gate = self.agent.gate();
        let tenant = &self.context.tenant;
        // The approval may be past its expiry without the expiry having been recorded yet.
        let Some(mut approval) = gate.store().approval(tenant, id).await? else {
            return Ok(None);
        };
        if approval.state == State::Pending {
            if approval.expires_at > gate.store().now().await? {
                return Ok(None);
            }
            gate.expire_due().await?;
            let Some(expired) = gate.store().approval(tenant, id).await? else {
                return Ok(None);
            };
            approval = expired;
        }
        if approval.next_released().is_some() {
            (approval, _) = gate.run_released(tenant, approval).await?;
        }
        if approval.is_finished() {
            return Ok(Some(approval));
        }
        match gate.wait(tenant, id, Until::Finished, LONGEST_WAIT).await? {
            Waited::Done(approval) => Ok(Some(approval)),
            Waited::TimedOut(_) | Waited::NotFound => Ok(None),
        }
    }
}
