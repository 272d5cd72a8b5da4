//! Where values came from, for people.

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

/// The marks of a call's values, by shown pointer.
pub struct Marks<'p> {
    values: HashMap<String, &'p LeafView>,
    /// The marks of members' names, by the member.
    keys: HashMap<String, &'p LeafView>,
}

impl<'p> Marks<'p> {
    /// Those of a provenance.
    pub fn new(provenance: &'p ProvenanceView) -> Marks<'p> {
        let (mut values, mut keys) = (HashMap::new(), HashMap::new());
        for leaf in &provenance.leaves {
            let (pointer, is_key) = place(&leaf.pointer);
            let marks = if is_key { &mut keys } else { &mut values };
            // Only compared with the pointers of rows, which are escaped.
            let shown = countersign::display::escape(pointer).into_owned(); // RAW:
            marks.insert(shown, leaf);
        }
        Marks { values, keys }
    }

    /// The mark of a row: the loudest of its value's and of the names on the way to it. A hidden row may hold several
    /// values: the loudest of them counts.
    pub fn of(&self, row: &Row) -> Option<&'p LeafView> {
        let below = format!("{}/", row.pointer);
        let inside = || {
            let marks = self
                .values
                .iter()
                .filter(|(pointer, _)| pointer.starts_with(&below));
            marks.map(|(_, mark)| *mark).max_by_key(|mark| mark.loudness())
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
        Some(names.fold(value, |loudest, mark| {
            match mark.loudness() > loudest.loudness() {
                true => mark,
                false => loudest,
            }
        }))
    }

    /// Puts what nobody stated first and what the person said last; otherwise the order stays.
    pub fn loudest_first(&self, rows: &mut [Row]) {
        rows.sort_by_cached_key(|row| Reverse(self.of(row).map_or(0, LeafView::loudness)));
    }
}

/// A call's values with their marks, the loudest first.
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

/// The verdict in the colour it deserves.
pub fn verdict(provenance: &ProvenanceView) -> String {
    let counts = provenance.counts;
    let style = match counts {
        Counts { invented: 1.., .. } | Counts { outside: 1.., .. } => style::BAD.bold(),
        Counts { unknown: 1.., .. } => style::WARNING,
        // The agent's own account is never as good as what the gate heard.
        _ if provenance.conversation_from != "gate" => style::WARNING,
        Counts { tool: 1.., .. } | Counts { derived: 1.., .. } => style::OPEN,
        _ => style::GOOD,
    };
    paint(style, &once(&provenance.verdict))
}

/// How wide the column of marks is.
pub const MARK_WIDTH: usize = 14;

/// The mark before a value. It stands first in its line, where no value can imitate it.
pub fn mark(mark: Option<&LeafView>) -> String {
    let tag = once(mark.map_or("unknown", |leaf| leaf.tag.as_str()));
    paint(mark_style(mark), &format!("{tag:<MARK_WIDTH$}"))
}

fn mark_style(mark: Option<&LeafView>) -> Style {
    match mark.map_or(3, LeafView::loudness) {
        0 => style::GOOD,
        1 | 2 => style::OPEN,
        3 => style::WARNING,
        _ => style::BAD.bold(),
    }
}

/// How long tracing took, as one line of JSON.
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
