//! A session for display: the messages, and the trace of tool calls.

use countersign::display::escape;
use countersign_agent::message::{CallResult, Message, ModelCall};
use serde::Serialize;

/// Message of a session.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `you`, `agent` or `channel`.
    pub who: &'static str,
    pub text: String,
}

/// Entry of the trace: a tool call or its result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// `info`, `warn` or `error`.
    pub level: &'static str,
    pub name: &'static str,
    pub tool: String,
    /// Status of the call.
    pub status: String,
}

/// Returns the messages, oldest first.
pub fn lines(messages: &[Message]) -> Vec<Line> {
    let line = |message: &Message| {
        let (who, text) = match message {
            Message::Person { text, .. } | Message::Reply { text } => ("you", text),
            Message::Agent { text, .. } => ("agent", text),
            Message::Channel { text } => ("channel", text),
            Message::Results { .. } => return None,
        };
        let text = safe(text.trim());
        (!text.is_empty()).then_some(Line { who, text })
    };
    messages.iter().filter_map(line).collect()
}

/// Returns the tool calls and their results, oldest first.
pub fn trace(messages: &[Message]) -> Vec<Traced> {
    let mut traced = Vec::new();
    let mut messages = messages.iter().peekable();
    while let Some(message) = messages.next() {
        let Message::Agent { calls, .. } = message else {
            continue;
        };
        let results = match messages.peek() {
            Some(Message::Results { results }) => results.as_slice(),
            _ => &[],
        };
        for (index, call) in calls.iter().enumerate() {
            follow(&mut traced, call, results.get(index));
        }
    }
    traced
}

fn follow(traced: &mut Vec<Traced>, call: &ModelCall, result: Option<&CallResult>) {
    let mut add = |level, name, status: &str| {
        traced.push(Traced {
            level,
            name,
            tool: safe(&call.tool),
            status: safe(status),
        });
    };
    let Some(result) = result else {
        return add("info", "tool-call", "");
    };
    match result.status.as_str() {
        "pending_confirmation" => add("warn", "confirmation-required", ""),
        "ok" => add("info", "tool-result", &result.status),
        "error" | "unknown" | "unknown_tool" | "bad_arguments" | "refused" | "forbidden" | "repeated" => {
            add("error", "tool-result", &result.status);
        }
        "succeeded" | "undone" => add("info", "decided", &result.status),
        other => add("warn", "decided", other),
    }
}

/// Escapes untrusted text for display, but keeps its line breaks.
pub fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use countersign::time::Time;
    use countersign_agent::message::Source;

    use super::*;

    fn called(status: &str, is_error: bool) -> [Message; 2] {
        let call = ModelCall {
            id: "1".to_owned(),
            tool: "create_contact".to_owned(),
            arguments: "{}".to_owned(),
        };
        let result = CallResult {
            id: "1".to_owned(),
            tool: "create_contact".to_owned(),
            status: status.to_owned(),
            is_error,
            content: String::new(),
            from: Source::Gate,
        };
        let text = String::new();
        let (calls, results) = (vec![call], vec![result]);
        [Message::Agent { text, calls }, Message::Results { results }]
    }

    #[test]
    fn c6_the_trace_shows_that_a_confirmation_is_required_at_level_warn() {
        let check = |status: &str, is_error, expected: [&str; 2]| {
            let traced = trace(&called(status, is_error));
            assert_eq!([traced[0].level, traced[0].name], expected, "{status}");
        };
        check("pending_confirmation", false, ["warn", "confirmation-required"]);
        check("ok", false, ["info", "tool-result"]);
        check("error", true, ["error", "tool-result"]);
        check("succeeded", false, ["info", "decided"]);
        check("denied", true, ["warn", "decided"]);
        let [unanswered, _] = called("ok", false);
        assert_eq!(trace(&[unanswered])[0].name, "tool-call");
    }

    #[test]
    fn x16_what_is_said_cannot_act() {
        let at = Time::from_micros(0);
        let text = "a\u{202e}b\nc\u{200b}d <b>".to_owned();
        let lines = lines(&[Message::Person { text, at }]);
        assert_eq!(lines[0].text, "a\\u{202e}b\nc\\u{200b}d <b>");
    }
}
