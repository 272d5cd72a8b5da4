//! Arrangement of the values of a call: a list of similar objects becomes a table, any other nested object a
//! collapsible group.
//!
//! Input: the values of a call, in their order. Output: sections for the templates, with every value in exactly one of
//! them. Values that nobody stated come first on each level; the rows of a table keep their order.
//! INVARIANT: every section is expanded when the page loads, so nobody approves a value that the page had hidden.

use serde::Serialize;

use super::origin::Marked;
use super::value::CardValue;

/// Maximum nesting depth of groups. Values below it are listed with their full path as name.
const MOST_DEPTH: usize = 5;
/// Maximum number of columns of a table.
const MOST_COLUMNS: usize = 8;
/// Maximum length of a text in a cell of a table, in characters.
const CELL_CHARS: usize = 120;

/// Group of values that are shown together.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Section {
    /// Plain list of named values.
    Values { values: Vec<CardValue> },
    /// Values of a nested object, or of a list whose items have little in common.
    Group {
        name: String,
        /// Number of values.
        count: usize,
        sections: Vec<Section>,
    },
    /// List whose items are the rows of a table.
    Table {
        name: String,
        columns: Vec<Column>,
        rows: Vec<TableRow>,
    },
}

/// Column of a table.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Name of the object member. Empty for list items that are not objects.
    pub name: String,
    /// Provenance mark that all values of the column share. `None` if they have different marks.
    pub mark: Option<Marked>,
}

/// Row of a table.
#[derive(Debug, Serialize)]
pub struct TableRow {
    /// Position in the list, counted from 1.
    pub number: usize,
    /// Values in the order of the columns. `None` if the item has no such member.
    pub cells: Vec<Option<CardValue>>,
}

impl Section {
    /// Returns the values in this section.
    pub fn values(&self) -> Vec<&CardValue> {
        match self {
            Section::Values { values } => values.iter().collect(),
            Section::Group { sections, .. } => sections.iter().flat_map(Section::values).collect(),
            Section::Table { rows, .. } => rows.iter().flat_map(|row| row.cells.iter().flatten()).collect(),
        }
    }

    /// Returns two counts: the values outside tables, and the lines that the section takes on the card.
    pub fn height(&self) -> (usize, usize) {
        match self {
            Section::Values { values } => (values.len(), values.len()),
            Section::Group { sections, .. } => sections
                .iter()
                .map(Section::height)
                .fold((0, 1), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
            Section::Table { rows, .. } => (0, 1 + rows.len()),
        }
    }
}

/// Value with its path, split at the slashes. Slashes inside keys are escaped as `~1`, so a slash always separates
/// segments.
struct Item {
    path: Vec<String>,
    value: CardValue,
}

impl Item {
    fn segment(&self, depth: usize) -> &str {
        self.path.get(depth).map_or("", String::as_str)
    }

    fn name_from(&self, depth: usize) -> String {
        self.path.get(depth..).unwrap_or_default().join("/")
    }

