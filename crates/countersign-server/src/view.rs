//! An approval as JSON: one shape for the command line and for every other surface that speaks JSON.
//!
//! Enters: an approval, the policy that says what is secret, and the store's clock. Leaves: camelCase JSON in which
//! the arguments stand byte for byte as they came, or not at all when they hold secrets.
//! Deliberately absent: wording and layout for people.

use countersign::approval::Approval;
use countersign::call::{Arguments, Call};
use countersign::display::clip;
use countersign::event::Event;
use countersign::id::CallId;
use countersign::policy::{Policy, Undoable};
use countersign::state::State;
use countersign::time::Time;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub mod origin;

use origin::ProvenanceView;

/// One approval. The first fields are those of the contract (D3); the rest says more.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    id: String,
    run_id: Option<String>,
    agent_name: String,
    /// The tool of all calls; nothing when they differ.
    tool_name: Option<String>,
    /// Of a single call, exactly as it came; absent for a batch, and where something in it is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    tool_arguments: Option<Box<RawValue>>,
    /// Some of the arguments are secret, so none are given.
    #[serde(skip_serializing_if = "is_false")]
    hidden: bool,
    risk_level: &'static str,
    description: String,
    status: &'static str,
    comment: Option<String>,
    created_at: String,
    expires_at: String,
    decided_at: Option<String>,
    requested_by: String,
    decided_by: Option<String>,
    on_behalf_of: Option<String>,
    channel: Option<String>,
    session: Option<String>,
    claim: Option<String>,
    digest: String,
    version: u32,
    ended_at: Option<String>,
    decided_on: Option<String>,
    replaces: Option<String>,
    superseded_by: Option<String>,
    undoes: Option<String>,
    /// When its content was erased, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_at: Option<String>,
    /// So many different people have to approve it.
    quorum: u8,
    /// Who has approved it so far.
    approvals: Vec<VoteView>,
    calls: Vec<CallView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventView>>,
}

/// One person's approval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct VoteView {
    by: String,
    at: String,
    on: String,
    comment: Option<String>,
}

/// One call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CallView {
    id: String,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "is_false")]
    hidden: bool,
    effect: &'static str,
    risk: &'static str,
    summary: String,
    state: &'static str,
    because: Option<&'static str>,
    notes: Vec<String>,
    warnings: Vec<String>,
    /// Where each proposed value came from; nothing when no conversation was given: then it is unknown.
    provenance: Option<ProvenanceView>,
    approvers: Vec<String>,
    /// Whoever asked for it cannot approve it.
    four_eyes: bool,
    /// The least surface to approve it from.
    surface: &'static str,
    undoable: bool,
    edited: bool,
    digest: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    /// JSON as it came; any other text as a string.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    undone_by: Option<String>,
}

/// One event.
#[derive(Debug, Serialize, ToSchema)]
struct EventView {
    number: u32,
    at: String,
    by: String,
    #[schema(value_type = Option<Object>)]
    event: Option<Box<RawValue>>,
    link: String,
}

/// The approval as JSON shows it at `now`.
pub fn approval(approval: &Approval, policy: &Policy, now: Time) -> ApprovalView {
    let calls: Vec<CallView> = approval
        .numbered()
        .map(|(position, call)| call_view(approval, position, call, policy))
        .collect();
    let only = match calls.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    let decision = approval.decision.as_ref();
    let text = |id: Option<CallId>| id.map(|id| id.to_string());
    ApprovalView {
        id: approval.id.to_string(),
        run_id: approval.run.as_ref().map(ToString::to_string),
        agent_name: approval.agent.to_string(),
        tool_name: shared_tool(approval),
        tool_arguments: only.and_then(|call| call.arguments.clone()),
        hidden: calls.iter().any(|call| call.hidden),
        risk_level: approval
            .calls
            .iter()
            .map(|call| call.terms.risk)
            .max()
            .map_or("low", |risk| risk.as_str()),
        description: description(approval),
        status: state(approval, now).as_str(),
        comment: decision.and_then(|decision| decision.comment.clone()),
        created_at: approval.created_at.to_string(),
        expires_at: approval.expires_at.to_string(),
        decided_at: decision.map(|decision| decision.at.to_string()),
        requested_by: approval.requester.to_string(),
        decided_by: decision.map(|decision| decision.by.to_string()),
        on_behalf_of: approval.on_behalf_of.as_ref().map(ToString::to_string),
        channel: approval.channel.as_ref().map(ToString::to_string),
        session: approval.session.as_ref().map(ToString::to_string),
        claim: approval.claim.clone(),
        digest: approval.digest.to_string(),
        version: approval.version,
        ended_at: approval.ended_at.map(|at| at.to_string()),
        decided_on: decision.map(|decision| decision.surface.clone()),
        replaces: approval.replaces.map(|id| id.to_string()),
        superseded_by: approval.superseded_by.map(|id| id.to_string()),
        undoes: text(approval.undoes),
        erased_at: approval.erased_at.map(|at| at.to_string()),
        quorum: approval.quorum(),
        approvals: votes(approval),
        calls,
        events: None,
    }
}

