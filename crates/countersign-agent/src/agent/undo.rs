//! "Undo that": the last thing that was done here is put to the person again, the other way round.

use countersign::gate::SubmitError;
use countersign::id::CallId;
use countersign::sentence::{Sentences, fill};
use countersign::state::CallState;

use super::TurnError;
use super::turn::Turn;
use crate::session::Step;

/// How many of the latest cards are looked through.
const LOOKED_THROUGH: usize = 50;

impl Turn<'_> {
    /// Proposes to undo the last call of this session that succeeded and was not undone, as a card of its own; or says
    /// why that cannot be.
    pub(super) async fn undo(&mut self) -> Result<(), TurnError> {
        let Some(call) = self.last_done().await? else {
            let say = self.sentences().nothing_to_undo;
            return self.say(Some(&say)).await;
        };
        let submission = self.submission(Vec::new());
        let approval = match self.agent.gate().undo(submission, call).await {
            Ok(approval) => approval,
            Err(SubmitError::Store(error)) => return Err(error.into()),
            Err(error) => {
                let reason = match error {
                    SubmitError::NoUndo(_, reason) => reason,
                    other => other.to_string(),
                };
                let say = fill(&self.sentences().cannot_undo, &[("why", &reason)]);
                return self.say(Some(&say)).await;
            }
        };
        self.append(Step {
            opened: Some(approval.id),
            ..Step::default()
        })
        .await?;
        self.held = Some(approval.id);
        Ok(())
    }

    fn sentences(&self) -> Sentences {
        let language = self.agent.language(None);
        self.agent.conversations.sentences(language)
    }

    async fn last_done(&self) -> Result<Option<CallId>, TurnError> {
        let store = self.agent.gate().store();
        let settled = self.session.settled_approvals().iter().rev();
        for id in settled.take(LOOKED_THROUGH) {
            let Some(approval) = store.approval(&self.place.tenant, *id).await? else {
                continue;
            };
            if approval.undoes.is_some() {
                continue;
            }
            // A batch is taken back from its end.
            let calls: Vec<_> = approval.numbered().collect();
            let done = calls
                .into_iter()
                .rev()
                .find(|(_, call)| call.state == CallState::Succeeded && call.undone_by.is_none());
            if let Some((position, _)) = done {
                return Ok(Some(CallId {
                    approval: approval.id,
                    position,
                }));
            }
        }
        Ok(None)
    }
}
