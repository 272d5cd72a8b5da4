//! The `confirmed` flag: support for agents whose tools ask for confirmation themselves.
//!
//! Such an agent calls a tool, gets the result `requiresConfirmation`, asks the person, and calls the tool again with
//! `confirmed: true`. The flag itself is never trusted: only a call that a person approved, with the same arguments and
//! in the same channel, runs, and it runs with the bytes that were shown.
//!
//! There are two ways to use it. A host that runs the tool itself calls [`Gate::submit_flagged`] and gets the permit. A
//! host whose calls run as soon as they are approved calls [`Gate::find_flagged`] and answers with the result, once.

use std::time::Duration;

use super::{Gate, Ruled, Submission, SubmitError, Submitted, SubmittedCall};
use crate::approval::{Approval, SharedApproval};
use crate::call::Call;
use crate::executor::Permit;
use crate::id::{CallId, Key, Tenant};
use crate::json::{FLAGS, Node, TopLevel, Tree};
use crate::registry::{Entry, Kind, Put};
use crate::state::{CallState, State};
use crate::store::{Filter, StoreError};

/// Maximum time between a person's decision and a call with the flag that refers to it.
const REFERS_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for which the store keeps the record that a result was given; must be longer than `REFERS_WITHIN`.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Instructions for a model on how to handle held calls, for agents with their own loop.
pub const GUIDE: &str = include_str!("guide.txt");

/// Result of submitting a call that may carry the flag.
#[derive(Debug)]
#[non_exhaustive]
pub enum Flagged {
    /// A person approved exactly this call. The permit lets it run once.
    Confirmed(Permit),
    /// The call was ruled on like any other.
    Submitted(Submitted),
}

impl Gate {
    /// Submits one call whose arguments may contain `confirmed: true`.
    pub async fn submit_flagged(&self, submission: Submission) -> Result<Flagged, SubmitError> {
        let ([call], Some(channel)) = (submission.calls.as_slice(), &submission.channel) else {
            return Ok(Flagged::Submitted(self.submit(submission).await?));
        };
        if is_flagged(&call.arguments) {
            let filter = Filter {
                state: Some(State::Approved),
                agent: Some(submission.agent.clone()),
                channel: Some(channel.clone()),
                ..Filter::default()
            };
            let approved = self.store.list(&submission.tenant, &filter).await?;
            let waiting = approved.iter().find_map(|approval| {
                let position = released(approval, call)?;
                Some(CallId {
                    approval: approval.id,
                    position,
                })
            });
            if let Some(id) = waiting
                && let Ok(permit) = self.start(&submission.tenant, id).await?
            {
                return Ok(Flagged::Confirmed(permit));
            }
        }
        Ok(Flagged::Submitted(self.submit(submission).await?))
    }

    /// Finds the approval that a call with `confirmed: true` refers to: pending, or approved within the last day, of
    /// the same agent and person, in the same channel, for the same tool and arguments. Returns `None` if there is
    /// none, if its result was already given to another request, or if the submission is not one call with the flag in
    /// a channel; then the call is to be submitted like any other.
    pub async fn find_flagged(
        &self,
        submission: &Submission,
    ) -> Result<Option<(SharedApproval, CallId)>, StoreError> {
        let ([wanted], Some(channel)) = (submission.calls.as_slice(), &submission.channel) else {
            return Ok(None);
        };
        if !is_flagged(&wanted.arguments) {
            return Ok(None);
        }
        let tenant = &submission.tenant;
        if let Some(pending) = self.store.pending_in(tenant, channel).await?
            && let Some(call) = referred(&pending, submission, wanted)
        {
            return Ok(Some((pending, call)));
        }
        let filter = Filter {
            state: Some(State::Approved),
            agent: Some(submission.agent.clone()),
            channel: Some(channel.clone()),
            ..Filter::default()
        };
        let now = self.store.now().await?;
        for approval in self.store.list(tenant, &filter).await? {
            let decided_at = approval.decision.as_ref().map(|decision| decision.at);
            let is_fresh = decided_at.is_some_and(|at| now.since(at) < REFERS_WITHIN);
            let Some(call) = referred(&approval, submission, wanted).filter(|_| is_fresh) else {
                continue;
            };
            let told = self.store.entry(Kind::Setting, &told_key(call)).await?;
            if told.is_none_or(|told| is_told_to(&told, submission.key.as_ref())) {
                return Ok(Some((approval, call)));
            }
        }
        Ok(None)
    }

    /// Records that the result of a call is given to a request with the flag. Returns true for the first request, and
    /// for a repetition of it under the same idempotency key. If it returns false, the result must not be given.
    pub async fn tell_once(
        &self,
        tenant: &Tenant,
        call: CallId,
        key: Option<&Key>,
    ) -> Result<bool, StoreError> {
        let entry = Entry {
            kind: Kind::Setting,
            key: told_key(call),
            tenant: tenant.clone(),
            body: key.map(Key::as_str).unwrap_or_default().as_bytes().into(),
            version: 0,
            expires_at: Some(self.store.now().await?.plus(REMEMBERED)),
        };
        if let Put::Written(_) = self.store.put_entry(entry).await? {
            return Ok(true);
        }
        let told = self.store.entry(Kind::Setting, &told_key(call)).await?;
        Ok(told.is_some_and(|told| is_told_to(&told, key)))
    }
}

