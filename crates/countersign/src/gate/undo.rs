//! Proposes the undo of calls that succeeded.
//!
//! The undo of a call, or of all calls of an approval, is a new approval that is shown, decided and run like any other.
//! Calls without an undo are listed and stay in effect.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Gate, Seeds, Submission, SubmitError};
use crate::approval::SharedApproval;
use crate::call::{Arguments, Call};
use crate::command::NewCall;
use crate::display::clip;
use crate::id::{ApprovalId, CallId, Tenant, ToolName};
use crate::json::{self, TopLevel, Tree};
use crate::policy::{CallRequest, Definition, UndoProblem, Undoable};
use crate::secrecy::{Secrecy, concealed};
use crate::state::CallState;
use crate::summary::{SecretPath, Secrets, generic, is_secret, mark_each, marked};
use crate::undoes::Undoes;

/// Maximum length of a JSON pointer in an error message, in characters.
const PLACE_CHARS: usize = 100;

/// Result of proposing the undo of a whole approval.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Undoing {
    /// The approval that asks for the undo; `None` if nothing can be undone.
    pub approval: Option<SharedApproval>,
    /// Calls that cannot be undone, in the order in which they ran.
    pub left: Vec<NotUndone>,
}

/// A call that cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotUndone {
    /// Position of the call in its approval, from 1.
    pub position: u8,
    /// Reason why the call cannot be undone; `None` if the policy declares no undo for the tool.
    pub why: Option<String>,
}

impl Gate {
    /// Proposes the undo of a call that succeeded, as a new approval. The submission identifies the requester and must
    /// have no calls.
    pub async fn undo(&self, submission: Submission, call: CallId) -> Result<SharedApproval, SubmitError> {
        check_no_calls(&submission)?;
        let no_undo = |reason: String| SubmitError::NoUndo(call, reason);
        let target = self.store.approval(&submission.tenant, call.approval).await?;
        let done = target.as_ref().and_then(|approval| approval.call(call.position));
        let done = done.ok_or_else(|| no_undo("there is no such call".to_owned()))?;
        let seeds = Seeds::new()?;
        let new = self.undo_of(&submission.tenant, done, &seeds).await;
        let new = new.map_err(|problem| no_undo(problem.to_string()))?;
        self.propose_undo(submission, seeds, vec![new], call.into()).await
    }

    /// Proposes the undo of all calls of an approval that succeeded and are not undone yet, last one first, as one
    /// approval.
    pub async fn undo_all(
        &self,
        submission: Submission,
        approval: ApprovalId,
    ) -> Result<Undoing, SubmitError> {
        check_no_calls(&submission)?;
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
        // INVARIANT: the last call comes first, as `Undoes` requires.
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
        submission: Submission,
        seeds: Seeds,
        calls: Vec<NewCall>,
        undoes: Undoes,
    ) -> Result<SharedApproval, SubmitError> {
        if let Some(concealed) = self.concealed(&calls, None, &seeds) {
            let call = CallId {
                approval: undoes.approval,
                position: undoes.by(concealed.call).map_or(1, |call| call.position),
            };
            return Err(SubmitError::NoUndo(call, concealed.with_hint()));
        }
        let propose = self.propose_command(submission, seeds, calls, Some(undoes));
        Ok(self.propose(propose).await?.approval)
    }

    /// Builds the call that undoes `done`.
    async fn undo_of(&self, tenant: &Tenant, done: &Call, seeds: &Seeds) -> Result<NewCall, NoUndo> {
        let result = done.result.as_deref().unwrap_or_default();
        // INVARIANT: a call that was shown as final has no undo, even if the current policy declares one.
        if done.terms.undo == Undoable::No {
            return Err(UndoProblem::NotDeclared(done.tool.to_string()).into());
        }
        let made = self
            .policy
            .undo(done.tool.as_str(), done.arguments.as_bytes(), result);
        let (tool, arguments) = made.map_err(|problem| match problem {
            UndoProblem::NotDeclared(tool) => UndoProblem::OtherPolicy(tool),
            problem => problem,
        })?;
        let other = |problem: String| NoUndo::Other(problem);
        let arguments = Arguments::parse(arguments).map_err(|problem| other(problem.to_string()))?;
        if let Some(problem) = self.policy.too_many_secrets(&tool, arguments.as_bytes()) {
            return Err(other(problem.with_hint()));
        }
        let secrecy = Secrecy::of(done, &self.policy, &seeds.salt);
        let before = self.snapshot(tenant, &tool, &arguments).await;
        // A tool's error message may repeat its arguments, including secrets.
        let hidden = |reason: String| other(secrecy.text(&reason).into_owned());
        let before = before.transpose().map_err(hidden)?;
        let request = CallRequest {
            tool: &tool,
            arguments: arguments.as_bytes(),
            definition: Definition::Unknown,
            salt: &seeds.salt,
            before: before.as_deref().map(|before| &*before.result),
            working_folder: done.working_folder.as_deref(),
        };
        // An undo is always held, even if the policy would pass the tool.
        let mut terms = self.policy.hold(request).map_err(other)?;
        // Values that were secret in the original call stay secret here, under whatever name this tool has for them.
        let own = terms.secret.clone().unwrap_or_default();
        let more = self.secrets_of_undo(done, &arguments, &secrecy, &own, &seeds.salt);
        let more = more.map_err(other)?;
        let secrecy =
            Secrecy::new(more.clone(), &seeds.salt, [arguments.as_bytes()]).with_values_of(&secrecy);
        let summary = |secrets: &[_]| generic(&tool, arguments.as_bytes(), secrets, &seeds.salt);
        terms.hide(more, &secrecy, summary);
        let provenance = self.policy.undo_marks(done, &tool, arguments.as_bytes());
        let new = NewCall {
            tool: ToolName::new(tool).map_err(|problem| other(problem.to_string()))?,
            definition: Definition::Unknown,
            arguments,
            terms: Arc::new(terms),
            sealed: None,
            provenance: provenance.map(Arc::new),
            before,
            working_folder: done.working_folder.clone(),
        };
        // A secret of the original call could hide other parts of the undo.
        let call = new.hold();
        let own = Secrecy::of(&call, &self.policy, &seeds.salt).with_values_of(&secrecy);
        match concealed([(&call, own)]) {
            Some(concealed) => Err(other(concealed.with_hint())),
            None => Ok(new),
        }
    }

