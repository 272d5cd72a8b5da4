//! A batch of similar calls as one table: a row for each call, a column for each value.
//!
//! Input: the calls of a card. Output: the table, or `None` if a row could not show everything about its call.

use serde::Serialize;

use super::call::CallCard;
use super::section::{Column, Section, columns, fits_cell};
use super::value::CardValue;

/// Minimum number of calls for a table. Fewer calls are listed one below the other.
const FEWEST: usize = 3;
/// Maximum number of values per call, each of which is a column.
const MOST_COLUMNS: usize = 6;

/// Calls of one tool that differ only in a few short values.
#[derive(Debug, Serialize)]
pub struct AlikeCalls {
    pub columns: Vec<Column>,
    /// Values of each call, in the order of the columns.
    pub rows: Vec<Vec<Option<CardValue>>>,
    /// True if the summary of where values came from is the same for all calls.
    pub has_one_verdict: bool,
}

impl AlikeCalls {
    /// Returns the table, or `None` if the calls are too few or not alike.
    pub fn of(calls: &[CallCard]) -> Option<AlikeCalls> {
        let first = calls.first().filter(|_| calls.len() >= FEWEST)?;
        let names: Vec<String> = short_values(first)?
            .iter()
            .map(|value| value.name.clone())
            .collect();
        if names.is_empty() || names.len() > MOST_COLUMNS {
            return None;
        }
        let mut rows: Vec<Vec<Option<CardValue>>> = Vec::with_capacity(calls.len());
        for call in calls {
            let values =
                short_values(call).filter(|values| values.len() == names.len() && is_like(call, first))?;
            let cells = names
                .iter()
                .map(|name| values.iter().find(|value| value.name == *name).cloned());
            rows.push(cells.collect::<Option<Vec<_>>>()?.into_iter().map(Some).collect());
        }
        Some(AlikeCalls {
            columns: columns(names, rows.iter_mut().map(Vec::as_mut_slice)),
            rows,
            has_one_verdict: calls.iter().all(|call| call.verdict == first.verdict),
        })
    }
}

/// Returns true if two calls differ only in their values, and everything about `call` fits into a table row.
fn is_like(call: &CallCard, first: &CallCard) -> bool {
    call.tool == first.tool
        && (call.effect, call.risk, call.can_undo) == (first.effect, first.risk, first.can_undo)
        && call.notes == first.notes
        && call.concerns == first.concerns
        && call.before.is_none()
        && !call.is_partial()
        && !call.is_edited
        && call.values.gone.is_empty()
        && !call.summary.contains('\n')
}

/// Returns the values of a call, or `None` if one of them is nested or too long for a table cell.
fn short_values(call: &CallCard) -> Option<&[CardValue]> {
    match call.values.sections.as_slice() {
        [Section::Values { values }] if values.iter().all(fits_cell) => Some(values),
        _ => None,
    }
}
