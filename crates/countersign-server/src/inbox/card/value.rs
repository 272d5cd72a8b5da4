//! One argument on a card: its complete text or, if that is too long, its size, beginning and end.
//!
//! Input: the table rows from the policy, and the exact bytes they came from. Output: text with all special characters
//! escaped. HTML is escaped later, by the templates.

use std::collections::HashMap;

use countersign::display::{self, clip, clip_value, escape, one_line, with_line_breaks};
use countersign::json::{Kind, Leaf, leaves};
use countersign::provenance::Marks;
use countersign::summary::Row;
use serde::Serialize;

use super::origin::Marked;
use super::section::{Section, arrange};
use crate::view::ChangeView;

/// Maximum number of lines. Texts with more lines are shown on a single line, and can be expanded on the page of one
/// approval.
const MOST_LINES: usize = 40;
/// Characters shown of a cut value whose full text can be expanded.
const HEAD_CHARS: usize = 300;
/// Maximum length of a previous value, in characters.
const WAS_CHARS: usize = 300;

/// How much of the arguments a card shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Maximum number of values.
    pub rows: usize,
    /// Approximate length, in characters, to which longer values are cut.
    pub chars: usize,
    /// Whether cut values also come with their full text, to be expanded.
    pub with_whole: bool,
    /// Maximum number of values that are arranged in tables and groups. With more values, the card lists the first ones
    /// without arranging them.
    arranged: usize,
    /// Maximum number of lines, including the rows of tables.
    lines: usize,
}

impl Measure {
    /// Short form, for the list.
    pub const LIST: Measure = Measure {
        rows: 8,
        chars: 240,
        with_whole: false,
        arranged: 160,
        lines: 24,
    };
    /// Complete form, for the page of one approval.
    pub const FULL: Measure = Measure {
        rows: usize::MAX,
        chars: 1_000,
        with_whole: true,
        arranged: usize::MAX,
        lines: usize::MAX,
    };

    /// Returns true if the sections fit on the card: neither too many values nor too many lines.
    fn has_room_for(self, sections: &[Section]) -> bool {
        let heights = sections.iter().map(Section::height);
        let (values, lines) = heights.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        values <= self.rows && lines <= self.lines
    }
}

/// One value of a call, as text for the card.
#[derive(Clone, Debug, Serialize)]
pub struct CardValue {
    /// Prominence of the provenance mark, from 5 for a value that nobody stated to 0 for one that the person gave.
    #[serde(skip)]
    pub prominence: u8,
    /// JSON pointer without its first slash. Within a section, only the part of the pointer below the section.
    pub name: String,
    pub text: String,
    /// Full size, if `text` is cut.
    pub size: Option<String>,
    /// Full text, if `text` is cut and can be expanded.
    pub whole: Option<String>,
    /// True for a secret; `text` is then only a placeholder.
    pub hidden: bool,
    /// True for an empty value.
    pub empty: bool,
    /// Warnings about characters that are easy to overlook.
    pub warnings: Vec<String>,
    /// Provenance mark. `None` if the value's origin was not traced.
    pub mark: Option<Marked>,
    /// Previous value, if different: the current one in the external system, or the proposed one if a person edited it.
    pub was: Option<String>,
}

/// Values of one call.
#[derive(Debug, Default, Serialize)]
pub struct Values {
    pub sections: Vec<Section>,
    /// Number of values not shown.
    pub more: usize,
    /// True if some value, or part of one, is neither shown nor expandable.
    pub is_partial: bool,
    /// True if any value is secret.
    pub has_secret: bool,
    /// True if the values have provenance marks.
    pub is_traced: bool,
    /// Values that would be removed, or that a person removed.
    pub gone: Vec<RemovedValue>,
}

/// Value that the call, or a person's edit of it, removes.
#[derive(Debug, Serialize)]
pub struct RemovedValue {
    pub name: String,
    pub was: String,
}

impl Values {
    /// Returns all values that are shown.
    pub fn all(&self) -> Vec<&CardValue> {
        self.sections.iter().flat_map(Section::values).collect()
    }
}