    /// Returns the paths of an undo's arguments that are secret because they are made from secrets of the original call
    /// or its result, in addition to the undo's `own` secrets. Fails if an argument mixes a secret with other values:
    /// hiding the argument would hide those values, too.
    ///
    /// An argument whose template uses only secrets is secret, whatever words the policy puts around them. The other
    /// arguments are compared with those of a second undo, made from documents in which each secret is replaced with a
    /// placeholder. An argument that became the placeholder is a copied secret; one that changed in any other way mixes
    /// a secret with other values.
    fn secrets_of_undo(
        &self,
        done: &Call,
        arguments: &Arguments,
        secrecy: &Secrecy,
        own: &[SecretPath],
        salt: &[u8],
    ) -> Result<Vec<SecretPath>, String> {
        let paths = self.policy.secrets_of(done);
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let sources = self.policy.undo_sources(done.tool.as_str());
        let is_of_secrets = |names: &[String]| {
            !names.is_empty() && names.iter().all(|name| is_secret(&paths, &pointer_of(name)))
        };
        let made_of_secrets = sources.iter().filter(|(_, names)| is_of_secrets(names));
        let mut secret: Vec<SecretPath> = made_of_secrets
            .map(|(pointer, _)| SecretPath::at(pointer))
            .collect();
        let is_covered =
            |secret: &[SecretPath], pointer: &str| is_secret(secret, pointer) || is_secret(own, pointer);
        let marked_in = |document: &[u8]| match Tree::read(document, TopLevel::Any) {
            Ok(tree) => mark_each(tree, &Secrets::new(&paths), false, salt)
                .to_json()
                .into_bytes(),
            Err(_) => document.to_vec(),
        };
        let from = marked_in(done.arguments.as_bytes());
        let result = marked_in(done.result.as_deref().unwrap_or_default());
        let leaves = json::leaves(arguments.as_bytes());
        match self.policy.undo(done.tool.as_str(), &from, &result) {
            Ok((_, made)) => {
                let made = json::leaves(&made);
                let made: HashMap<&str, _> = made
                    .iter()
                    .map(|leaf| (leaf.pointer.as_str(), leaf.text()))
                    .collect();
                for leaf in &leaves {
                    let text = leaf.text();
                    match made.get(leaf.pointer.as_str()) {
                        _ if is_covered(&secret, &leaf.pointer) => {}
                        Some(made) if *made == text => {}
                        Some(made) if *made == marked(&text, salt) => {
                            secret.push(SecretPath::at(&leaf.pointer));
                        }
                        _ => return Err(mixed(&leaf.pointer)),
                    }
                }
            }
            // The undo cannot be made from placeholders, so some argument is computed from a secret. Then only
            // arguments whose templates use no secret are known to contain none.
            Err(_) => {
                let mut others = sources
                    .iter()
                    .filter(|(pointer, _)| !is_covered(&secret, pointer));
                let names_secret = |(_, names): &&(String, Vec<String>)| {
                    names.iter().any(|name| may_hold_secret(&paths, name))
                };
                if let Some((pointer, _)) = others.find(names_secret) {
                    return Err(mixed(pointer));
                }
            }
        }
        // A secret that is only part of an argument is also hidden where it is repeated by itself, such as in the
        // tool's result.
        let parts = leaves
            .iter()
            .filter(|leaf| is_covered(&secret, &leaf.pointer))
            .flat_map(|leaf| {
                let text = leaf.text();
                let parts = secrecy.parts(&text).into_iter();
                let parts = parts.filter(|part| part.len() < text.len());
                let paths = parts.filter_map(|part| SecretPath::within(&leaf.pointer, &part));
                paths.collect::<Vec<_>>()
            });
        let parts: Vec<SecretPath> = parts.collect();
        secret.extend(parts);
        Ok(secret)
    }
}

/// Returns the JSON pointer, within its document, for a name such as `args.user.id`.
fn pointer_of(name: &str) -> String {
    let parts = name.split('.').skip(1);
    parts.map(|part| format!("/{part}")).collect()
}

/// Returns true if the value of a name such as `args.user` is secret, or contains a secret value.
fn may_hold_secret(paths: &[SecretPath], name: &str) -> bool {
    let mut secrets = Secrets::new(paths);
    for part in name.split('.').skip(1) {
        if secrets.is_here() {
            return true;
        }
        secrets = secrets.below(part);
    }
    secrets.is_here_or_below()
}

/// Returns the error message for an argument of an undo that mixes a secret with other values.
fn mixed(pointer: &str) -> String {
    format!(
        "`{}` of the undo holds a secret of the call beside other values, and would hide those too\n\
         hint: name that argument in the `secret` list of the undo's tool, or give the secret an argument of its own",
        clip(pointer, PLACE_CHARS)
    )
}

fn check_no_calls(submission: &Submission) -> Result<(), SubmitError> {
    match submission.calls.len() {
        0 => Ok(()),
        count => Err(SubmitError::UndoWithCalls(count)),
    }
}

/// Reason for not undoing a call.
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
            // Leaves out the hint in the following lines, which is for operators.
            other => Some(other.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}
