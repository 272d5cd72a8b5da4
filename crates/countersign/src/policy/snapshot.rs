//! The `before` read: a call that shows what another call would change.
//!
//! The call is built from the policy's template and the argument bytes of the other call. It calls a read-only tool,
//! and values copied from the arguments keep their bytes. `gate/snapshots.rs` runs it.

use toml::Spanned;
use toml::de::DeValue;

use super::Policy;
use super::read::Reader;
use super::template::{CallTemplate, Inputs};
use crate::call::Arguments;
use crate::id::ToolName;
use crate::json::TopLevel;

/// A tool's `before` entry.
#[derive(Clone, Debug)]
pub(super) struct Before(pub(super) CallTemplate);

impl Before {
    /// Parses `before = { tool, arguments }`. Returns `None` and reports the mistakes to the reader if it is not valid.
    pub(super) fn read(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Before> {
        CallTemplate::read(reader, "before", value, &["args"]).map(Before)
    }

    fn make(&self, arguments: &[u8]) -> Result<(ToolName, Arguments), String> {
        let inputs = Inputs::read([("args", arguments, TopLevel::Object)]);
        let made = self.0.render(&inputs.map_err(|problem| problem.to_string())?);
        let made =
            made.map_err(|problem| format!("`{}` cannot be made: {}", problem.field, problem.reason))?;
        let tool = ToolName::new(self.0.tool.as_str()).map_err(|problem| problem.to_string())?;
        let arguments = Arguments::parse(made).map_err(|problem| problem.to_string())?;
        Ok((tool, arguments))
    }
}

impl Policy {
    pub(crate) fn reads_before(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| tool.before.is_some())
    }

    /// Builds the `before` read for a call: its tool and arguments. `None` if the tool declares no such read; an inner
    /// error says why the arguments cannot be built.
    pub fn before(&self, tool: &str, arguments: &[u8]) -> Option<Result<(ToolName, Arguments), String>> {
        let before = self.tools.get(tool)?.before.as_ref()?;
        Some(before.make(arguments))
    }
}
