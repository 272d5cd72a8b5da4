//! "Undo that": what was done last is put to the person again, the other way round.

use countersign::approval::{Approval, SharedApproval};
use countersign::command::ProposeRefusal;
use countersign::gate::{NotUndone, SubmitError};
use countersign::id::CallId;
use countersign::sentence::{Sentences, fill};
use countersign::state::CallState;

use super::TurnError;
use super::turn::Turn;
use crate::progress::Progress;
use crate::session::Step;

/// How many of the latest cards are looked through.
const LOOKED_THROUGH: usize = 50;

impl Turn<'_> {
    /// Proposes to undo what the last card of this session did and that was not undone, as one card of its own. What of
    /// it cannot be undone is named, with the reason.
    pub(super) async fn undo(&mut self) -> Result<(), TurnError> {
        let sentences = self.sentences();
        let Some(done) = self.last_done().await? else {
            return self.say(Some(&sentences.nothing_to_undo)).await;
        };
        let submission = self.submission(Vec::new());
        let undoing = match self.agent.gate().undo_all(submission, done.id).await {
            Ok(undoing) => undoing,
            Err(error) => return self.cannot_undo(error).await,
        };
        self.say(left(&done, &undoing.left, &sentences).as_deref())
            .await?;
        match undoing.approval {
            Some(approval) => self.opened(approval).await,
            None => Ok(()),
        }
    }

    /// Proposes to undo one call, as a card of its own, or says why that cannot be.
    pub(super) async fn undo_one(&mut self, call: CallId) -> Result<(), TurnError> {
        let submission = self.submission(Vec::new());
        match self.agent.gate().undo(submission, call).await {
            Ok(approval) => self.opened(approval).await,
            Err(error) => self.cannot_undo(error).await,
        }
    }

    async fn opened(&mut self, approval: SharedApproval) -> Result<(), TurnError> {
        self.append(Step {
            opened: Some(approval.id),
            ..Step::default()
        })
        .await?;
        self.held = Some(approval.id);
        self.tell(Progress::Proposed { approval }).await;
        Ok(())
    }

    async fn cannot_undo(&mut self, error: SubmitError) -> Result<(), TurnError> {
        let sentences = self.sentences();
        let why = match error {
            SubmitError::Store(error) => return Err(error.into()),
            SubmitError::Refused(ProposeRefusal::NotUndoable { state, .. }) => {
                sentences.reasons.undone(state)
            }
            SubmitError::NoUndo(_, reason) => reason.lines().next().unwrap_or_default().to_owned(),
            other => other.to_string(),
        };
        self.say(Some(&fill(&sentences.cannot_undo, &[("why", &why)])))
            .await
    }

    fn sentences(&self) -> Sentences {
        let language = self.agent.language(None);
        self.agent.conversations.sentences(language)
    }

    /// The last card of which something is done and not undone.
    async fn last_done(&self) -> Result<Option<SharedApproval>, TurnError> {
        let store = self.agent.gate().store();
        let settled = self.session.settled_approvals().iter().rev();
        for id in settled.take(LOOKED_THROUGH) {
            let Some(approval) = store.approval(&self.place.tenant, *id).await? else {
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

/// What stays as it is, and why; nothing when nothing does.
fn left(done: &Approval, left: &[NotUndone], sentences: &Sentences) -> Option<String> {
    let why = |not: &NotUndone| not.why.clone().unwrap_or_else(|| sentences.no_undo.clone());
    if let ([only], [_]) = (left, done.calls.as_slice()) {
        return Some(fill(&sentences.cannot_undo, &[("why", &why(only))]));
    }
    let line = |not: &NotUndone| {
        let call = done.call(not.position)?;
        let values = [("what", call.terms.summary.as_str()), ("why", &why(not))];
        Some(fill(&sentences.not_undone, &values))
    };
    let lines: Vec<String> = left.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
