//! Undoing: what was done is put to a person again, the other way round.
//!
//! Enters: a call that succeeded, or an approval of which some did. Leaves: a new approval that is shown, decided and
//! run like any other. What has no way back is named, and stays as it is.

use std::sync::Arc;

use super::{Gate, Seeds, Submission, SubmitError};
use crate::approval::SharedApproval;
use crate::call::{Arguments, Call};
use crate::command::NewCall;
use crate::id::{ApprovalId, CallId, Tenant, ToolName};
use crate::json;
use crate::policy::{Asked, Definition, UndoProblem};
use crate::secrecy::Secrecy;
use crate::state::CallState;
use crate::summary::SecretPath;
use crate::undoes::Undoes;

/// The undo of everything that an approval did.
#[derive(Clone, Debug)]
pub struct Undoing {
    /// The approval that asks for it; nothing when nothing can be undone.
    pub approval: Option<SharedApproval>,
    /// What it leaves as it is, in the order in which it was done.
    pub left: Vec<NotUndone>,
}

/// A call that stays done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUndone {
    /// Its place in its approval, from 1.
    pub position: u8,
    /// Why; nothing when no undo is declared for its tool.
    pub why: Option<String>,
}

impl Gate {
    /// Proposes the undo of a call that succeeded, as an approval of its own.
    pub async fn undo(&self, submission: Submission, call: CallId) -> Result<SharedApproval, SubmitError> {
        let no_undo = |reason: String| SubmitError::NoUndo(call, reason);
        let target = self.store.approval(&submission.tenant, call.approval).await?;
        let done = target.as_ref().and_then(|approval| approval.call(call.position));
        let done = done.ok_or_else(|| no_undo("there is no such call".to_owned()))?;
        let seeds = Seeds::new()?;
        let new = self.undo_of(&submission.tenant, done, &seeds).await;
        let new = new.map_err(|problem| no_undo(problem.to_string()))?;
        self.propose_undo(submission, seeds, vec![new], call.into()).await
    }

    /// Proposes the undo of everything that an approval did and that was not undone yet, from its end, as one approval.
    pub async fn undo_all(
        &self,
        submission: Submission,
        approval: ApprovalId,
    ) -> Result<Undoing, SubmitError> {
        let first = CallId {
            approval,
            position: 1,
        };
        let target = self.store.approval(&submission.tenant, approval).await?;
        let target = target.ok_or_else(|| SubmitError::NoUndo(first, "there is no such call".to_owned()))?;
        let seeds = Seeds::new()?;
        let (mut positions, mut calls, mut left) = (Vec::new(), Vec::new(), Vec::new());
        let done: Vec<(u8, &Call)> = target
            .numbered()
            .filter(|(_, call)| call.state == CallState::Succeeded && call.undone_by.is_none())
            .collect();
        // INVARIANT: the order of `Undoes`.
        for (position, call) in done.into_iter().rev() {
            match self.undo_of(&submission.tenant, call, &seeds).await {
                Ok(new) => {
                    positions.push(position);
                    calls.push(new);
                }
                Err(problem) => left.push(NotUndone {
                    position,
                    why: problem.why(),
                }),
            }
        }
        left.reverse();
        let approval = match Undoes::new(approval, positions) {
            Some(undoes) => Some(self.propose_undo(submission, seeds, calls, undoes).await?),
            None => None,
        };
        Ok(Undoing { approval, left })
    }

    async fn propose_undo(
        &self,
        mut submission: Submission,
        seeds: Seeds,
        calls: Vec<NewCall>,
        undoes: Undoes,
    ) -> Result<SharedApproval, SubmitError> {
        submission.calls.clear();
        let propose = self.propose_command(submission, seeds, calls, Some(undoes));
        Ok(self.propose(propose).await?.approval)
    }

    /// The call that takes another one back.
    async fn undo_of(&self, tenant: &Tenant, done: &Call, seeds: &Seeds) -> Result<NewCall, NoUndo> {
        let result = done.result.as_deref().unwrap_or_default();
        let (tool, arguments) = self
            .policy
            .undo(done.tool.as_str(), done.arguments.as_bytes(), result)?;
        let other = |problem: String| NoUndo::Other(problem);
        let arguments = Arguments::parse(arguments).map_err(|problem| other(problem.to_string()))?;
        let before = self.snapshot(tenant, &tool, &arguments).await;
        let before = before.transpose().map_err(other)?;
        let asked = Asked {
            tool: &tool,
            arguments: arguments.as_bytes(),
            definition: Definition::Unknown,
            salt: &seeds.salt,
            before: before.as_deref().map(|before| &*before.result),
        };
        // An undo is shown even where the tool itself would pass.
        let mut terms = self.policy.hold(asked).map_err(other)?;
        // What was secret there is secret here, whatever this tool calls it.
        let secrecy = Secrecy::of(done, &self.policy, &seeds.salt);
        let leaves = json::leaves(arguments.as_bytes());
        let repeated = leaves.iter().filter(|leaf| secrecy.is_in(&leaf.text()));
        terms.hide(repeated.map(|leaf| SecretPath::at(&leaf.pointer)), &secrecy);
        let provenance = self.policy.undo_marks(done, &tool, arguments.as_bytes());
        Ok(NewCall {
            tool: ToolName::new(tool).map_err(|problem| other(problem.to_string()))?,
            definition: Definition::Unknown,
            arguments,
            terms: Arc::new(terms),
            sealed: None,
            provenance: Some(Arc::new(provenance)),
            before,
        })
    }
}

/// Why a call has no undo.
#[derive(Debug, thiserror::Error)]
enum NoUndo {
    #[error(transparent)]
    Policy(#[from] UndoProblem),
    #[error("{0}")]
    Other(String),
}

impl NoUndo {
    fn why(&self) -> Option<String> {
        match self {
            NoUndo::Policy(UndoProblem::NotDeclared(_)) => None,
            // What an operator could do about it is not for the conversation.
            other => Some(other.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}
