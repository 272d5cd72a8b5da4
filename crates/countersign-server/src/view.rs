//! Approvals as JSON: one shape for the API, the command line, and a command line that talks to a server.
//!
//! Input: an approval with the policy that declares its secrets (`make`), or JSON from another process. Output:
//! camelCase JSON in which the arguments are kept byte for byte, or omitted if they contain secrets. The command line
//! draws cards and lists only from this JSON, so they are the same for local and remote approvals. Wording and layout
//! for people are in `output` and `inbox`.

pub mod before;
mod end;
mod feed_event;
mod make;
mod moment;
pub mod origin;
mod outcome;
mod simple;
mod value;
pub mod words;
mod working_folder;

pub use end::CallEnd;
pub use feed_event::FeedEventView;
pub use make::{approval, description, passed_because, result, state, state_and_end};
pub use moment::Moment;
pub use outcome::Outcome;
pub use simple::{EitherPageView, EitherView, SimplePageView, View, simple, simple_status};
pub use value::{RowWithFullText, ValueView};
pub use working_folder::WorkingFolderView;

use countersign::approval::Order;
use countersign::decision::Assurance;
use countersign::effect::{Effect, Risk};
use countersign::hash::Hash;
use countersign::id::{ApprovalId, CallId};
use countersign::state::{CallState, State};
use countersign::undoes::Undoes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub use self::before::{BeforeView, ChangeView};
use self::origin::ProvenanceView;

/// An approval. The first fields are those of the contract (D3), the others are additions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    #[schema(value_type = String)]
    pub id: ApprovalId,
    pub run_id: Option<String>,
    pub agent_name: String,
    /// Tool of all calls. Null if they have different tools.
    pub tool_name: Option<String>,
    /// Exact arguments of a single call. Absent for a batch, or if any of the arguments are secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub tool_arguments: Option<Box<RawValue>>,
    /// True if some arguments are secret; the complete arguments are then omitted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    #[schema(value_type = words::RiskLevel)]
    pub risk_level: Risk,
    pub description: String,
    #[schema(value_type = words::ApprovalStatus)]
    pub status: State,
    pub comment: Option<String>,
    #[schema(value_type = String)]
    pub created_at: Moment,
    #[schema(value_type = String)]
    pub expires_at: Moment,
    #[schema(value_type = Option<String>)]
    pub decided_at: Option<Moment>,
    pub requested_by: String,
    pub decided_by: Option<String>,
    /// Name that the decision's request claimed in `decidedBy`, if any. Not checked: the credential determines who
    /// decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    pub on_behalf_of: Option<String>,
    pub channel: Option<String>,
    pub session: Option<String>,
    pub claim: Option<String>,
    #[schema(value_type = String)]
    pub digest: Hash,
    pub version: u32,
    #[schema(value_type = Option<String>)]
    pub ended_at: Option<Moment>,
    /// Explanation of why the policy let the call pass, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_because: Option<String>,
    pub decided_on: Option<String>,
    #[schema(value_type = Option<String>)]
    pub replaces: Option<ApprovalId>,
    #[schema(value_type = Option<String>)]
    pub superseded_by: Option<ApprovalId>,
    /// Calls that this approval would undo: `ID.POSITION`, or `ID.4+2+1` for several. Null if it is not an undo.
    #[schema(value_type = Option<String>)]
    pub undoes: Option<Undoes>,
    /// Time at which the content was erased, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub erased_at: Option<Moment>,
    /// True if a person approved some of the calls and denied others; `state` and `because` of each call tell which.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partly_denied: bool,
    /// Order in which the approved calls may be started. In any order, several may run at the same time, and one that
    /// fails does not stop the others.
    #[serde(default)]
    #[schema(value_type = words::OrderWord, required = true)]
    pub order: Order,
    /// Number of different people who have to approve.
    pub quorum: u8,
    /// Approvals given so far.
    pub approvals: Vec<VoteView>,
    /// True if the approval was held under a policy other than the current one, which may hide other values.
    #[serde(default, skip_serializing_if = "is_false")]
    pub other_policy: bool,
    pub calls: Vec<CallView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<EventView>>,
    /// Time of the store's clock when the approval was read. Compute the remaining time from this clock only.
    // The last field, so that a cached response can be sent with another time; see `web::response_cache`.
    #[schema(value_type = String)]
    pub now: Moment,
}

/// Approval given by one person, where several have to approve.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteView {
    pub by: String,
    #[schema(value_type = String)]
    pub at: Moment,
    pub on: String,
    pub comment: Option<String>,
    /// Positions of the calls that the person approved, if not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<u8>>,
}

