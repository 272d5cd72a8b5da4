//! One argument as a card shows it: whole, or with its size, head and tail.
//!
//! Enters: the policy's rows, and the exact bytes they came from. Leaves: text that cannot act on the page.
//! Deliberately absent: HTML; the templates quote.

use std::collections::HashMap;

use countersign::display::{clip, escape};
use countersign::json::{Leaf, leaves};
use countersign::provenance::Marks;
use countersign::summary::Row;
use serde::Serialize;

use super::origin::Marked;
use crate::view::ChangeView;

/// Texts of more lines than this are shown on one.
const MOST_LINES: usize = 40;
/// Of a value that can be opened, so much stands there before it is.
const HEAD_CHARS: usize = 300;
/// Longest text of what stood there before.
const WAS_CHARS: usize = 300;
/// More empty lines than this in a row would push something out of sight.
const MOST_EMPTY_LINES: usize = 2;

/// How much of the arguments is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// At most so many values.
    pub rows: usize,
    /// Longer values are cut to about so many characters.
    pub chars: usize,
    /// Cut values also come whole, to be opened.
    pub with_whole: bool,
}

impl Measure {
    /// On the list: short.
    pub const LIST: Measure = Measure {
        rows: 8,
        chars: 240,
        with_whole: false,
    };
    /// On a page of its own: nothing is left out.
    pub const FULL: Measure = Measure {
        rows: usize::MAX,
        chars: 1_000,
        with_whole: true,
    };
}

/// One value.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Where it stands: its pointer without the first slash.
    pub name: String,
    /// What is shown.
    pub text: String,
    /// Its size, when part of it is not shown.
    pub size: Option<String>,
    /// All of it, when `text` is not.
    pub whole: Option<String>,
    /// A secret, of which `text` is only a mark.
    pub hidden: bool,
    /// Nothing stands there.
    pub empty: bool,
    /// What the eye may miss.
    pub warnings: Vec<String>,
    /// Where it came from, where that was traced.
    pub mark: Option<Marked>,
    /// What stands there now, or stood there before a person changed it, where that is something else.
    pub was: Option<String>,
}

/// The values of one call.
#[derive(Debug, Default, Serialize)]
pub struct Values {
    /// Those that are shown.
    pub shown: Vec<Shown>,
    /// How many are not.
    pub more: usize,
    /// True when anything at all is not shown and cannot be opened right there.
    pub is_partial: bool,
    /// True when one of them is secret.
    pub has_secret: bool,
    /// Each has its mark.
    pub is_traced: bool,
    /// Those that a person took out.
    pub gone: Vec<Gone>,
}

/// A value that is not there any more.
#[derive(Debug, Serialize)]
pub struct Gone {
    pub name: String,
    pub was: String,
}

impl Values {
    /// Adds what stood in the place of values.
    pub fn with_changes(mut self, changes: &[ChangeView]) -> Values {
        for change in changes {
            let name = name(&escape(&change.pointer));
            let was = change.was.as_deref().map(|was| clip(was, WAS_CHARS).to_string());
            match (change.is.is_some(), was) {
                (false, Some(was)) => self.gone.push(Gone { name, was }),
                (_, was) => {
                    let same = self.shown.iter_mut().find(|value| value.name == name);
                    if let Some(value) = same.filter(|value| !value.hidden) {
                        value.was = was;
                    }
                }
            }
        }
        self
    }
}

/// Shows the rows of `arguments`, those first that the person did not state.
pub fn values(mut rows: Vec<Row>, arguments: &[u8], marks: Option<&Marks<'_>>, measure: Measure) -> Values {
    if let Some(marks) = marks {
        marks.loudest_first(&mut rows);
    }
    let leaves = match rows.iter().any(|row| needs_text(row, measure)) {
        true => leaves(arguments),
        false => Vec::new(),
    };
    let leaves: HashMap<_, _> = leaves.iter().map(|leaf| (escape(&leaf.pointer), leaf)).collect();
    let shown: Vec<Shown> = rows
        .iter()
        .take(measure.rows)
        .map(|row| Shown {
            mark: marks.map(|marks| Marked::new(marks.of(row), marks.teller()).about(marks.name_of(row))),
            ..show(row, leaves.get(row.pointer.as_str()).copied(), measure)
        })
        .collect();
    let more = rows.len() - shown.len();
    Values {
        is_partial: more > 0
            || shown
                .iter()
                .any(|value| value.size.is_some() && value.whole.is_none()),
        has_secret: rows.iter().any(|row| row.hidden),
        is_traced: marks.is_some(),
        gone: Vec::new(),
        more,
        shown,
    }
}

/// Whether the row's own text is not what is shown: it is too long, or stands better on several lines.
fn needs_text(row: &Row, measure: Measure) -> bool {
    !row.hidden && (row.clipped || row.value.len() > measure.chars || row.value.contains("\\u{a}"))
}