    /// Returns the value, named by the part of its path from `depth` on.
    fn into_value(mut self, depth: usize) -> CardValue {
        self.value.name = self.name_from(depth);
        self.value
    }
}

/// Arranges values into sections. The values have to be in the order of the arguments.
pub fn arrange(values: Vec<CardValue>) -> Vec<Section> {
    let items = values.into_iter().map(|value| Item {
        path: value.name.split('/').map(str::to_owned).collect(),
        value,
    });
    level(items.collect(), 0, MOST_DEPTH)
}

/// One value, or a section of several.
enum Part {
    Value(Box<CardValue>),
    Section(Section),
}

impl Part {
    fn prominence(&self) -> u8 {
        match self {
            Part::Value(value) => value.prominence,
            Part::Section(section) => {
                let values = section.values();
                values.iter().map(|value| value.prominence).max().unwrap_or(0)
            }
        }
    }
}

/// Arranges the values of one object. `depth` is the length of the object's own path, `room` the number of further
/// levels that may be grouped.
fn level(items: Vec<Item>, depth: usize, room: usize) -> Vec<Section> {
    let mut parts: Vec<Part> = Vec::new();
    for members in runs(items, depth) {
        match <[Item; 1]>::try_from(members) {
            Ok([item]) => parts.push(Part::Value(Box::new(item.into_value(depth)))),
            Err(members) if room == 0 => {
                let values = members.into_iter().map(|item| item.into_value(depth));
                parts.extend(values.map(|value| Part::Value(Box::new(value))));
            }
            Err(members) => parts.push(Part::Section(nested(members, depth, room))),
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.prominence()));
    let mut sections: Vec<Section> = Vec::new();
    for part in parts {
        match (part, sections.last_mut()) {
            (Part::Value(value), Some(Section::Values { values })) => values.push(*value),
            (Part::Value(value), _) => sections.push(Section::Values { values: vec![*value] }),
            (Part::Section(section), _) => sections.push(section),
        }
    }
    sections
}

/// Splits items into runs with the same segment at `depth`.
fn runs(items: Vec<Item>, depth: usize) -> Vec<Vec<Item>> {
    let mut runs: Vec<Vec<Item>> = Vec::new();
    for item in items {
        match runs.last_mut() {
            Some(run)
                if run
                    .first()
                    .is_some_and(|first| first.segment(depth) == item.segment(depth)) =>
            {
                run.push(item);
            }
            _ => runs.push(vec![item]),
        }
    }
    runs
}

/// Makes a section of several values that have the segment at `depth` in common.
fn nested(items: Vec<Item>, depth: usize, room: usize) -> Section {
    let shared = |at: usize| {
        let first = items.first().map_or("", |item| item.segment(at));
        items
            .iter()
            .all(|item| item.path.len() > at + 1 && item.segment(at) == first)
    };
    let mut below = depth + 1;
    while shared(below) {
        below += 1;
    }
    let name = items.first().and_then(|item| item.path.get(depth..below));
    let name = name.unwrap_or_default().join("/");
    let is_list = items.iter().all(|item| is_index(item.segment(below)));
    match Shape::of(&items, below).filter(|_| is_list) {
        Some(shape) => shape.table(name, items, below),
        None => Section::Group {
            name,
            count: items.len(),
            sections: level(items, below, room - 1),
        },
    }
}

/// Returns true if the segment is the index of a list item. Object keys that are numbers are quoted, so they do not
/// match.
fn is_index(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// Columns of a table.
struct Shape {
    columns: Vec<String>,
}

impl Shape {
    /// Returns the columns for a list whose items have their index at `depth`. `None` if the list is not suited for a
    /// table: too many columns, a value too long, only one row, or too many empty cells.
    fn of(items: &[Item], depth: usize) -> Option<Shape> {
        let mut columns: Vec<String> = Vec::new();
        let mut rows = 0;
        let mut last = None;
        for item in items {
            let name = item.name_from(depth + 1);
            if !columns.contains(&name) {
                columns.push(name);
            }
            if columns.len() > MOST_COLUMNS || !fits_cell(&item.value) {
                return None;
            }
            if last != Some(item.segment(depth)) {
                rows += 1;
                last = Some(item.segment(depth));
            }
        }
        let is_mixed = columns.len() > 1 && columns.iter().any(String::is_empty);
        // A table with many holes is harder to read than a list.
        let is_dense = items.len() * 5 >= rows * columns.len() * 3;
        (rows > 1 && !is_mixed && is_dense).then_some(Shape { columns })
    }

    fn table(self, name: String, items: Vec<Item>, depth: usize) -> Section {
        let mut rows: Vec<TableRow> = Vec::new();
        for (number, run) in (1..).zip(runs(items, depth)) {
            let mut cells: Vec<Option<CardValue>> = self.columns.iter().map(|_| None).collect();
            for item in run {
                let name = item.name_from(depth + 1);
                let at = self.columns.iter().position(|column| *column == name);
                if let Some(cell) = at.and_then(|at| cells.get_mut(at)) {
                    *cell = Some(item.into_value(depth + 1));
                }
            }
            rows.push(TableRow { number, cells });
        }
        let columns = columns(self.columns, rows.iter_mut().map(|row| row.cells.as_mut_slice()));
        Section::Table { name, columns, rows }
    }
}

/// Returns true if a value is complete, has no line breaks and is short enough for a table cell.
pub fn fits_cell(value: &CardValue) -> bool {
    value.whole.is_none()
        && value.size.is_none()
        && !value.text.contains('\n')
        && value.text.chars().count() <= CELL_CHARS
}

/// Creates columns. A mark that all values of a column share moves from the cells to the column.
pub fn columns<'a>(
    names: Vec<String>,
    rows: impl Iterator<Item = &'a mut [Option<CardValue>]>,
) -> Vec<Column> {
    let mut rows: Vec<_> = rows.collect();
    let column = |(at, name): (usize, String)| {
        let mut marks = rows
            .iter()
            .filter_map(|cells| Some(cells.get(at)?.as_ref()?.mark.clone()));
        let first = marks.next().flatten();
        let mark = first.filter(|first| marks.all(|mark| mark.as_ref() == Some(first)));
        if mark.is_some() {
            let cells = rows.iter_mut().filter_map(|cells| cells.get_mut(at)?.as_mut());
            cells.for_each(|cell| cell.mark = None);
        }
        Column { name, mark }
    };
    names.into_iter().enumerate().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::card::value::{Measure, values};
    use countersign::policy::Policy;

    /// Draws sections as text: a table as its columns and rows, a group indented.
    fn drawn(sections: &[Section]) -> String {
        let mut text = String::new();
        for section in sections {
            match section {
                Section::Values { values } => {
                    for value in values {
                        text.push_str(&format!("{}={}\n", value.name, value.text));
                    }
                }
                Section::Group {
                    name,
                    count,
                    sections,
                } => {
                    let inner = drawn(sections).replace('\n', "\n  ");
                    text.push_str(&format!("{name} ({count})\n  {}\n", inner.trim_end()));
                }
                Section::Table { name, columns, rows } => {
                    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                    text.push_str(&format!("{name}: {}\n", names.join("|")));
                    for row in rows {
                        let cells = row
                            .cells
                            .iter()
                            .map(|cell| cell.as_ref().map_or("", |cell| &cell.text));
                        let cells: Vec<&str> = cells.collect();
                        text.push_str(&format!("{}. {}\n", row.number, cells.join("|")));
                    }
                }
            }
        }
        text
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let rows = Policy::empty().table("t", json.as_bytes(), &[]);
        let all = values(rows, json.as_bytes(), None, &[], Measure::FULL);
        assert_eq!(drawn(&all.sections), expected, "{json}");
    }

    #[test]
    fn a_list_of_like_objects_is_a_table() {
        check(
            r#"{"p":[{"id":1,"at":{"x":2}},{"id":3,"at":{"x":4}}],"dry":false}"#,
            "p: id|at/x\n1. 1|2\n2. 3|4\ndry=false\n",
        );
        check(r#"{"ids":["a","b"]}"#, "ids: \n1. a\n2. b\n");
        check(
            r#"{"p":[{"id":1,"n":2},{"id":3,"m":4}]}"#,
            "p: id|n|m\n1. 1|2|\n2. 3||4\n",
        );
    }

    #[test]
    fn other_nested_values_are_groups() {
        check(
            r#"{"a":{"b":{"x":1,"y":2}},"c":{"d":3}}"#,
            "a/b (2)\n  x=1\n  y=2\nc/d=3\n",
        );
        check(r#"{"p":[{"id":1,"n":2}]}"#, "p/0 (2)\n  id=1\n  n=2\n");
        check(r#"{"p":[1,{"id":2}]}"#, "p (2)\n  0=1\n  1/id=2\n");
        check(r#"{"p":{"0":1,"1":2}}"#, "p (2)\n  \"0\"=1\n  \"1\"=2\n");
        check(
            r#"{"p":[{"a":"x\ny"},{"a":"z"}]}"#,
            "p (2)\n  0/a=x\ny\n  1/a=z\n".replace("x\ny", "x\n  y").as_str(),
        );
        let deep = r#"{"a":{"z":1,"b":{"z":1,"c":{"z":1,"d":{"z":1,"e":{"z":1,"f":{"z":1,"g":2}}}}}}}"#;
        let rows = Policy::empty().table("t", deep.as_bytes(), &[]);
        let all = values(rows, deep.as_bytes(), None, &[], Measure::FULL);
        assert!(drawn(&all.sections).contains("f/g=2"), "{}", drawn(&all.sections));
    }

    #[test]
    fn x07_every_value_is_in_one_section() {
        for json in [
            r#"{"a":[{"x":1,"y":[2,3]},{"x":4,"y":[5]}],"b":{"c":[[6,7],[8,9]],"d":{}},"e":[],"f~/g":10}"#,
            r#"{"a":[{"x":1},[2],3,{}],"":{"":{"":4,"x":5}}}"#,
        ] {
            let rows = Policy::empty().table("t", json.as_bytes(), &[]);
            let mut expected: Vec<String> = rows.iter().map(|row| row.value.clone()).collect();
            let all = values(rows, json.as_bytes(), None, &[], Measure::FULL);
            let mut found: Vec<String> = all.all().iter().map(|value| value.text.clone()).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{json}");
        }
    }
}
