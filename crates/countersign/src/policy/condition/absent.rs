//! Placeholder for conditions in a build without CEL: compiling one always fails, so none can exist.

use std::convert::Infallible;

use super::super::feature;
use super::{BadCondition, Origins};
use crate::json::Tree;
use crate::working_folder::WorkingFolder;

#[derive(Debug)]
pub(in crate::policy) struct Condition(Infallible);

impl Condition {
    pub(in crate::policy) fn compile(_: &str) -> Result<Condition, BadCondition> {
        let (message, hint) = feature::CEL.missing_for("a condition").unwrap_or_default();
        Err(BadCondition {
            offset: 0,
            message,
            hint,
        })
    }

    pub(in crate::policy) fn source(&self) -> &str {
        match self.0 {}
    }

    pub(in crate::policy) fn asks_paths(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::policy) fn holds_for(
        &self,
        _: &Tree<'_>,
        _: &Origins,
        _: Option<&WorkingFolder>,
    ) -> Result<bool, String> {
        match self.0 {}
    }
}
