//! Extends two of the server's answers: its list of tools and its capabilities.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use countersign::hash::Hash;
use serde_json::value::RawValue;

use super::Relay;
use crate::mcp::builtin_tools;
use crate::mcp::frame::{Frame, pick, span};
use crate::mcp::one_line::OneLine;
use crate::mcp::pinned::{self, ToolAppearance};
use crate::mcp::tools::{Listed, definition};
use crate::mcp::wire;
use crate::output;

impl Relay {
    /// Adds the gateway's tasks extension to the server's capabilities if the server has none, and records whether it
    /// was added.
    pub(super) fn with_tasks(&self, frame: &Frame) -> OneLine {
        let (line, are_ours) = crate::mcp::task::with_tasks(frame);
        self.adds_tasks.store(are_ours, Ordering::Relaxed);
        line
    }

    /// Returns true if the server has no tasks of its own, so that all tasks are the gateway's.
    pub(in crate::mcp) fn adds_tasks(&self) -> bool {
        self.adds_tasks.load(Ordering::Relaxed)
    }

    /// Remembers the server's tools, hides definitions that the policy does not pin, and appends the built-in tools on
    /// the last page. A list that cannot be read or that names a built-in tool is replaced by an error.
    pub(super) fn with_own_tools(&self, frame: Frame) -> OneLine {
        let Some(result) = frame.part(&frame.result) else {
            return frame.line;
        };
        let refused = |problem: &str| {
            self.server.tools.not_listed();
            let id = frame.part(&frame.id).map(String::from_utf8_lossy);
            wire::error(id.as_deref(), wire::INTERNAL, problem)
        };
        // A list that the gateway cannot read is refused, because the client might find tools in it that nobody has
        // pinned.
        let picked = pick(result, ["tools", "nextCursor"]).ok();
        let listed = picked.and_then(|[tools, next]| Some((tools?, read_list(tools?)?, next)));
        let Some((place, tools, next)) = listed else {
            return refused("the server's list of tools could not be read; it is not offered");
        };
        if let Some((_, name, _)) = tools.iter().find(|(_, name, _)| builtin_tools::is_own(name)) {
            return refused(&format!(
                "the server lists a tool `{name}`, which is the gateway's own; it is not offered"
            ));
        }
        let shown: Vec<Cow<'_, str>> = tools
            .iter()
            .filter_map(|(raw, name, listed)| self.shown(raw, name, listed.definition))
            .collect();
        let place = span(&frame.line, place.get());
        let end = place.end.saturating_sub(1);
        let is_last = next.is_none_or(|next| next.get() == "null");
        let ours = is_last.then(|| builtin_tools::definitions(self.gateway.settings.permission_prompt));
        let is_noted = shown.iter().any(|tool| matches!(tool, Cow::Owned(_))) || shown.len() != tools.len();
        let edit = match (is_noted, ours) {
            (true, ours) => {
                let all: Vec<Cow<'_, str>> = shown.into_iter().chain(ours.map(Cow::Owned)).collect();
                Some((place, format!("[{}]", all.join(","))))
            }
            (false, Some(ours)) if tools.is_empty() => Some((end..end, ours)),
            (false, Some(ours)) => Some((end..end, format!(",{ours}"))),
            (false, None) => None,
        };
        let listed = tools.into_iter().map(|(_, name, listed)| (name, listed));
        self.server.tools.saw(listed.collect());
        match edit {
            Some((place, text)) => frame.line.splice(place, text.as_bytes()),
            None => frame.line,
        }
    }

    /// Returns a tool as the client gets it: as listed, or with a note of the gateway if the policy pins another
    /// definition; `None` if it is left out. Logs once per tool that its definition is not shown.
    pub(in crate::mcp) fn shown<'t>(
        &self,
        raw: &'t RawValue,
        tool: &str,
        definition: Option<Hash>,
    ) -> Option<Cow<'t, str>> {
        let server = &self.server;
        let appearance = pinned::appearance(self.gateway.gate.policy(), &server.name, tool, definition);
        if appearance != ToolAppearance::AsListed && server.tools.is_news(tool) {
            output::print_to_stderr(&format!(
                "countersign: the client is not shown the definition of `{}/{}`: it is not one that the policy pins",
                server.name,
                tool.escape_default()
            ));
        }
        match appearance {
            ToolAppearance::AsListed => Some(raw.get().into()),
            ToolAppearance::Noted(text) => Some(text.into()),
            ToolAppearance::LeftOut => None,
        }
    }
}

/// Reads the tools of a list, as raw JSON and parsed; `None` if it is not a list of tools.
fn read_list(tools: &RawValue) -> Option<Vec<(&RawValue, String, Listed)>> {
    let tools: Vec<&RawValue> = serde_json::from_str(tools.get()).ok()?;
    let read = tools.into_iter().map(|raw| {
        let (name, listed) = definition(raw)?;
        Some((raw, name, listed))
    });
    read.collect()
}
