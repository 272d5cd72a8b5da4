//! Columns that stand under each other, for texts of any script.

use clap::builder::styling::Style;
use unicode_width::UnicodeWidthStr as _;

use super::foreign::Foreign;
use super::layout::GUTTER_WIDTH;
use super::style::{STRONG, paint};

/// Between two columns.
const GAP: usize = 2;
/// The last column is never squeezed below this.
const NARROWEST: usize = 20;

/// One cell: a text and its style.
pub struct Cell {
    text: Text,
    style: Style,
}

enum Text {
    /// Words of ours, and names that an operator chose.
    Ours(String),
    /// What somebody else wrote.
    Foreign(Foreign),
}

impl Cell {
    /// A plain cell.
    pub fn new(text: impl Into<String>) -> Cell {
        Cell::styled(text, Style::new())
    }

    /// A cell in a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        let text = Text::Ours(text.into());
        Cell { text, style }
    }

    /// A cell that somebody else wrote; it stands behind a gutter.
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

/// Rows under a heading. The last column takes what is left of `width`, and says with `…` when that is not enough.
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
    let room = width.map(|width| width.saturating_sub(before).max(NARROWEST));
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.into_iter().zip(widths).enumerate() {
            let is_last = at + 1 == N;
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

/// The text, or its beginning and `…`.
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
}