fn show(row: &Row, leaf: Option<&Leaf<'_>>, measure: Measure) -> Shown {
    let text = leaf.filter(|_| needs_text(row, measure)).map(|leaf| leaf.text());
    let mut shown = Shown {
        name: name(&row.pointer),
        text: row.value.clone(),
        // INVARIANT: what is cut says so, even when its text cannot be found again.
        size: row.clipped.then(|| size(row.bytes)),
        whole: None,
        hidden: row.hidden,
        empty: row.bytes == 0 && !row.hidden,
        warnings: row.warnings.iter().map(ToString::to_string).collect(),
        mark: None,
        was: None,
    };
    shown.warnings.extend(blanks(row));
    if let Some(text) = text {
        let clipped = clip(&text, measure.chars);
        shown.size = clipped.is_clipped().then(|| size(row.bytes));
        shown.text = match (clipped.is_clipped(), measure.with_whole) {
            (true, true) => clip(&text, HEAD_CHARS).to_string(),
            (true, false) => clipped.to_string(),
            (false, _) => lines(&text),
        };
        shown.whole = (clipped.is_clipped() && measure.with_whole).then(|| whole(&text));
    }
    shown
}

/// Blanks at an end cannot be seen.
fn blanks(row: &Row) -> Option<String> {
    let is_outer = row.value.starts_with(' ') || row.value.ends_with(' ');
    match row.value.trim().is_empty() {
        _ if !is_outer || row.hidden => None,
        true => Some("nothing but blanks".to_owned()),
        false => Some("begins or ends with a blank".to_owned()),
    }
}

/// A pointer as a person reads it. Keys that hold a slash are written with `~1`, so nothing becomes ambiguous.
fn name(pointer: &str) -> String {
    match pointer.strip_prefix('/') {
        Some("") => "(no name)".to_owned(),
        Some(name) => name.to_owned(),
        None => pointer.to_owned(),
    }
}

/// Line by line where that is honest; else on one line, with its line breaks written out.
fn lines(text: &str) -> String {
    let count = text.split('\n').count();
    match count > 1 && count <= MOST_LINES && !has_gap(text) {
        true => escaped_lines(text),
        false => escape(text).into_owned(),
    }
}

/// All of a long text. Its lines stay lines, unless a run of empty ones would hide what comes after.
fn whole(text: &str) -> String {
    match has_gap(text) {
        true => escape(text).into_owned(),
        false => escaped_lines(text),
    }
}

fn escaped_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    lines.join("\n")
}

fn has_gap(text: &str) -> bool {
    let mut empty = 0;
    text.split('\n').any(|line| {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        empty > MOST_EMPTY_LINES
    })
}

/// `16,384 bytes`
pub fn size(bytes: usize) -> String {
    let digits = bytes.to_string();
    let mut text = String::with_capacity(digits.len() + 8);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(if bytes == 1 { " byte" } else { " bytes" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign::policy::Policy;

    fn shown(json: &str, measure: Measure) -> Values {
        let rows = Policy::empty().table("t", json.as_bytes(), &[]);
        values(rows, json.as_bytes(), None, measure)
    }

    #[test]
    fn x08_a_cut_value_says_its_size_and_comes_whole_where_it_can_be_opened() {
        let json = format!(r#"{{"body":"hello{}rm -rf /"}}"#, " ".repeat(4000));
        let blanks = shown(&json, Measure::LIST);
        assert_eq!(blanks.shown[0].text, "hello\\u{20×4000}rm -rf /");
        assert!(!blanks.is_partial);
        let json = format!(r#"{{"body":"{}rm -rf /"}}"#, "ab".repeat(8000));
        let list = shown(&json, Measure::LIST);
        assert!(list.is_partial);
        assert_eq!(list.shown[0].size.as_deref(), Some("16,008 bytes"));
        assert!(list.shown[0].text.ends_with("rm -rf /"), "the tail is shown");
        let full = shown(&json, Measure::FULL);
        assert!(!full.is_partial);
        assert!(full.shown[0].whole.as_ref().unwrap().len() == 16_008);
    }

    #[test]
    fn x08_empty_lines_hide_nothing() {
        let json = format!(r#"{{"body":"hello{}rm -rf /"}}"#, "\\n".repeat(4000));
        let full = shown(&json, Measure::FULL);
        assert_eq!(full.shown[0].text, "hello\\u{a×4000}rm -rf /");
        let json = r#"{"body":"Dear Ana,\n\nthank you.\nBo"}"#;
        assert_eq!(
            shown(json, Measure::LIST).shown[0].text,
            "Dear Ana,\n\nthank you.\nBo"
        );
    }

    #[test]
    fn x08_blanks_at_an_end_are_told() {
        let warning = |json: &str| shown(json, Measure::LIST).shown[0].warnings.clone();
        assert_eq!(warning(r#"{"a":"x "}"#), ["begins or ends with a blank"]);
        assert_eq!(warning(r#"{"a":"  "}"#), ["nothing but blanks"]);
        assert!(warning(r#"{"a":"x y"}"#).is_empty());
        assert!(warning(r#"{"a":""}"#).is_empty());
    }

    #[test]
    fn x07_values_that_are_not_shown_are_counted() {
        let fields: Vec<String> = (0..40).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let json = format!("{{{}}}", fields.join(","));
        let list = shown(&json, Measure::LIST);
        assert_eq!((list.shown.len(), list.more, list.is_partial), (8, 32, true));
        let full = shown(&json, Measure::FULL);
        assert_eq!((full.shown.len(), full.more, full.is_partial), (40, 0, false));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(16_384), "16,384 bytes");
    }
}