/// Converts rows of `arguments` to values for the card, with their previous values from `changes`. Values that the
/// person did not state come first.
pub fn values(
    mut rows: Vec<Row>,
    arguments: &[u8],
    marks: Option<&Marks<'_>>,
    changes: &[ChangeView],
    measure: Measure,
) -> Values {
    let leaves = match rows.iter().any(|row| needs_text(row, measure)) {
        true => leaves(arguments),
        false => Vec::new(),
    };
    let leaves: HashMap<_, _> = leaves.iter().map(|leaf| (escape(&leaf.pointer), leaf)).collect();
    let previous = previous_values(changes);
    let card_value = |row: &Row| CardValue {
        mark: marks.map(|marks| Marked::new(marks.of(row), marks.voucher()).about(marks.name_of(row))),
        prominence: marks.map_or(0, |marks| marks.of(row).prominence()),
        was: previous
            .get(row.pointer.as_str())
            .filter(|_| !row.hidden)
            .cloned(),
        ..show(row, leaves.get(row.pointer.as_str()).copied(), measure)
    };
    let is_few = rows.len() <= measure.arranged;
    let arranged = is_few.then(|| arrange(rows.iter().map(card_value).collect()));
    let arranged = arranged.filter(|sections| measure.has_room_for(sections));
    let has_secret = rows.iter().any(|row| row.hidden);
    let sections = arranged.unwrap_or_else(|| {
        if let Some(marks) = marks {
            marks.loudest_first(&mut rows);
        }
        let values = rows.iter().take(measure.rows).map(card_value).collect();
        vec![Section::Values { values }]
    });
    let mut values = Values {
        has_secret,
        is_traced: marks.is_some(),
        gone: gone(changes),
        sections,
        ..Values::default()
    };
    let is_cut = |value: &&CardValue| value.size.is_some() && value.whole.is_none();
    let shown = values.all();
    let (is_cut, count) = (shown.iter().any(is_cut), shown.len());
    values.more = rows.len().saturating_sub(count);
    values.is_partial = values.more > 0 || is_cut;
    values
}

/// Returns the previous values, by escaped pointer. Values that are new or removed are not included.
fn previous_values(changes: &[ChangeView]) -> HashMap<String, String> {
    let value = |change: &ChangeView| {
        let was = change.was.as_deref().filter(|_| change.is.is_some())?;
        Some((escape(&change.pointer).into_owned(), shown_before(was)))
    };
    changes.iter().filter_map(value).collect()
}

/// Returns the values that are removed.
fn gone(changes: &[ChangeView]) -> Vec<RemovedValue> {
    let removed = |change: &ChangeView| {
        let was = change.was.as_deref().filter(|_| change.is.is_none())?;
        Some(RemovedValue {
            name: name(&escape(&change.pointer)),
            was: shown_before(was),
        })
    };
    changes.iter().filter_map(removed).collect()
}

fn shown_before(text: &str) -> String {
    with_line_breaks(&clip(text, WAS_CHARS).to_string()).into_owned()
}

/// Returns true if the text has to be taken from the arguments, because the row's text is cut, too long, or contains
/// line breaks.
fn needs_text(row: &Row, measure: Measure) -> bool {
    !row.hidden && (row.clipped || row.value.len() > measure.chars || row.value.contains("\\u{a"))
}

fn show(row: &Row, leaf: Option<&Leaf<'_>>, measure: Measure) -> CardValue {
    let text = leaf.filter(|_| needs_text(row, measure)).map(|leaf| leaf.text());
    let mut shown = CardValue {
        prominence: 0,
        name: name(&row.name),
        text: one_line(&row.value).into_owned(),
        // INVARIANT: a cut value is marked as cut, even if its full text cannot be found.
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
        let (clipped, is_clipped) = clip_value(row.kind, &text, measure.chars);
        let lines = (row.kind == Kind::String && text.contains('\n')).then(|| display::lines(&text));
        let is_tall = lines
            .as_ref()
            .is_some_and(|lines| lines.split('\n').count() > MOST_LINES);
        let is_folded = measure.with_whole && (is_clipped || is_tall);
        shown.size = (is_clipped || is_folded).then(|| size(row.bytes));
        (shown.text, shown.whole) = match (lines, is_folded) {
            (lines, true) => (
                one_line(&clip_value(row.kind, &text, HEAD_CHARS).0).into_owned(),
                Some(lines.unwrap_or_else(|| display::value(row.kind, &text))),
            ),
            (Some(lines), false) if !is_clipped && !is_tall => (lines, None),
            (_, false) => (one_line(&clipped).into_owned(), None),
        };
    }
    shown
}

/// Returns a warning if the value has leading or trailing spaces, which cannot be seen; otherwise `None`.
fn blanks(row: &Row) -> Option<String> {
    // Values with outer spaces are quoted in the table.
    let text = row
        .value
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let text = text.unwrap_or(&row.value);
    let is_outer = text.starts_with(' ') || text.ends_with(' ');
    match text.trim().is_empty() {
        _ if !is_outer || row.hidden => None,
        true => Some("nothing but blanks".to_owned()),
        false => Some("begins or ends with a blank".to_owned()),
    }
}

/// Strips the first slash of a JSON pointer. Slashes inside keys are escaped as `~1`, so the name stays unambiguous.
fn name(name: &str) -> String {
    one_line(name.strip_prefix('/').unwrap_or(name)).into_owned()
}

