//! How a call is taken back: another tool, with arguments made from this call's arguments and result.
//!
//! Enters: the plan from the policy, the call's bytes, the result's bytes. Leaves: a new call, to be proposed and
//! decided like any other.
//! Deliberately absent: how values are made; see `plan`.

use minijinja::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::plan::{Planned, Unmakable, value};
use super::read::Reader;
use crate::json::{self, Limits, Malformed, Top};

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
