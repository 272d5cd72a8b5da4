//! The transcript: what the model is told about calls that were held.
//!
//! Input: an approval. Output: exactly one tool call and one tool result for each call, in the message formats of two
//! providers. Both reject a conversation in which a result is missing.
//!
//! Each result begins with the call's status. A call that was refused, failed, was undone or has an unknown outcome is
//! flagged as an error, so that a denial cannot be read as a success. Arguments appear byte for byte as proposed,
//! except for secrets.

use crate::approval::Approval;
use crate::call::{Call, RefusalReason};
use crate::policy::Policy;
use crate::secrecy::Secrecy;
use crate::state::CallState;

/// Status, whether the tool ran, and message, for a call that was approved or passed but could not be sent to its tool.
const NOT_SENT: (&str, bool, &str) = (
    "not_sent",
    false,
    "It was not sent, so nothing ran. It will not be sent by itself; propose it again if it is still wanted.",
);

/// A tool call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchange {
    /// Id that links the call and its result.
    pub id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as proposed by the model, with secrets masked.
    pub arguments: String,
    /// Arguments as proposed, including secrets; only for the model that wrote them.
    pub exact: String,
    /// Result of the call, as the model gets it.
    pub result: ToolResult,
}

/// Result of one call, as reported to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// Status of the call, as one word.
    pub status: &'static str,
    /// True if the tool ran or may have run.
    pub ran: bool,
    /// True if the result is reported to the model as an error.
    pub is_error: bool,
    /// Complete text: one JSON object.
    pub content: String,
}

/// Builds one exchange for each call of an approval, in order.
///
/// INVARIANT: values that are secret by the calls' own terms or by this policy appear only in `exact`.
pub fn exchanges(approval: &Approval, policy: &Policy) -> Vec<Exchange> {
    let all = approval.secrecy(policy);
    let calls = approval.numbered();
    calls
        .map(|(position, call)| {
            let proposed = call.original.as_ref().unwrap_or(&call.arguments);
            let secrecy = Secrecy::of(call, policy, &approval.salt);
            Exchange {
                id: format!("call_{}_{position}", hex(approval.id.as_bytes())),
                tool: call.tool.as_str().to_owned(),
                arguments: secrecy.json(proposed.as_bytes()),
                exact: text(proposed.as_bytes()),
                result: result(approval, call, &secrecy, &all),
            }
        })
        .collect()
}

/// Formats exchanges as messages for Anthropic's API: one turn with all calls, one with all results.
pub fn anthropic(exchanges: &[Exchange]) -> String {
    let uses = exchanges.iter().map(|exchange| {
        // INVARIANT: arguments are inserted verbatim, never re-serialised.
        format!(
            r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
            quote(&exchange.id),
            quote(&exchange.tool),
            exchange.arguments
        )
    });
    let results = exchanges.iter().map(|exchange| {
        format!(
            r#"{{"type":"tool_result","tool_use_id":{},"is_error":{},"content":{}}}"#,
            quote(&exchange.id),
            exchange.result.is_error,
            quote(&exchange.result.content)
        )
    });
    format!(
        r#"[{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}]"#,
        joined(uses),
        joined(results)
    )
}

/// Formats exchanges as messages for OpenAI's API.
pub fn openai(exchanges: &[Exchange]) -> String {
    let calls = exchanges.iter().map(|exchange| {
        format!(
            r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
            quote(&exchange.id),
            quote(&exchange.tool),
            quote(&exchange.arguments)
        )
    });
    let results = exchanges.iter().map(|exchange| {
        format!(
            r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#,
            quote(&exchange.id),
            quote(&exchange.result.content)
        )
    });
    let turn = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#,
        joined(calls)
    );
    format!("[{}]", joined(std::iter::once(turn).chain(results)))
}

fn result(approval: &Approval, call: &Call, secrecy: &Secrecy, all: &Secrecy) -> ToolResult {
    let (status, ran, message) = match call.state {
        CallState::Held => ("pending_confirmation", false, ""),
        CallState::Released => ("approved", false, "A person approved it. It has not run yet."),
        CallState::Running => ("running", true, "It was started and has not ended yet."),
        CallState::Succeeded => ("succeeded", true, "It ran."),
        CallState::Failed if call.was_not_sent() => NOT_SENT,
        CallState::Failed => ("failed", true, "It ran and failed."),
        CallState::Unknown => (
            "unknown",
            true,
            "It was started and nobody knows how it ended. Do not propose it again before somebody found out.",
        ),
        CallState::Undone => ("undone", true, "It ran and was then undone."),
        CallState::Refused => refused(call.because.as_ref()),
    };
    // The model has to explain what waits, and may have forgotten what it proposed.
    let message = match call.state {
        CallState::Held => format!(
            "This action requires confirmation: {}. A person has been asked. It has not run.",
            all.text(&call.terms.summary).trim_end_matches('.')
        ),
        _ => message.to_owned(),
    };
    let mut content = format!(
        r#"{{"status":{},"ran":{ran},"message":{}"#,
        quote(status),
        quote(&message)
    );
    if let Some(comment) = approval
        .decision
        .as_ref()
        .and_then(|decision| decision.comment.as_ref())
    {
        content.push_str(&format!(r#","comment":{}"#, quote(&all.text(comment))));
    }
    if call.original.is_some() {
        // The model must know which arguments ran, not only which it proposed.
        let ran_with = secrecy.json(call.arguments.as_bytes());
        content.push_str(&format!(r#","editedArguments":{ran_with}"#));
    }
    if let Some(answer) = &call.result {
        content.push_str(&format!(r#","result":{}"#, quote(&all.text(&text(answer)))));
    }
    content.push('}');
    ToolResult {
        status,
        ran,
        is_error: !matches!(
            call.state,
            CallState::Succeeded | CallState::Held | CallState::Released | CallState::Running
        ),
        content,
    }
}

fn refused(because: Option<&RefusalReason>) -> (&'static str, bool, &'static str) {
    match because {
        Some(RefusalReason::Expired) => ("expired", false, "Nobody decided in time. It did not run."),
        Some(RefusalReason::Superseded) => (
            "superseded",
            false,
            "A newer proposal took its place. It did not run.",
        ),
        Some(RefusalReason::Withdrawn) => (
            "withdrawn",
            false,
            "It was taken back before a decision. It did not run.",
        ),
        Some(RefusalReason::Stale) => (
            "stale",
            false,
            "It was approved but not started in time. It did not run.",
        ),
        Some(RefusalReason::EarlierFailed) => (
            "not_run",
            false,
            "An earlier call did not succeed. It did not run.",
        ),
        Some(RefusalReason::Voided) => (
            "voided",
            false,
            "The store was restored from a copy and everything open was ended. It did not run.",
        ),
        Some(RefusalReason::Changed) => (
            "changed",
            false,
            "What it would change has changed since a person saw it. It did not run; they are asked again.",
        ),
        Some(RefusalReason::Unreadable) => (
            "unreadable",
            false,
            "What it would change could not be read again. It did not run. Look at it, and propose again.",
        ),
        Some(RefusalReason::NothingToUndo) => (
            "nothing_to_undo",
            false,
            "What it would undo was undone by somebody else. It did not run.",
        ),
        Some(RefusalReason::NotSent) => NOT_SENT,
        Some(RefusalReason::Denied) | None => (
            "denied",
            false,
            "A person said no. It did not run. Do not propose it again unless they ask for it.",
        ),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}
