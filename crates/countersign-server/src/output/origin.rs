//! Where values came from, for people and for programs.

use std::time::Duration;

use clap::builder::styling::Style;
use countersign::display::{clip, escape};
use countersign::provenance::{Counts, Mark, Provenance};
use countersign::summary::Row;
use serde::Serialize;

use super::style::{self, paint};
use super::{card, once};

/// A call's values with their marks, the loudest first.
pub fn traced(tool: &str, rows: &[Row], provenance: &Provenance) -> String {
    let mut text = format!(
        "{}  {}\n",
        paint(style::STRONG, &escape(tool)),
        verdict(provenance)
    );
    let mut rows: Vec<Row> = rows.to_vec();
    let loudness = |row: &Row| find(provenance, &row.pointer).map_or(0, Mark::loudness);
    rows.sort_by_key(|row| std::cmp::Reverse(loudness(row)));
    text.push_str(&card::rows(&rows, "", Some(provenance), |row| row.value.clone()));
    text
}

/// The verdict in the colour it deserves.
pub fn verdict(provenance: &Provenance) -> String {
    let counts = provenance.counts();
    let style = match counts {
        Counts { invented: 1.., .. } | Counts { outside: 1.., .. } => style::BAD.bold(),
        Counts { unknown: 1.., .. } => style::WARNING,
        Counts { tool: 1.., .. } | Counts { derived: 1.., .. } => style::OPEN,
        _ => style::GOOD,
    };
    paint(style, &once(&provenance.verdict()))
}

/// The mark beside a value: what it is, and the words it came from.
pub fn mark(mark: &Mark) -> String {
    let label = paint(mark_style(mark), &once(&mark.label()));
    match mark.explanation() {
        Some(words) => format!("{label} {}", paint(style::FAINT, &once(&words))),
        None => label,
    }
}

/// The mark of a row, whose pointer is escaped.
pub fn find<'p>(provenance: &'p Provenance, shown_pointer: &str) -> Option<&'p Mark> {
    let leaves = provenance.leaves.iter();
    leaves
        .map(|leaf| (escape(&leaf.pointer), &leaf.mark))
        .find_map(|(pointer, mark)| (pointer == shown_pointer).then_some(mark))
}

fn mark_style(mark: &Mark) -> Style {
    match mark.loudness() {
        0 => style::GOOD,
        1 | 2 => style::OPEN,
        3 => style::WARNING,
        _ => style::BAD.bold(),
    }
}

/// For programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceView {
    verdict: String,
    counts: Counts,
    partial: bool,
    leaves: Vec<LeafView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LeafView {
    pointer: String,
    mark: String,
    label: String,
    /// The message of the conversation, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u32>,
    /// Bytes of that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

/// Everything that is known about where values came from.
pub fn view(provenance: &Provenance) -> ProvenanceView {
    let leaves = provenance.leaves.iter().map(|leaf| {
        let quote = match &leaf.mark {
            Mark::Person(quote) => Some(quote),
            Mark::Tool(tool) => Some(&tool.quote),
            _ => None,
        };
        LeafView {
            pointer: leaf.pointer.clone(),
            mark: leaf.mark.word(),
            label: leaf.mark.label(),
            message: quote.map(|quote| quote.message),
            span: quote.and_then(|quote| quote.span),
            words: quote
                .map(|quote| clip(&quote.words, 200).to_string())
                .filter(|words| !words.is_empty()),
            explanation: leaf.mark.explanation(),
        }
    });
    ProvenanceView {
        verdict: provenance.verdict(),
        counts: provenance.counts(),
        partial: provenance.is_partial,
        leaves: leaves.collect(),
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