impl ApprovalView {
    /// Adds the history.
    pub fn with_events(self, events: &[Event]) -> ApprovalView {
        let view = |event: &Event| EventView {
            number: event.number,
            at: event.at.to_string(),
            by: event.by.to_string(),
            event: RawValue::from_string(event.text().to_owned()).ok(),
            link: event.link.to_string(),
        };
        ApprovalView {
            events: Some(events.iter().map(view).collect()),
            ..self
        }
    }
}

/// The state that is true at `now`: an approval has expired before anybody wrote that down.
pub fn state(approval: &Approval, now: Time) -> State {
    match approval.state {
        State::Pending if now >= approval.expires_at => State::Expired,
        state => state,
    }
}

/// One sentence for the whole approval; safe to show.
pub fn description(approval: &Approval) -> String {
    const NAMED: usize = 3;
    match approval.calls.as_slice() {
        [only] => only.terms.summary.clone(),
        calls => {
            let named: Vec<&str> = calls
                .iter()
                .take(NAMED)
                .map(|call| call.terms.summary.as_str())
                .collect();
            let rest = calls.len().saturating_sub(NAMED);
            let more = if rest > 0 {
                format!("; and {rest} more")
            } else {
                String::new()
            };
            format!("{} calls: {}{more}", calls.len(), named.join("; "))
        }
    }
}

fn votes(approval: &Approval) -> Vec<VoteView> {
    let endorsed = approval.endorsements.iter().map(|endorsed| VoteView {
        by: endorsed.by.to_string(),
        at: endorsed.at.to_string(),
        on: endorsed.surface.clone(),
        comment: endorsed.comment.clone(),
    });
    let decided = approval.decision.iter().filter(|decided| decided.approved);
    let decided = decided.map(|decided| VoteView {
        by: decided.by.to_string(),
        at: decided.at.to_string(),
        on: decided.surface.clone(),
        comment: decided.comment.clone(),
    });
    endorsed.chain(decided).collect()
}

fn shared_tool(approval: &Approval) -> Option<String> {
    let first = &approval.calls.first()?.tool;
    let is_shared = approval.calls.iter().all(|call| call.tool == *first);
    is_shared.then(|| first.to_string())
}

fn call_view(approval: &Approval, position: u8, call: &Call, policy: &Policy) -> CallView {
    let rows = policy.table(call.tool.as_str(), call.arguments.as_bytes(), &approval.salt);
    let hidden = rows.iter().any(|row| row.hidden);
    let warnings = rows.iter().flat_map(|row| {
        let told = |warning| format!("{} {warning}", row.pointer);
        row.warnings.iter().map(told)
    });
    let id = CallId {
        approval: approval.id,
        position,
    };
    CallView {
        id: id.to_string(),
        tool: call.tool.to_string(),
        arguments: if hidden { None } else { raw(&call.arguments) },
        hidden,
        effect: call.terms.effect.as_str(),
        risk: call.terms.risk.as_str(),
        summary: call.terms.summary.clone(),
        state: call.state.as_str(),
        because: call.because.as_ref().map(|because| because.as_str()),
        notes: call.terms.notes.clone(),
        warnings: warnings.collect(),
        provenance: call.provenance.as_deref().map(origin::view),
        approvers: call.terms.approvers.clone(),
        four_eyes: call.terms.authority.four_eyes,
        surface: call.terms.authority.surface.as_str(),
        undoable: call.terms.undo == Undoable::Yes,
        edited: call.original.is_some(),
        digest: call.digest.to_string(),
        started_at: call.execution.as_ref().map(|run| run.started_at.to_string()),
        ended_at: call
            .execution
            .as_ref()
            .and_then(|run| run.ended_at)
            .map(|at| at.to_string()),
        result: call.result.as_deref().and_then(result),
        undone_by: call.undone_by.map(|id| id.to_string()),
    }
}

/// INVARIANT: not one byte of the arguments is changed.
fn raw(arguments: &Arguments) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(arguments.as_bytes()).ok()?;
    // The value without the white space around it: that is how JSON stands inside JSON.
    RawValue::from_string(text.trim_matches([' ', '\n', '\r', '\t']).to_owned()).ok()
}

/// What a tool answered: JSON as it came, any other text as a string.
pub fn result(bytes: &[u8]) -> Option<Box<RawValue>> {
    const LONGEST_TEXT: usize = 1024 * 1024;
    let text = String::from_utf8_lossy(bytes);
    let json = RawValue::from_string(text.trim_matches([' ', '\n', '\r', '\t']).to_owned());
    json.or_else(|_| {
        let text = clip(&text, LONGEST_TEXT).to_string();
        serde_json::value::to_raw_value(&text)
    })
    .ok()
}

fn is_false(value: &bool) -> bool {
    !value
}
