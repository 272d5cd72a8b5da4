//! Answers of the server that we add to: its tools, and what it says of itself.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Relay;
use crate::mcp::frame::{Frame, pick, span, splice};
use crate::mcp::own;
use crate::mcp::tools::definitions;
use crate::mcp::wire;

impl Relay {
    /// What the server says of itself, with the tasks that held calls become.
    pub(super) fn with_tasks(&self, frame: &Frame) -> Bytes {
        let (bytes, are_ours) = crate::mcp::task::with_tasks(frame);
        self.adds_tasks.store(are_ours, Ordering::Relaxed);
        bytes
    }

    /// Whether all tasks are ours.
    pub(in crate::mcp) fn adds_tasks(&self) -> bool {
        self.adds_tasks.load(Ordering::Relaxed)
    }

    /// The server's tools are remembered, and ours stand behind the last of them.
    pub(super) fn with_own_tools(&self, frame: Frame) -> Bytes {
        let Some(result) = frame.result.clone() else {
            return frame.bytes;
        };
        let bytes = frame.bytes.get(result.clone()).unwrap_or_default();
        let Ok([Some(tools), next]) = pick(bytes, ["tools", "nextCursor"]) else {
            return frame.bytes;
        };
        let Some(listed) = definitions(tools) else {
            return frame.bytes;
        };
        if let Some((name, _)) = listed.iter().find(|(name, _)| own::is_own(name)) {
            let id = frame.part(&frame.id).map(String::from_utf8_lossy);
            let problem =
                format!("the server lists a tool `{name}`, which is the gateway's own; it is not offered");
            return wire::error(id.as_deref(), wire::INTERNAL, &problem);
        }
        let is_empty = listed.is_empty();
        self.server.tools.saw(listed);
        if next.is_some_and(|next| next.get() != "null") {
            return frame.bytes;
        }
        let ours = own::definitions(self.gateway.settings.permission_prompt);
        let end = span(&frame.bytes, tools.get()).end.saturating_sub(1);
        let ours = match is_empty {
            true => ours,
            false => format!(",{ours}"),
        };
        splice(&frame.bytes, end..end, ours.as_bytes())
    }
}
