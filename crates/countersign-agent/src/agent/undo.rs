//! Handles "undo that": proposes calls that undo the session's last completed card.

use countersign::approval::{Approval, SharedApproval};
use countersign::command::ProposeRefusal;
use countersign::display::one_line;
use countersign::gate::{NotUndone, SubmitError};
use countersign::id::CallId;
use countersign::sentence::{Sentences, fill};
use countersign::state::CallState;

use super::TurnError;
use super::turn::Turn;
use crate::progress::Progress;
use crate::session::Step;

/// Number of recent cards that are searched for something to undo.
const MOST_CARDS_SEARCHED: usize = 50;

impl Turn<'_> {
    /// Proposes, as one card, to undo the calls of the last card that ran and was not undone. Calls that cannot be
    /// undone are named with the reason.
    pub(super) async fn undo(&mut self) -> Result<(), TurnError> {
        let sentences = self.sentences();
        let Some(target) = self.last_undoable().await? else {
            return self.say_as_channel(Some(&sentences.nothing_to_undo)).await;
        };
        let submission = self.submission(Vec::new());
        let undo = match self.agent.gate().undo_all(submission, target.id).await {
            Ok(undo) => undo,
            Err(error) => return self.report_undo_error(error).await,
        };
        self.say_as_channel(not_undone_message(&target, &undo.left, &sentences).as_deref())
            .await?;
        match undo.approval {
            Some(approval) => self.record_opened(approval).await,
            None => Ok(()),
        }
    }

    /// Proposes to undo one call, as a card of its own. If the call cannot be undone, the channel says why.
    pub(super) async fn undo_call(&mut self, call: CallId) -> Result<(), TurnError> {
        let submission = self.submission(Vec::new());
        match self.agent.gate().undo(submission, call).await {
            Ok(approval) => self.record_opened(approval).await,
            Err(error) => self.report_undo_error(error).await,
        }
    }

    async fn record_opened(&mut self, approval: SharedApproval) -> Result<(), TurnError> {
        self.append(Step {
            opened: Some(approval.id),
            ..Step::default()
        })
        .await?;
        self.pending_card = Some(approval.id);
        self.report(Progress::Proposed { approval }).await;
        Ok(())
    }

    async fn report_undo_error(&mut self, error: SubmitError) -> Result<(), TurnError> {
        let sentences = self.sentences();
        let reason = match error {
            SubmitError::Store(error) => return Err(error.into()),
            SubmitError::Refused(ProposeRefusal::NotUndoable { state, .. }) => {
                sentences.reasons.undone(state)
            }
            SubmitError::NoUndo(_, reason) => reason.lines().next().unwrap_or_default().to_owned(),
            other => other.to_string(),
        };
        self.say_as_channel(Some(&fill(&sentences.cannot_undo, &[("why", &reason)])))
            .await
    }

    fn sentences(&self) -> Sentences {
        let language = self.agent.language(None);
        self.agent.conversations.sentences(language)
    }

    /// Returns the latest card with a call that succeeded and was not undone, leaving out cards that are undos
    /// themselves. Returns `None` if there is none among the last [`MOST_CARDS_SEARCHED`] cards.
    async fn last_undoable(&self) -> Result<Option<SharedApproval>, TurnError> {
        let store = self.agent.gate().store();
        let settled = self.session.settled_approvals().iter().rev();
        for id in settled.take(MOST_CARDS_SEARCHED) {
            let Some(approval) = store.approval(&self.context.tenant, *id).await? else {
                continue;
            };
            let mut calls = approval.calls.iter();
            let is_done = approval.undoes.is_none()
                && calls.any(|call| call.state == CallState::Succeeded && call.undone_by.is_none());
            if is_done {
                return Ok(Some(approval));
            }
        }
        Ok(None)
    }
}

/// Returns a message that lists the calls that cannot be undone, with reasons, or `None` if `left` is empty.
fn not_undone_message(target: &Approval, left: &[NotUndone], sentences: &Sentences) -> Option<String> {
    let reason = |not_undone: &NotUndone| {
        not_undone
            .why
            .clone()
            .unwrap_or_else(|| sentences.no_undo.clone())
    };
    if let ([only], [_]) = (left, target.calls.as_slice()) {
        return Some(fill(&sentences.cannot_undo, &[("why", &reason(only))]));
    }
    let line = |not_undone: &NotUndone| {
        let call = target.call(not_undone.position)?;
        let values = [
            ("what", &*one_line(&call.terms.summary)),
            ("why", &reason(not_undone)),
        ];
        Some(fill(&sentences.not_undone, &values))
    };
    let lines: Vec<String> = left.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
