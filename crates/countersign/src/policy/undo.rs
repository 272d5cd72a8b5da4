//! The undo of a call: another tool, with arguments built from this call's arguments and result.
//!
//! The undo is built from the policy's template, and the call's arguments and result, as bytes. It becomes a new call,
//! to be proposed and decided like any other. The arguments are rendered in `template`.

use toml::Spanned;
use toml::de::DeValue;

use super::Policy;
use super::read::Reader;
use super::template::{CallTemplate, Inputs, RenderError};
use crate::call::Call;
use crate::json::{self, Limits, Malformed, TopLevel};
use crate::provenance::{Coverage, Mark, MatchKind, Provenance, Quote, ToolQuote, Traced, Voucher};

/// A tool's `undo` entry.
#[derive(Clone, Debug)]
pub(super) struct Undo(pub(super) CallTemplate);

/// Reason why a call cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoProblem {
    /// The policy declares no undo for the tool with this name.
    #[error(
        "the policy declares no `undo` for `{0}`\nhint: undo it by hand; an `undo` that is added counts for later calls"
    )]
    NotDeclared(String),
    /// The current policy declares no undo for the tool with this name, but the policy under which the call was
    /// proposed does.
    #[error(
        "this policy declares no `undo` for `{0}`; the policy that the call was proposed under does\n\
         hint: undo it at the service that has that policy, or name it with `--policy FILE`"
    )]
    OtherPolicy(String),
    /// An argument of the undo could not be rendered.
    #[error(
        "cannot make `{field}` for the undo: {reason}\nhint: undo it by hand, then correct `undo.arguments`"
    )]
    Unmakable {
        /// Name of the argument.
        field: String,
        /// Reason why the argument could not be rendered.
        reason: String,
    },
    /// The call's arguments or its result are not acceptable JSON.
    #[error("cannot read what the call did: {0}")]
    Unreadable(Malformed),
    /// The rendered arguments do not pass the checks for a proposal.
    #[error("the undo's arguments cannot be proposed: {0}")]
    Unproposable(Malformed),
}

impl Policy {
    /// Returns the variables from which each argument of a tool's undo is built: the JSON pointer of the argument, and
    /// names such as `args.id`.
    pub(crate) fn undo_sources(&self, tool: &str) -> Vec<(String, Vec<String>)> {
        let undo = self.tools.get(tool).and_then(|tool| tool.undo.as_ref());
        undo.map(|undo| undo.0.sources()).unwrap_or_default()
    }

    /// Returns the provenance of an undo's values: a value built from the tool's result is marked as the tool's, and a
    /// value taken from the call's arguments keeps the mark that it has in the call. `None` if the call was not traced
    /// and the origin of some value is therefore unknown.
    pub(crate) fn undo_marks(&self, done: &Call, tool: &str, arguments: &[u8]) -> Option<Provenance> {
        let sources = self.undo_sources(done.tool.as_str());
        let mark = |pointer: &str| {
            let is_part = |(planned, _): &&(String, Vec<String>)| {
                let rest = pointer.strip_prefix(planned.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let (planned, names) = sources.iter().find(is_part)?;
            let rest = pointer.strip_prefix(planned.as_str()).unwrap_or_default();
            Some(mark_of(done, names, rest))
        };
        let leaves = json::leaves(arguments);
        let leaves = leaves.into_iter().filter(|leaf| !leaf.pointer.is_empty());
        let traced = leaves.map(|leaf| {
            let mut mark = mark(&leaf.pointer).unwrap_or(Mark::Unknown);
            if self.is_secret(tool, &leaf.pointer) {
                mark.hide();
            }
            Traced {
                pointer: leaf.pointer,
                mark,
            }
        });
        // The gate has the result first-hand. Marks copied from the call's arguments are only as trustworthy as those
        // of the call.
        let takes_arguments = sources
            .iter()
            .any(|(_, names)| names.iter().any(|name| name.starts_with("args")));
        let before = done.provenance.as_deref().filter(|_| takes_arguments);
        let voucher = before.map_or(Voucher::Gate, Provenance::vouched_by);
        let provenance = Provenance::new(traced.collect(), Coverage::Whole).by(voucher);
        let is_traced = done.provenance.is_some() || provenance.counts().unknown == 0;
        is_traced.then_some(provenance)
    }
}

/// Returns the mark of a value built from these variables. `rest` is the pointer of the value within the variable's
/// value.
fn mark_of(done: &Call, names: &[String], rest: &str) -> Mark {
    let is_of = |name: &String, variable: &str| {
        let below = name.strip_prefix(variable);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    };
    // A value built with anything from the tool's result counts as the tool's.
    if let Some(name) = names.iter().find(|name| is_of(name, "result")) {
        let place = name.strip_prefix("result").unwrap_or_default().replace('.', "/");
        return Mark::Tool(ToolQuote {
            name: done.tool.to_string(),
            is_outside: false,
            pointer: (names.len() == 1).then(|| format!("{place}{rest}")),
            quote: Quote {
                message: 0,
                span: None,
                words: String::new(),
                how: MatchKind::Exactly,
            },
        });
    }
    match names {
        // Without variables, the value is a constant in the policy.
        [] => Mark::Default,
        [name] if is_of(name, "args") => {
            let place = name.strip_prefix("args").unwrap_or_default().replace('.', "/");
            let before = done.provenance.as_deref();
            let before = before.and_then(|before| before.mark(&format!("{place}{rest}")));
            before.cloned().unwrap_or(Mark::Unknown)
        }
        _ => Mark::Unknown,
    }
}

impl Undo {
    /// Parses `undo = { tool, arguments }`. Returns `None` and reports the mistakes to the reader if it is not valid.
    pub(super) fn read(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Undo> {
        CallTemplate::read(reader, "undo", value, &["args", "result"]).map(Undo)
    }

    /// Renders the arguments of the undo.
    pub(super) fn make(&self, arguments: &[u8], result: &[u8]) -> Result<Vec<u8>, UndoProblem> {
        let inputs = Inputs::read([
            ("args", arguments, TopLevel::Object),
            ("result", result, TopLevel::Any),
        ]);
        let made = self.0.render(&inputs.map_err(UndoProblem::Unreadable)?);
        let made = made.map_err(|RenderError { field, reason }| UndoProblem::Unmakable { field, reason })?;
        json::check(&made, Limits::ARGUMENTS).map_err(UndoProblem::Unproposable)?;
        Ok(made)
    }
}
