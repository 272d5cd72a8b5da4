//! Conversion of an approval to JSON.
//!
//! INVARIANT: arguments are byte for byte unchanged, or omitted if they contain a secret.

use countersign::approval::Approval;
use countersign::call::{Arguments, Call, RefusalReason};
use countersign::concern::Concern;
use countersign::display::{clip, escape};
use countersign::effect::Risk;
use countersign::event::Event;
use countersign::id::CallId;
use countersign::policy::{Policy, Undoable, shows_plainly};
use countersign::secrecy::Secrecy;
use countersign::state::{CallState, State};
use countersign::time::Time;
use serde_json::value::RawValue;

use super::value::with_whole;
use super::{
    ApprovalView, CallEnd, CallView, EventView, ValueView, VoteView, WorkingFolderView, before, hex, origin,
};

/// Creates the view of an approval at `now`.
pub fn approval(approval: &Approval, policy: &Policy, now: Time) -> ApprovalView {
    let all = approval.secrecy(policy);
    let calls: Vec<CallView> = approval
        .numbered()
        .map(|(position, call)| {
            let (state, because) = state_and_reason(approval, call, now);
            CallView {
                state,
                end: CallEnd::of(state, because.as_ref()),
                because: because.map(|because| because.as_str().to_owned()),
                ..call_view(approval, position, call, policy, &all)
            }
        })
        .collect();
    let said = |text: &Option<String>| text.as_deref().map(|text| all.text(text).into_owned());
    let only = match calls.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    let decision = approval.decision.as_ref();
    ApprovalView {
        id: approval.id,
        run_id: approval.run.as_ref().map(ToString::to_string),
        agent_name: approval.agent.to_string(),
        tool_name: shared_tool(approval),
        tool_arguments: only.and_then(|call| call.arguments.clone()),
        hidden: calls.iter().any(|call| call.hidden),
        risk_level: approval
            .calls
            .iter()
            .map(|call| call.terms.risk())
            .max()
            .unwrap_or(Risk::Low),
        description: description(approval),
        status: state(approval, now),
        comment: decision.and_then(|decision| said(&decision.comment)),
        created_at: approval.created_at.into(),
        expires_at: approval.expires_at.into(),
        decided_at: decision.map(|decision| decision.at.into()),
        requested_by: approval.requester.to_string(),
        decided_by: decision.map(|decision| decision.by.to_string()),
        claimed_by: decision.and_then(|decision| said(&decision.claimed_by)),
        on_behalf_of: approval.on_behalf_of.as_ref().map(ToString::to_string),
        channel: approval.channel.as_ref().map(ToString::to_string),
        session: approval.session.as_ref().map(ToString::to_string),
        claim: said(&approval.claim),
        digest: approval.digest,
        version: approval.version,
        ended_at: approval.ended_at.map(Into::into),
        passed_because: passed_because(approval),
        decided_on: decision.map(|decision| decision.surface.clone()),
        replaces: approval.replaces,
        superseded_by: approval.superseded_by,
        undoes: approval.undoes,
        erased_at: approval.erased_at.map(Into::into),
        partly_denied: partly_denied(approval),
        order: approval.order,
        quorum: approval.quorum(),
        approvals: votes(approval, &all),
        other_policy: policy.may_hide_more(approval.policy),
        now: now.into(),
        calls,
        events: None,
    }
}

impl ApprovalView {
    /// Adds the concerns of each call. `concerns` has one list per call, in order.
    pub fn with_concerns(mut self, concerns: &[Vec<Concern>]) -> ApprovalView {
        self.add_concerns(concerns);
        self
    }

    /// Like [`with_concerns`](Self::with_concerns), but in place.
    pub fn add_concerns(&mut self, concerns: &[Vec<Concern>]) {
        for (call, concerns) in self.calls.iter_mut().zip(concerns) {
            call.concerns = concerns.iter().map(ToString::to_string).collect();
        }
    }

