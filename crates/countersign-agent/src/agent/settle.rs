//! Settling: the model is told what became of the cards of this session, each of them once.

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

/// How long a turn waits for calls that run elsewhere, before it goes on without their results.
const RUNNING: Duration = Duration::from_secs(30);

impl Turn<'_> {
    /// Adds what became of the session's cards to the session. True when there was something to add.
    pub(super) async fn settle(&mut self) -> Result<bool, TurnError> {
        self.find_lost().await?;
        let mut settled = false;
        for open in self.session.open_approvals().to_vec() {
            let Some(approval) = self.finished(open).await? else {
                continue;
            };
            self.append(Step {
                messages: Message::of_exchanges(
                    exchanges(&approval, self.agent.gate().policy()),
                    &self.agent.plan.outside,
                )
                .into(),
                settled: Some(approval.id),
                ..Step::default()
            })
            .await?;
            self.tell(Progress::Decided { approval }).await;
            settled = true;
        }
        Ok(settled)
    }

    /// Settles, and the channel says how those cards ended: nobody did yet, because they were decided elsewhere, or by
    /// time.
    pub(super) async fn catch_up(&mut self) -> Result<bool, TurnError> {
        let told = self.session.settled_approvals().len();
        let settled = self.settle().await?;
        let new = self.session.settled_approvals().iter().skip(told);
        for id in new.copied().collect::<Vec<_>>() {
            let store = self.agent.gate().store();
            if let Some(approval) = store.approval(&self.place.tenant, id).await? {
                let language = self.agent.language(None);
                let say = self.agent.conversations.ending(&approval, language);
                self.say(say.as_deref()).await?;
            }
        }
        Ok(settled)
    }

    /// The card that waits for an answer here, if it is this session's.
    pub(super) async fn waiting(&self) -> Result<Option<ApprovalId>, TurnError> {
        let store = self.agent.gate().store();
        let pending = store.pending_in(&self.place.tenant, &self.place.channel).await?;
        Ok(pending
            .filter(|pending| pending.agent == self.agent.plan.name)
            .map(|pending| pending.id))
    }

    /// Shows a card that is on record, if it is still a question.
    pub(super) async fn show_again(&mut self, id: ApprovalId) -> Result<(), TurnError> {
        let store = self.agent.gate().store();
        let Some(approval) = store.approval(&self.place.tenant, id).await? else {
            return Ok(());
        };
        if approval.state == State::Pending {
            let language = self.agent.language(None);
            let prompt = self.agent.conversations.prompt(&approval, language).await?;
            self.held = None;
            let prompt = Box::new(prompt);
            self.tell(Progress::Held { approval, prompt }).await;
        }
        Ok(())
    }

    /// A card whose session could not be told of it, because the process ended in between.
    async fn find_lost(&mut self) -> Result<(), TurnError> {
        let Some(pending) = self.waiting().await? else {
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

    /// The approval, once it is decided and its calls have run, so far as this gate runs them.
    async fn finished(&self, id: ApprovalId) -> Result<Option<SharedApproval>, TurnError> {
        let gate = self.agent.gate();
        let tenant = &self.place.tenant;
        // Time may have ended it without anybody having written that down.
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
        match gate.wait(tenant, id, Until::Finished, RUNNING).await? {
            Waited::Done(approval) => Ok(Some(approval)),
            Waited::TimedOut(_) | Waited::NotFound => Ok(None),
        }
    }
}
