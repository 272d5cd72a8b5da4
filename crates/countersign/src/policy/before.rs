//! The read that comes before: how to look at what a call would change.
//!
//! Enters: the plan from the policy, the call's bytes. Leaves: a call of a tool that only reads.
//! Deliberately absent: running it; see `gate/before.rs`.

use minijinja::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::Policy;
use super::plan::{Planned, value};
use super::read::Reader;
use crate::call::Arguments;
use crate::id::ToolName;
use crate::json::Top;

/// A declared read.
#[derive(Clone, Debug)]
pub(super) struct Before(pub(super) Planned);

impl Before {
    /// Reads `before = { tool, arguments }`; notes mistakes with the reader.
    pub(super) fn read(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Before> {
        Planned::read(reader, "before", value, &["args"]).map(Before)
    }

    fn make(&self, arguments: &[u8]) -> Result<(ToolName, Arguments), String> {
        let arguments = value(arguments, Top::Object).map_err(|problem| problem.to_string())?;
        let context = Value::from_pairs([("args", arguments)]);
        let made = self.0.make(&context);
        let made =
            made.map_err(|problem| format!("`{}` cannot be made: {}", problem.field, problem.reason))?;
        let tool = ToolName::new(self.0.tool.as_str()).map_err(|problem| problem.to_string())?;
        let arguments = Arguments::parse(made).map_err(|problem| problem.to_string())?;
        Ok((tool, arguments))
    }
}

impl Policy {
    /// Whether a tool declares a read that comes before.
    pub(crate) fn reads_before(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| tool.before.is_some())
    }

    /// The read that shows what a call would change, if the tool declares one: tool and arguments, or why they cannot
    /// be made.
    pub fn before(&self, tool: &str, arguments: &[u8]) -> Option<Result<(ToolName, Arguments), String>> {
        let before = self.tools.get(tool)?.before.as_ref()?;
        Some(before.make(arguments))
    }
}
