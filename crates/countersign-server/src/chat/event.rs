//! Converts the progress of a turn to JSON events, in the same format as the HTTP stream.

use countersign_agent::progress::Progress;
use serde_json::{Value, json};

/// Returns the JSON event, or `None` for progress that a later event covers.
pub fn event(progress: &Progress) -> Option<Value> {
    Some(match progress {
        Progress::Routed { specialist } => json!({ "type": "routed", "specialist": specialist }),
        Progress::Text(text) => json!({ "type": "text", "text": text }),
        Progress::Called { id, tool } => json!({ "type": "tool", "id": id, "tool": tool }),
        Progress::Result {
            id,
            tool,
            status,
            is_error,
            content,
            requires_confirmation,
        } => json!({
            "type": "result", "id": id, "tool": tool, "status": status, "isError": is_error,
            "content": content, "requiresConfirmation": requires_confirmation,
        }),
        Progress::ChannelMessage(text) => json!({ "type": "say", "text": text }),
        Progress::ShowCard { approval, prompt } => json!({
            "type": "held", "approval": approval.id.to_string(), "summary": prompt.summary, "text": prompt.text,
            "yes": prompt.yes, "no": prompt.no, "expiresAt": prompt.expires_at.to_string(),
        }),
        Progress::Decided { approval } => json!({
            "type": "decided", "approval": approval.id.to_string(), "status": approval.state.as_str(),
        }),
        Progress::Retrying { reason } => json!({ "type": "again", "reason": reason }),
        Progress::Notice(text) => json!({ "type": "notice", "text": text }),
        Progress::Done { usage } => json!({
            "type": "done", "inputTokens": usage.input, "outputTokens": usage.output,
        }),
        Progress::Proposed { .. } | Progress::Answered { .. } => return None,
    })
}
