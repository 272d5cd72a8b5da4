//! Rendering of the provenance of values, for people.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use clap::builder::styling::Style;
use countersign::provenance::{Counts, place};
use countersign::summary::Row;

use super::foreign::{foreign, shown};
use super::style::{self, paint};
use super::{card, once};
use crate::view::origin::{LeafView, ProvenanceView};

/// Provenance marks of a call's values, by JSON pointer in escaped form.
pub struct Marks<'p> {
    values: HashMap<String, &'p LeafView>,
    /// Marks of object keys, by the pointer of the member.
    keys: HashMap<String, &'p LeafView>,
}

impl<'p> Marks<'p> {
    /// Creates an index of the marks of a provenance.
    pub fn new(provenance: &'p ProvenanceView) -> Marks<'p> {
        let (mut values, mut keys) = (HashMap::new(), HashMap::new());
        for leaf in &provenance.leaves {
            let (pointer, is_key) = place(&leaf.pointer);
            let marks = if is_key { &mut keys } else { &mut values };
            // The pointer is never printed, only compared with the pointers of rows, which are escaped.
            let shown = countersign::display::escape(pointer).into_owned(); // RAW:
            marks.insert(shown, leaf);
        }
        Marks { values, keys }
    }

    /// Returns the most prominent mark among the row's value and the object keys on the path to it. A hidden row may
    /// stand for several values, which all count. `None` if the value has no mark.
    pub fn of(&self, row: &Row) -> Option<&'p LeafView> {
        let below = format!("{}/", row.pointer);
        let inside = || {
            let marks = self
                .values
                .iter()
                .filter(|(pointer, _)| pointer.starts_with(&below));
            marks.map(|(_, mark)| *mark).max_by_key(|mark| mark.prominence())
        };
        let exact = self.values.get(row.pointer.as_str()).copied();
        let value = exact.or_else(|| if row.hidden { inside() } else { None })?;
        let names = self.keys.iter().filter(|(pointer, _)| {
            let is_on_the_way = below
                .strip_prefix(&***pointer)
                .is_some_and(|rest| rest.starts_with('/'));
            is_on_the_way || row.hidden && pointer.starts_with(&below)
        });
        let names = names.map(|(_, mark)| *mark);
        Some(names.fold(value, |most_prominent, mark| {
            match mark.prominence() > most_prominent.prominence() {
                true => mark,
                false => most_prominent,
            }
        }))
    }

    /// Sorts rows by the prominence of their marks: values that nobody stated come first, values that the person stated
    /// come last. The sort is stable.
    pub fn loudest_first(&self, rows: &mut [Row]) {
        rows.sort_by_cached_key(|row| Reverse(self.of(row).map_or(0, LeafView::prominence)));
    }
}

/// Renders a call's values with their marks, the most prominent first.
pub fn traced(tool: &str, rows: &[Row], provenance: &ProvenanceView) -> String {
    let mut text = format!(
        "{}  {}\n",
        verdict(provenance),
        paint(style::STRONG, &foreign(tool))
    );
    let mut rows: Vec<Row> = rows.to_vec();
    let marks = Marks::new(provenance);
    marks.loudest_first(&mut rows);
    text.push_str(&card::rows(&rows, "", Some(&marks), |row| shown(&row.value)));
    text
}

/// Renders the verdict on all values, coloured by the worst mark.
pub fn verdict(provenance: &ProvenanceView) -> String {
    let counts = provenance.counts;
    let style = match counts {
        Counts { invented: 1.., .. } | Counts { outside: 1.., .. } => style::BAD.bold(),
        Counts { unknown: 1.., .. } => style::WARNING,
        // A conversation supplied by the agent is trusted less than one that the gate recorded itself.
        _ if provenance.conversation_from != "gate" => style::WARNING,
        Counts { tool: 1.., .. } | Counts { derived: 1.., .. } => style::OPEN,
        _ => style::GOOD,
    };
    paint(style, &once(&provenance.verdict))
}

/// Width of the column that contains the marks, in characters.
pub const MARK_WIDTH: usize = 14;

/// Renders the mark before a value; a value without a mark is shown as `unknown`. Marks come first in the line, where
/// no value can imitate them.
pub fn mark(mark: Option<&LeafView>) -> String {
    let tag = once(mark.map_or("unknown", |leaf| leaf.tag.as_str()));
    paint(mark_style(mark), &format!("{tag:<MARK_WIDTH$}"))
}

fn mark_style(mark: Option<&LeafView>) -> Style {
    match mark.map_or(3, LeafView::prominence) {
        0 => style::GOOD,
        1 | 2 => style::OPEN,
        3 => style::WARNING,
        _ => style::BAD.bold(),
    }
}

/// Formats the median, 99th percentile and maximum of `took` as one line of JSON, in microseconds. Sorts `took`.
pub fn timing(took: &mut [Duration]) -> String {
    took.sort_unstable();
    let micros = |percent: usize| {
        let at = (took.len() * percent / 100).min(took.len().saturating_sub(1));
        took.get(at).copied().unwrap_or_default().as_nanos() as f64 / 1000.0
    };
    let (half, ninety_nine, most) = (micros(50), micros(99), micros(100));
    let calls = took.len();
    format!(r#"{{"calls":{calls},"p50_us":{half:.1},"p99_us":{ninety_nine:.1},"max_us":{most:.1}}}"#)
}