    /// Adds the approval's events.
    pub fn with_events(self, events: &[Event]) -> ApprovalView {
        let view = |event: &Event| EventView {
            number: event.number,
            at: event.at.into(),
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

/// Returns the approval's state at `now`. After its deadline, a pending approval is expired even if no sweep has
/// recorded that yet.
pub fn state(approval: &Approval, now: Time) -> State {
    match approval.state {
        State::Pending if now >= approval.expires_at => State::Expired,
        state => state,
    }
}

/// Returns the state of a call at `now`, and the reason why it will not run. A held call of an approval that has expired
/// is refused, even if no sweep has recorded that yet.
fn state_and_reason(approval: &Approval, call: &Call, now: Time) -> (CallState, Option<RefusalReason>) {
    match (state(approval, now), call_state(call, now)) {
        (State::Expired, CallState::Held) => (CallState::Refused, Some(RefusalReason::Expired)),
        (_, state) => (state, call.because.clone()),
    }
}

/// Returns the state of a call at `now`, and how it ended.
pub fn state_and_end(approval: &Approval, call: &Call, now: Time) -> (CallState, Option<CallEnd>) {
    let (state, because) = state_and_reason(approval, call, now);
    (state, CallEnd::of(state, because.as_ref()))
}

/// Returns the call's state at `now`. After its deadline, a running call is unknown even if no sweep has recorded that
/// yet.
pub(super) fn call_state(call: &Call, now: Time) -> CallState {
    let deadline = call.execution.as_ref().map(|run| run.deadline);
    match call.state {
        CallState::Running if deadline.is_some_and(|deadline| now >= deadline) => CallState::Unknown,
        state => state,
    }
}

/// Explains why a call passed; `None` if the approval is not a passed one. Does not show the condition itself, which is
/// for operators.
///
/// INVARIANT: a call recorded as passed is more than a read, and such a call passes only if the tool's `hold` condition
/// was evaluated and is false.
pub fn passed_because(approval: &Approval) -> Option<String> {
    let tool = approval.calls.first().map(|call| escape(call.tool.as_str()));
    let tool = tool.filter(|_| approval.state == State::Passed)?;
    Some(format!(
        "the policy asks about `{tool}` only under a condition, and this call did not meet it"
    ))
}

/// Returns a summary of all calls of the approval in one sentence, escaped.
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

/// Returns true if the approval was approved without some of its calls.
pub(super) fn partly_denied(approval: &Approval) -> bool {
    let is_denied = |call: &Call| call.because == Some(RefusalReason::Denied);
    approval.state == State::Approved && approval.calls.iter().any(is_denied)
}

fn votes(approval: &Approval, all: &Secrecy) -> Vec<VoteView> {
    let said = |text: &Option<String>| text.as_deref().map(|text| all.text(text).into_owned());
    let endorsed = approval.endorsements.iter().map(|endorsed| VoteView {
        by: endorsed.by.to_string(),
        at: endorsed.at.into(),
        on: endorsed.surface.clone(),
        comment: said(&endorsed.comment),
        calls: endorsed.calls.clone(),
    });
    let decided = approval.decision.iter().filter(|decided| decided.approved);
    let decided = decided.map(|decided| VoteView {
        by: decided.by.to_string(),
        at: decided.at.into(),
        on: decided.surface.clone(),
        comment: said(&decided.comment),
        calls: None,
    });
    endorsed.chain(decided).collect()
}

fn shared_tool(approval: &Approval) -> Option<String> {
    let first = &approval.calls.first()?.tool;
    let is_shared = approval.calls.iter().all(|call| call.tool == *first);
    is_shared.then(|| first.to_string())
}

fn call_view(approval: &Approval, position: u8, call: &Call, policy: &Policy, all: &Secrecy) -> CallView {
    let bytes = call.arguments.as_bytes();
    let secrecy = Secrecy::of(call, policy, &approval.salt);
    let rows = match !secrecy.has_any() && shows_plainly(bytes) {
        true => Vec::new(),
        false => secrecy.table(bytes),
    };
    let hidden = rows.iter().any(|row| row.hidden);
    let hidden = hidden || secrecy.is_in(&String::from_utf8_lossy(bytes));
    let warnings = rows.iter().flat_map(|row| {
        let told = |warning| format!("{} {warning}", row.name);
        row.warnings.iter().map(told)
    });
    let warnings = warnings.collect();
    let arguments = if hidden { None } else { raw(&call.arguments) };
    let is_exact = |json: &RawValue| json.get().as_bytes() == bytes;
    let run = call.execution.as_ref();
    CallView {
        id: CallId {
            approval: approval.id,
            position,
        },
        tool: call.tool.to_string(),
        arguments_hex: arguments
            .as_deref()
            .and_then(|json| (!is_exact(json)).then(|| hex(bytes))),
        arguments_text: match hidden {
            true => None,
            false => std::str::from_utf8(bytes).ok().map(str::to_owned),
        },
        arguments,
        values: hidden.then(|| {
            let shown = with_whole(rows, bytes);
            shown.into_iter().map(ValueView::from).collect()
        }),
        hidden,
        effect: call.terms.effect,
        risk: call.terms.risk(),
        summary: call.terms.summary.clone(),
        state: call.state,
        end: None,
        because: None,
        notes: approval.notes_on(call),
        warnings,
        concerns: Vec::new(),
        provenance: call
            .provenance
            .as_deref()
            .map(|provenance| origin::view(provenance).hide(all)),
        approvers: call.terms.approvers.clone(),
        four_eyes: call.terms.authority().four_eyes,
        surface: call.terms.authority().assurance,
        undoable: call.terms.undo == Undoable::Yes,
        edited: call.original.is_some(),
        edits: before::edits(call, &secrecy),
        before: before::before(approval, call, &secrecy),
        working_folder: call.working_folder.as_deref().map(WorkingFolderView::from),
        digest: call.digest,
        started_at: run.map(|run| run.started_at.into()),
        ended_at: run.and_then(|run| run.ended_at).map(Into::into),
        result: call.result.as_deref().and_then(|bytes| result(&all.bytes(bytes))),
        undone_by: call.undone_by,
    }
}

fn raw(arguments: &Arguments) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(arguments.as_bytes()).ok()?;
    // Embedded JSON has no surrounding whitespace.
    RawValue::from_string(text.trim_matches([' ', '\n', '\r', '\t']).to_owned()).ok()
}

/// Converts a result: JSON unchanged, any other text as a string that is escaped and cut to about a million characters.
/// `None` if the result cannot be serialized.
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
