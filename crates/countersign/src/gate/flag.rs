//! The `confirmed` flag: support for agents whose tools ask for confirmation themselves.
//!
//! Such an agent calls a tool, is answered `requiresConfirmation`, asks the person, and calls again with `confirmed:
//! true`. The flag itself is never trusted: only a call that a person approved, with the same arguments and in the same
//! channel, runs, and it runs with the bytes that were shown.

use super::{Gate, Ruled, Submission, SubmitError, Submitted, SubmittedCall};
use crate::approval::{Approval, SharedApproval};
use crate::executor::Permit;
use crate::id::CallId;
use crate::json::{FLAGS, Node, TopLevel, Tree};
use crate::state::{CallState, State};
use crate::store::Filter;

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
}

impl Submitted {
    /// Returns the tool result for the time in which a person is asked: `requiresConfirmation` with a message. `None`
    /// if no call is held.
    pub fn requires_confirmation(&self) -> Option<String> {
        let approval = self.approval.as_ref()?;
        self.calls
            .iter()
            .any(|ruled| matches!(ruled, Ruled::Held(_)))
            .then(|| {
                let summaries = approval.calls.iter().map(|call| call.terms.summary.as_str());
                let details: Vec<&str> = summaries.collect();
                serde_json::json!({
                    "requiresConfirmation": true,
                    "message": format!("Are you sure? {}", details.join("; ")),
                    "details": details,
                })
                .to_string()
            })
    }
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

fn is_flagged(arguments: &[u8]) -> bool {
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
