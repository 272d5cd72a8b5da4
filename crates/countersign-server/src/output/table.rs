//! Columns that stand under each other, for texts of any script.

use clap::builder::styling::Style;
use unicode_width::UnicodeWidthStr as _;

use super::style::{STRONG, paint};

/// Between two columns.
const GAP: usize = 2;
/// The last column is never squeezed below this.
const NARROWEST: usize = 20;

/// One cell: safe text and its style.
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A plain cell.
    pub fn new(text: impl Into<String>) -> Cell {
        Cell::styled(text, Style::new())
    }

    /// A cell in a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        let text = text.into();
        Cell { text, style }
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
            *widest = cell.text.width().max(*widest);
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
                Some(room) => fit(&cell.text, room),
                None => cell.text,
            };
            let padding = if is_last {
                0
            } else {
                width.saturating_sub(shown.width()) + GAP
            };
            text.push_str(&paint(cell.style, &shown));
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
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![
            [Cell::new("日本"), Cell::new("one")],
            [Cell::new("a"), Cell::new("a very long text that does not fit")],
        ];
        let table = anstream::adapter::strip_str(&render(["name", "text"], rows, Some(26))).to_string();
        assert_eq!(table, "name  text\n日本  one\na     a very long text th…\n");
    }
}