fn told_key(call: CallId) -> String {
    format!("flag/told/{call}")
}

/// Returns true if a result was given to a request with this idempotency key.
fn is_told_to(told: &Entry, key: Option<&Key>) -> bool {
    key.is_some_and(|key| *told.body == *key.as_str().as_bytes())
}

/// Returns the call of an approval that a submission with the flag refers to; `None` if there is none.
fn referred(approval: &Approval, submission: &Submission, wanted: &SubmittedCall) -> Option<CallId> {
    // A repetition of the request that made the approval is no confirmation.
    let is_own_request =
        submission.key.is_some() && approval.key.as_ref().map(|(key, _)| key) == submission.key.as_ref();
    let is_same_origin = approval.agent == submission.agent
        && approval.channel == submission.channel
        && approval.on_behalf_of == submission.on_behalf_of;
    if is_own_request || !is_same_origin || approval.erased_at.is_some() {
        return None;
    }
    let mut calls = approval.numbered();
    // A call that was left out, or can no longer run, is proposed again.
    let is_open_or_ran = |call: &Call| call.state != CallState::Refused;
    let (position, _) = calls.find(|(_, call)| is_open_or_ran(call) && is_same_call(call, wanted))?;
    Some(CallId {
        approval: approval.id,
        position,
    })
}

/// Returns true if a call, as it was proposed, is the wanted one apart from the flag.
fn is_same_call(call: &Call, wanted: &SubmittedCall) -> bool {
    // Compare with what the agent asked for, also if a person edited it.
    let proposed = call.original.as_ref().unwrap_or(&call.arguments);
    call.tool.as_str() == wanted.tool
        && call.definition == wanted.definition
        && call.working_folder == wanted.working_folder
        && is_same_but_for_the_flag(proposed.as_bytes(), &wanted.arguments)
}

impl Submitted {
    /// Returns the tool result for the agent while a person is asked: `requiresConfirmation` with a message. `None` if
    /// no call is held.
    pub fn requires_confirmation(&self) -> Option<String> {
        let approval = self.approval.as_ref()?;
        self.calls
            .iter()
            .any(|ruled| matches!(ruled, Ruled::Held(_)))
            .then(|| {
                let calls: Vec<&Call> = approval.calls.iter().collect();
                let (message, details) = confirmation(&calls);
                serde_json::json!({
                    "requiresConfirmation": true,
                    "message": message,
                    "details": details,
                })
                .to_string()
            })
    }
}

/// Returns the `message` and the `details` of the answer to calls that wait for a person.
pub fn confirmation(calls: &[&Call]) -> (String, Vec<String>) {
    let summaries = calls.iter().map(|call| call.terms.summary.clone());
    let details: Vec<String> = summaries.collect();
    (format!("Are you sure? {}", details.join("; ")), details)
}

/// Returns true if a JSON schema of arguments declares the flag, as that of a tool that asks for confirmation itself
/// does.
pub fn declares_flag(schema: &[u8]) -> bool {
    let Ok(tree) = Tree::read(schema, TopLevel::Object) else {
        return false;
    };
    let Node::Object(fields) = &tree.node else {
        return false;
    };
    let properties = fields.iter().find(|(name, _)| name == "properties");
    let Some(Node::Object(properties)) = properties.map(|(_, value)| &value.node) else {
        return false;
    };
    properties.iter().any(|(name, _)| FLAGS.contains(&&**name))
}

/// Returns the position of a released call with the same tool, arguments and working folder; `None` if there is none.
fn released(approval: &SharedApproval, wanted: &SubmittedCall) -> Option<u8> {
    let approval: &Approval = approval;
    let mut calls = approval.numbered();
    calls.find_map(|(position, call)| {
        let is_same = call.state == CallState::Released
            && call.tool.as_str() == wanted.tool
            && call.working_folder == wanted.working_folder
            && is_same_but_for_the_flag(call.arguments.as_bytes(), &wanted.arguments);
        is_same.then_some(position)
    })
}

/// Returns true if the arguments contain the flag, set to true.
pub fn is_flagged(arguments: &[u8]) -> bool {
    let Ok(tree) = Tree::read(arguments, TopLevel::Object) else {
        return false;
    };
    let Node::Object(fields) = &tree.node else {
        return false;
    };
    let mut flags = fields.iter().filter(|(name, _)| FLAGS.contains(&&**name));
    flags.any(|(_, value)| value.node == Node::Bool(true))
}

/// Returns true if the arguments of two calls are equal apart from the flag. They are compared as written: a number in
/// another notation is a different argument.
pub fn is_same_but_for_the_flag(left: &[u8], right: &[u8]) -> bool {
    let fields = |bytes| -> Option<Vec<(String, String)>> {
        let Node::Object(fields) = Tree::read(bytes, TopLevel::Object).ok()?.node else {
            return None;
        };
        let is_flag =
            |name: &str, value: &Tree<'_>| FLAGS.contains(&name) && matches!(value.node, Node::Bool(_));
        let others = fields.into_iter().filter(|(name, value)| !is_flag(name, value));
        let mut others: Vec<_> = others
            .map(|(name, value)| (name.into_owned(), value.raw.into_owned()))
            .collect();
        others.sort_unstable();
        Some(others)
    };
    matches!((fields(left), fields(right)), (Some(left), Some(right)) if left == right)
}
