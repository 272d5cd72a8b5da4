//! Tables with aligned columns, for text of any script.

use clap::builder::styling::Style;
use unicode_width::UnicodeWidthStr as _;

use super::foreign::Foreign;
use super::layout::GUTTER_WIDTH;
use super::style::{STRONG, paint};

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width of the last column. If the screen has less room, that column moves to a row of its own.
const NARROWEST: usize = 20;
/// Indentation of a last column on its own row.
const BELOW: usize = 2;

/// Cell: text and its style.
pub struct Cell {
    text: Text,
    style: Style,
}

enum Text {
    /// The program's own words, and names chosen by an operator.
    Ours(String),
    /// Untrusted text.
    Foreign(Foreign),
}

impl Cell {
    /// Creates an unstyled cell.
    pub fn new(text: impl Into<String>) -> Cell {
        Cell::styled(text, Style::new())
    }

    /// Creates a styled cell.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        let text = Text::Ours(text.into());
        Cell { text, style }
    }

    /// Creates a cell of untrusted text, which is printed after a gutter.
    pub fn foreign(text: Foreign) -> Cell {
        Cell {
            text: Text::Foreign(text),
            style: Style::new(),
        }
    }

    fn width(&self) -> usize {
        match &self.text {
            Text::Ours(text) => text.width(),
            Text::Foreign(text) => text.width() + GUTTER_WIDTH,
        }
    }

    fn fit(self, room: usize) -> Cell {
        let text = match self.text {
            Text::Ours(text) => Text::Ours(fit(&text, room)),
            Text::Foreign(text) => Text::Foreign(text.fit(room.saturating_sub(GUTTER_WIDTH))),
        };
        Cell { text, ..self }
    }

    fn printed(&self) -> String {
        match &self.text {
            Text::Ours(text) => paint(self.style, text),
            Text::Foreign(text) => paint(self.style, &text.mark()),
        }
    }
}

/// Renders rows below a heading. If `width` is given, the last column is cut with `…` to fit into it, or moves below
/// the others on a narrow screen.
pub fn render<const N: usize>(heading: [&str; N], rows: Vec<[Cell; N]>, width: Option<usize>) -> String {
    let heading = heading.map(|title| Cell::styled(title, STRONG));
    let mut rows = rows;
    rows.insert(0, heading);
    let mut widths = [0usize; N];
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = cell.width().max(*widest);
        }
    }
    let before: usize = widths
        .iter()
        .take(N.saturating_sub(1))
        .map(|width| width + GAP)
        .sum();
    let is_below = width.is_some_and(|width| before + NARROWEST > width);
    let room = width.map(|width| match is_below {
        true => width.saturating_sub(BELOW).max(NARROWEST),
        false => width.saturating_sub(before),
    });
    let mut text = String::new();
    for (number, row) in rows.into_iter().enumerate() {
        for (at, (cell, width)) in row.into_iter().zip(widths).enumerate() {
            let is_last = at + 1 == N;
            if is_last && is_below {
                // The heading of a column on its own row is omitted.
                if number == 0 {
                    break;
                }
                text.truncate(text.trim_end_matches(' ').len());
                text.push_str(&format!("\n{}", " ".repeat(BELOW)));
            }
            let shown = match room.filter(|_| is_last) {
                Some(room) => cell.fit(room),
                None => cell,
            };
            let padding = if is_last {
                0
            } else {
                width.saturating_sub(shown.width()) + GAP
            };
            text.push_str(&shown.printed());
            text.push_str(&" ".repeat(padding));
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// Cuts text to `room` columns, ending with `…` if anything is cut.
pub fn fit(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for character in text.chars() {
        let mut buffer = [0; 4];
        used += character.encode_utf8(&mut buffer).width();
        if used > room {
            break;
        }
        shown.push(character);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::super::layout::lay;
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![
            [Cell::new("日本"), Cell::new("one")],
            [
                Cell::new("a"),
                Cell::foreign(Foreign::new("a very long text that does not fit")),
            ],
        ];
        let table = lay(&render(["name", "text"], rows, Some(26)), Some(26));
        let table = anstream::adapter::strip_str(&table).to_string();
        assert_eq!(table, "name  text\n日本  one\na     │ a very long text …\n");
    }

    #[test]
    fn on_a_narrow_screen_the_last_column_stands_below() {
        let row = || {
            [
                Cell::new("1a2b3c4d"),
                Cell::new("2 of 3 approved"),
                Cell::foreign(Foreign::new("Create contact Maria Garcia, maria@acme.com")),
            ]
        };
        let table = lay(
            &render(["ID", "STATE", "WHAT"], vec![row(), row()], Some(40)),
            Some(40),
        );
        let table = anstream::adapter::strip_str(&table).to_string();
        let each = "1a2b3c4d  2 of 3 approved\n  │ Create contact Maria Garcia, maria@…\n";
        assert_eq!(table, format!("ID        STATE\n{each}{each}"));
    }
}