/// A call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallView {
    #[schema(value_type = String)]
    pub id: CallId,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
    /// Exact arguments as text, byte for byte. Absent if any of them are secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_text: Option<String>,
    /// Exact arguments in hexadecimal, if whitespace around them is part of what would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_hex: Option<String>,
    /// Values of arguments that contain secrets, with a mark in place of each secret. Absent if no argument is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<ValueView>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    #[schema(value_type = words::EffectWord)]
    pub effect: Effect,
    #[schema(value_type = words::RiskLevel)]
    pub risk: Risk,
    pub summary: String,
    #[schema(value_type = words::CallStateWord)]
    pub state: CallState,
    /// How the call ended, or why it will not run. Null while it is held, released or running.
    #[serde(default)]
    #[schema(value_type = Option<words::CallEndWord>, required = true)]
    pub end: Option<CallEnd>,
    /// Why the call will not run, in words for people.
    pub because: Option<String>,
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
    /// Concerns, from comparing the call with earlier ones of the same agent. Only if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<String>,
    /// Origin of each proposed value. Null, which means unknown, if no conversation was given.
    pub provenance: Option<ProvenanceView>,
    pub approvers: Vec<String>,
    /// True if the requester may not approve the call.
    pub four_eyes: bool,
    /// Weakest surface from which the call can be approved.
    #[schema(value_type = words::SurfaceWord)]
    pub surface: Assurance,
    pub undoable: bool,
    pub edited: bool,
    /// Changes that the approver made to the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<ChangeView>,
    /// Current state of what the call would change, if the policy says how to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BeforeView>,
    /// Folder in which the host runs the call, if the host named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_folder: Option<WorkingFolderView>,
    #[schema(value_type = String)]
    pub digest: Hash,
    #[schema(value_type = Option<String>)]
    pub started_at: Option<Moment>,
    #[schema(value_type = Option<String>)]
    pub ended_at: Option<Moment>,
    /// Result: JSON unchanged, any other text as a string.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    #[schema(value_type = Option<String>)]
    pub undone_by: Option<CallId>,
}

/// An event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    pub number: u32,
    #[schema(value_type = String)]
    pub at: Moment,
    pub by: String,
    #[schema(value_type = Option<Object>)]
    pub event: Option<Box<RawValue>>,
    pub link: String,
}

/// A page of approvals.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PageView {
    /// Approvals of the page.
    pub approvals: Vec<ApprovalView>,
    /// Cursor for the next page, as `cursor` or `--after`. Null on the last page.
    #[schema(value_type = Option<String>)]
    pub next: Option<ApprovalId>,
}

impl ApprovalView {
    /// Returns the call at `position`, counted from 1; `None` if there is no such call.
    pub fn call(&self, position: u8) -> Option<&CallView> {
        self.calls.get(usize::from(position).checked_sub(1)?)
    }

    /// Iterates over the calls with their positions, counted from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (u8, &CallView)> {
        (1u8..).zip(&self.calls)
    }

    /// Returns the position of the next call to start; `None` if no call is released, or a running one has to end first.
    pub fn next_released(&self) -> Option<u8> {
        let is_running = |call: &CallView| call.state == CallState::Running;
        if self.order == Order::Given && self.calls.iter().any(is_running) {
            return None;
        }
        let mut calls = self.numbered();
        let released = calls.find(|(_, call)| call.state == CallState::Released);
        released.map(|(position, _)| position)
    }

    /// Returns true if the calls can be run only by the gateway or coding agent that proposed them.
    pub fn is_hosted(&self) -> bool {
        let run = self.run_id.as_deref().unwrap_or_default();
        run.starts_with("mcp:") || self.calls.iter().any(|call| call.working_folder.is_some())
    }

    /// Returns how many more people have to approve; 0 if the approval is no longer pending.
    pub fn missing(&self) -> usize {
        match self.status {
            State::Pending => usize::from(self.quorum)
                .saturating_sub(self.approvals.len())
                .max(1),
            _ => 0,
        }
    }

    /// Returns true if the approval is no longer pending and all of its calls are over.
    pub fn is_finished(&self) -> bool {
        self.status != State::Pending && self.calls.iter().all(|call| call.state.is_over())
    }
}

impl CallView {
    /// Returns the exact arguments; `None` if the JSON omits them.
    pub fn argument_bytes(&self) -> Option<Vec<u8>> {
        match &self.arguments_hex {
            Some(hex) => unhex(hex),
            None => Some(self.arguments.as_ref()?.get().as_bytes().to_vec()),
        }
    }
}

/// Encodes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let pairs = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    pairs.collect()
}

/// Decodes hexadecimal. `None` if the text is not valid.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |digit: &u8| {
        char::from(*digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(value(high)? << 4 | value(low)?),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i3_hexadecimal_reads_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for bad in ["0", "0g", "é"] {
            assert_eq!(unhex(bad), None, "`{bad}`");
        }
    }
}
