//! Rules on the calls of a submission.
//!
//! Each call gets a ruling, based on the policy and the call's snapshot. The calls to hold or to record are collected,
//! but nothing is stored here.

use std::sync::Arc;

use super::passed::Passing;
use super::snapshots::Snapshots;
use super::{Gate, Ruled, Seeds, Submission, SubmitError, SubmittedCall};
use crate::call::Arguments;
use crate::command::NewCall;
use crate::effect::Effect;
use crate::executor::Permit;
use crate::id::{CallId, ToolName};
use crate::policy::{CallRequest, Ruling};
use crate::snapshot::Snapshot;
use crate::stopwatch::Stopwatch;

/// Rulings on the calls of one submission, before any of them is recorded.
#[derive(Default)]
pub(super) struct Rulings {
    /// Rulings, one per call, in order; `None` for the calls in `passing`.
    pub(super) calls: Vec<Option<Ruled>>,
    pub(super) held: Vec<NewCall>,
    /// Passed calls with an effect other than `read`, which have to be recorded before they run.
    pub(super) passing: Vec<Passing>,
}

impl Gate {
    pub(super) fn rule_all(
        &self,
        submission: &Submission,
        snapshots: &Snapshots,
        seeds: &Seeds,
    ) -> Result<Rulings, SubmitError> {
        let mut rulings = Rulings::default();
        for (index, call) in submission.calls.iter().enumerate() {
            let before = snapshot_at(snapshots, index);
            let ruled = self.rule(submission, (index, call), before, seeds, &mut rulings)?;
            rulings.calls.push(ruled);
        }
        Ok(rulings)
    }

    fn rule(
        &self,
        submission: &Submission,
        (index, call): (usize, &SubmittedCall),
        before: Result<Option<Arc<Snapshot>>, String>,
        seeds: &Seeds,
        rulings: &mut Rulings,
    ) -> Result<Option<Ruled>, SubmitError> {
        let tenant = &submission.tenant;
        let forbidden = |reason: String| Ok(Some(Ruled::Forbidden { reason }));
        let malformed = |reason: String| Ok(Some(Ruled::Malformed { reason }));
        let tool = match ToolName::new(call.tool.as_str()) {
            Ok(tool) => tool,
            Err(problem) => return malformed(problem.to_string()),
        };
        let arguments = match Arguments::parse(call.arguments.clone()) {
            Ok(arguments) => arguments,
            Err(problem) => return malformed(format!("the arguments are not acceptable: {problem}")),
        };
        if let Some(problem) = self.policy.too_many_secrets(tool.as_str(), arguments.as_bytes()) {
            return forbidden(problem.with_hint());
        }
        let request = CallRequest {
            tool: tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: call.definition,
            salt: &seeds.salt,
            before: before
                .as_ref()
                .ok()
                .and_then(|before| Some(&*before.as_ref()?.result)),
            working_folder: call.working_folder.as_deref(),
        };
        let provenance = self.trace_unless_passed(submission, request);
        let terms = match self.policy.rule_traced(request, provenance.as_ref()) {
            Ruling::Hold(terms) => terms,
            Ruling::Forbid { reason } => return forbidden(reason),
            // Reads may repeat and are not recorded.
            Ruling::Pass(pass) if pass.effect == Effect::Read => {
                return Ok(Some(Ruled::Pass(Permit {
                    tenant: tenant.clone(),
                    tool,
                    arguments,
                    secret: call.secret.clone(),
                    timeout: pass.timeout,
                    call: None,
                    token: None,
                    since: Stopwatch::start(),
                    start_and_deadline: None,
                })));
            }
            Ruling::Pass(_) => {
                let seeds = Seeds::new()?;
                let request = CallRequest {
                    salt: &seeds.salt,
                    before: None,
                    ..request
                };
                let terms = match self.policy.hold_traced(request, provenance.as_ref(), None) {
                    Ok(terms) => terms,
                    Err(reason) => return forbidden(reason),
                };
                rulings.passing.push(Passing {
                    index,
                    seeds,
                    secret: call.secret.clone(),
                    call: NewCall {
                        tool,
                        definition: call.definition,
                        arguments,
                        terms: Arc::new(terms),
                        // The call starts in the transaction that records it, so its credential is never stored.
                        sealed: None,
                        provenance: provenance.map(Arc::new),
                        before: None,
                        working_folder: call.working_folder.clone(),
                    },
                });
                return Ok(None);
            }
        };
        // A person is not asked about a change that cannot be shown to them.
        let before = match before {
            Ok(before) => before,
            Err(reason) => {
                let secrecy = self
                    .policy
                    .secrecy_of_passed(tool.as_str(), arguments.as_bytes(), b"");
                return forbidden(secrecy.text(&reason).into_owned());
            }
        };
        let held = &mut rulings.held;
        let position = u8::try_from(held.len() + 1).unwrap_or(u8::MAX);
        let id = CallId {
            approval: seeds.id,
            position,
        };
        let sealed = call
            .secret
            .as_ref()
            .map(|secret| self.seal(secret, tenant, id))
            .transpose()?;
        let definition = call.definition;
        held.push(NewCall {
            tool,
            definition,
            arguments,
            terms: Arc::new(terms),
            sealed,
            provenance: provenance.map(Arc::new),
            before,
            working_folder: call.working_folder.clone(),
        });
        // INVARIANT: no card is shown on which a secret hides a value that the policy does not call secret.
        if let Some(concealed) = self.concealed(held, Some(position), seeds) {
            held.pop();
            return forbidden(concealed.with_hint());
        }
        Ok(Some(Ruled::Held(id)))
    }
}

/// Returns the snapshot for the call at an index, or the reason why a required snapshot is missing. `None` if the call
/// needs no snapshot.
pub(super) fn snapshot_at(snapshots: &Snapshots, at: usize) -> Result<Option<Arc<Snapshot>>, String> {
    snapshots.get(at).cloned().flatten().transpose()
}
