//! Answers of the server that we add to: its tools, and what it says of itself.

use std::sync::atomic::Ordering;

use super::Relay;
use crate::mcp::frame::{Frame, pick, span};
use crate::mcp::one_line::OneLine;
use crate::mcp::own;
use crate::mcp::tools::definitions;
use crate::mcp::wire;

impl Relay {
    /// What the server says of itself, with the tasks that held calls become.
    pub(super) fn with_tasks(&self, frame: &Frame) -> OneLine {
        let (line, are_ours) = crate::mcp::task::with_tasks(frame);
        self.adds_tasks.store(are_ours, Ordering::Relaxed);
        line
    }

    /// Whether all tasks are ours.
    pub(in crate::mcp) fn adds_tasks(&self) -> bool {
        self.adds_tasks.load(Ordering::Relaxed)
    }

    /// The server's tools are remembered, and ours stand behind the last of them.
    pub(super) fn with_own_tools(&self, frame: Frame) -> OneLine {
        let Some(result) = frame.part(&frame.result) else {
            return frame.line;
        };
        let refused = |problem: &str| {
            let id = frame.part(&frame.id).map(String::from_utf8_lossy);
            wire::error(id.as_deref(), wire::INTERNAL, problem)
        };
        // What the client would see and we cannot read could be no tool that anybody pinned.
        let picked = pick(result, ["tools", "nextCursor"]).ok();
        let listed = picked.and_then(|[tools, next]| Some((tools?, definitions(tools?)?, next)));
        let Some((tools, listed, next)) = listed else {
            return refused("the server's list of tools could not be read; it is not offered");
        };
        if let Some((name, _)) = listed.iter().find(|(name, _)| own::is_own(name)) {
            return refused(&format!(
                "the server lists a tool `{name}`, which is the gateway's own; it is not offered"
            ));
        }
        let is_empty = listed.is_empty();
        self.server.tools.saw(listed);
        if next.is_some_and(|next| next.get() != "null") {
            return frame.line;
        }
        let ours = own::definitions(self.gateway.settings.permission_prompt);
        let end = span(&frame.line, tools.get()).end.saturating_sub(1);
        let ours = match is_empty {
            true => ours,
            false => format!(",{ours}"),
        };
        frame.line.splice(end..end, ours.as_bytes())
    }
}