/// Formats a size: `16,384 bytes`.
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
        values(rows, json.as_bytes(), None, &[], measure)
    }

    #[test]
    fn x08_a_cut_value_says_its_size_and_comes_whole_where_it_can_be_opened() {
        let json = format!(r#"{{"body":"hello{}rm -rf /"}}"#, " ".repeat(4000));
        let blanks = shown(&json, Measure::LIST);
        assert_eq!(blanks.all()[0].text, "hello\\u{20×4000}rm -rf /");
        assert!(!blanks.is_partial);
        let json = format!(r#"{{"body":"{}rm -rf /"}}"#, "ab".repeat(8000));
        let list = shown(&json, Measure::LIST);
        assert!(list.is_partial);
        assert_eq!(list.all()[0].size.as_deref(), Some("16,008 bytes"));
        assert!(list.all()[0].text.ends_with("rm -rf /"), "the tail is shown");
        let full = shown(&json, Measure::FULL);
        assert!(!full.is_partial);
        assert!(full.all()[0].whole.as_ref().unwrap().len() == 16_008);
    }

    #[test]
    fn x08_empty_lines_hide_nothing() {
        let json = format!(r#"{{"body":"hello{}rm -rf /"}}"#, "\\n".repeat(4000));
        let full = shown(&json, Measure::FULL);
        assert_eq!(full.all()[0].text, "hello\\u{a×4000}\nrm -rf /");
        let json = format!(r#"{{"body":"hello{}rm -rf /"}}"#, " \\n".repeat(100));
        let full = shown(&json, Measure::FULL);
        assert!(full.all()[0].whole.as_ref().unwrap().contains("\n\\u{20}\n"));
        let list = shown(&json, Measure::LIST);
        assert!(list.is_partial);
        let json = r#"{"body":"Dear Ana,\n\nthank you.\nBo"}"#;
        assert_eq!(
            shown(json, Measure::LIST).all()[0].text,
            "Dear Ana,\n\nthank you.\nBo"
        );
    }

    #[test]
    fn x08_blanks_at_an_end_are_told() {
        let warning = |json: &str| shown(json, Measure::LIST).all()[0].warnings.clone();
        assert_eq!(warning(r#"{"a":"x "}"#), ["begins or ends with a blank"]);
        assert_eq!(warning(r#"{"a":"  "}"#), ["nothing but blanks"]);
        assert!(warning(r#"{"a":"x y"}"#).is_empty());
        assert!(warning(r#"{"a":""}"#).is_empty());
    }

    /// Returns the name and the text as the template prints them.
    fn printed(value: &CardValue) -> (String, String) {
        let text = value.whole.clone().unwrap_or_else(|| value.text.clone());
        (value.name.clone(), text)
    }

    #[test]
    fn x56_different_values_never_look_the_same() {
        let values = [
            "1",
            "1.0",
            "\"1\"",
            "\"1.0\"",
            "false",
            "\"false\"",
            "null",
            "\"null\"",
            "\"\"",
            "\"(empty)\"",
            "\"empty\"",
            "[]",
            "\"[]\"",
            "{}",
            "\"{}\"",
            "\" \"",
            "\"x\"",
            "\"x \"",
            "\" x\"",
            "\"\\\"x\\\"\"",
            "\"\\\"1\\\"\"",
            "[1]",
            "[\"1\"]",
            "{\"0\":1}",
            "{\"0\":\"1\"}",
            "{\"a b\":1}",
            "{\"\":1}",
            "\"a\\nb\"",
            "\"a\\nb\\n\"",
            "\"\\\"a\\nb\\n\\\"\"",
            "\"\\na\\nb\"",
            "\"a\\\\u{a}b\"",
        ];
        let mut seen = HashMap::new();
        for value in values {
            for measure in [Measure::LIST, Measure::FULL] {
                let shown = shown(&format!(r#"{{"a":{value}}}"#), measure);
                let rows: Vec<_> = shown.all().into_iter().map(printed).collect();
                if let Some(other) = seen.insert((measure.rows, rows.clone()), value) {
                    panic!("{value} and {other} look the same: {rows:?}");
                }
            }
        }
    }

    #[test]
    fn x07_values_that_are_not_shown_are_counted() {
        let fields: Vec<String> = (0..40).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let json = format!("{{{}}}", fields.join(","));
        let list = shown(&json, Measure::LIST);
        assert_eq!((list.all().len(), list.more, list.is_partial), (8, 32, true));
        let full = shown(&json, Measure::FULL);
        assert_eq!((full.all().len(), full.more, full.is_partial), (40, 0, false));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(16_384), "16,384 bytes");
    }
}
