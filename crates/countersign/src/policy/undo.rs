//! How a call is taken back: another tool, with arguments made from this call's arguments and result.
//!
//! Enters: the plan from the policy, the call's bytes, the result's bytes. Leaves: a new call, to be proposed and
//! decided like any other.
//! Deliberately absent: how values are made; see `plan`.

use minijinja::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::Policy;
use super::plan::{Planned, Unmakable, value};
use super::read::Reader;
use crate::call::Call;
use crate::json::{self, Limits, Malformed, Top};
use crate::provenance::{Heard, How, Mark, Provenance, Quote, Teller, ToolQuote, Traced};

/// A declared undo.
#[derive(Clone, Debug)]
pub(super) struct Undo(pub(super) Planned);

/// Why there is no undo for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoProblem {
    /// The policy declares none.
    #[error("`{0}` cannot be undone\nhint: declare `undo` for it in the policy")]
    NotDeclared(String),
    /// An argument of the undo could not be made.
    #[error(
        "cannot make `{field}` for the undo: {reason}\nhint: undo it by hand, then mend `undo.arguments`"
    )]
    Unmakable {
        /// Which argument.
        field: String,
        /// Why.
        reason: String,
    },
    /// The call's arguments or its result are not JSON.
    #[error("cannot read what the call did: {0}")]
    Unreadable(Malformed),
    /// What came out cannot be proposed.
    #[error("the undo's arguments cannot be proposed: {0}")]
    Unproposable(Malformed),
}

impl Policy {
    /// Where the values of an undo came from: what the policy makes of a tool's result is the tool's, and what it takes from
    /// the call's own arguments is marked as it was there.
    pub(crate) fn undo_marks(&self, done: &Call, tool: &str, arguments: &[u8]) -> Provenance {
        let undo = self
            .tools
            .get(done.tool.as_str())
            .and_then(|tool| tool.undo.as_ref());
        let sources = undo.map(|undo| undo.0.sources()).unwrap_or_default();
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
        // The gate has the result itself; marks of the call's arguments are as good as they were there.
        let takes_arguments = sources
            .iter()
            .any(|(_, names)| names.iter().any(|name| name.starts_with("args")));
        let before = done.provenance.as_deref().filter(|_| takes_arguments);
        let teller = before.map_or(Teller::Gate, Provenance::told_by);
        Provenance::new(traced.collect(), Heard::Whole).by(teller)
    }
}

/// The mark of a value that is made of these names. `rest` is where it stands inside of what they name.
fn mark_of(done: &Call, names: &[String], rest: &str) -> Mark {
    let is_of = |name: &String, variable: &str| {
        let below = name.strip_prefix(variable);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    };
    // A value with anything of the tool's in it is the tool's.
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
                how: How::Exactly,
            },
        });
    }
    match names {
        // The operator wrote it into the policy.
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
    /// Reads `undo = { tool, arguments }`; notes mistakes with the reader.
    pub(super) fn read(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Undo> {
        Planned::read(reader, "undo", value, &["args", "result"]).map(Undo)
    }

    /// Makes the arguments of the undo.
    pub(super) fn make(&self, arguments: &[u8], result: &[u8]) -> Result<Vec<u8>, UndoProblem> {
        let context = Value::from_pairs([
            (
                "args",
                value(arguments, Top::Object).map_err(UndoProblem::Unreadable)?,
            ),
            (
                "result",
                value(result, Top::Any).map_err(UndoProblem::Unreadable)?,
            ),
        ]);
        let made = self.0.make(&context);
        let made = made.map_err(|Unmakable { field, reason }| UndoProblem::Unmakable { field, reason })?;
        json::check(&made, Limits::ARGUMENTS).map_err(UndoProblem::Unproposable)?;
        Ok(made)
    }
}
