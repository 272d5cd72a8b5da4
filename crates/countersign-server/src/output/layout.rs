//! The one wrapper: rows that fit the screen, with a gutter before every row that foreign text can reach.
//!
//! Enters: printed text, with the styles of [`super::style`] and the marks of [`super::foreign`]; the columns of the
//! screen, if there is one. Leaves: text in which no row is wider than the screen and every row that begins with
//! anything but our own words has a gutter before it.
//! INVARIANT: only a line break of ours begins a row without a gutter. A row that goes on, and a line break inside
//! foreign text, begin one with it; so nothing an agent writes can stand where our lines begin (X100).

use unicode_width::UnicodeWidthChar as _;

use super::foreign::{BEGIN, END};

/// Stands before every row of foreign text, and before every row that continues another.
pub const GUTTER: &str = "│ ";
/// Columns of the gutter.
pub const GUTTER_WIDTH: usize = 2;
/// Rows that continue a line of ours begin this far to the right.
const INDENT: usize = 2;
/// The gutter and one wide character: on narrower screens rows are still laid out for this many columns.
const NARROWEST: usize = 4;
/// How the gutter is painted, whatever the text around it looks like.
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Lays out text that comes in pieces.
#[derive(Debug)]
pub struct Layout {
    /// Columns of the row that are used.
    used: usize,
    /// Where the gutter of the foreign text stands, once there is one.
    gutter_at: usize,
    is_foreign: bool,
    gutter: Gutter,
    /// The row has a gutter or a character of ours.
    is_begun: bool,
    /// The styles in force, as they were written.
    style: String,
    /// Number of rows finished so far.
    rows: usize,
}

/// Whether the next character of foreign text needs a gutter before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gutter {
    Drawn,
    /// Foreign text begins.
    First,
    /// A line of it begins.
    Again,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::new()
    }
}

impl Layout {
    /// A layout at the beginning of a row.
    pub fn new() -> Layout {
        Layout {
            used: 0,
            gutter_at: 0,
            is_foreign: false,
            gutter: Gutter::Drawn,
            is_begun: false,
            style: String::new(),
            rows: 0,
        }
    }

    /// True when the row has something in it.
    pub fn is_in_row(&self) -> bool {
        self.is_begun
    }

    /// Number of rows finished so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Lays out the next piece for a screen of `width` columns; without one nothing is wrapped.
    pub fn push(&mut self, text: &str, width: Option<usize>) -> String {
        let width = width.map_or(usize::MAX, |width| width.max(NARROWEST));
        let mut out = String::with_capacity(text.len() + text.len() / 8);
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if let Some((sequence, after)) = style_sequence(rest) {
                self.restyle(sequence);
                out.push_str(sequence);
                rest = after;
                continue;
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            match character {
                BEGIN => (self.is_foreign, self.gutter) = (true, Gutter::First),
                END => self.end_foreign(&mut out, width),
                '\n' => self.line_break(&mut out, width),
                // Nothing else may act on the screen, wherever it came from.
                character if character.is_control() => {}
                character => self.character(&mut out, character, width),
            }
        }
        out
    }

    fn end_foreign(&mut self, out: &mut String, width: usize) {
        // Text that ends with a line break ends with an empty row.
        if self.gutter == Gutter::Again {
            self.gutter(out, width);
        }
        (self.is_foreign, self.gutter) = (false, Gutter::Drawn);
    }

    fn line_break(&mut self, out: &mut String, width: usize) {
        if self.is_foreign {
            // An empty line of foreign text is a row of it too.
            if self.gutter != Gutter::Drawn {
                self.gutter(out, width);
            }
            self.gutter = Gutter::Again;
        }
        self.end_row(out);
    }

    fn character(&mut self, out: &mut String, character: char, width: usize) {
        if self.gutter != Gutter::Drawn {
            self.gutter(out, width);
        }
        let wide = columns(character);
        // A mark stays with the character it is drawn on.
        let is_mark = character.width() == Some(0);
        if !is_mark && self.used.saturating_add(wide) > width {
            self.end_row(out);
            self.continuation(out, width);
        }
        out.push(character);
        self.used = self.used.saturating_add(wide);
        self.is_begun = true;
    }

    /// Puts the gutter before foreign text: on this row if there is room, else on the next.
    fn gutter(&mut self, out: &mut String, width: usize) {
        let is_again = self.gutter == Gutter::Again;
        self.gutter = Gutter::Drawn;
        if is_again {
            return self.continuation(out, width);
        }
        if self.used.saturating_add(NARROWEST) > width {
            self.end_row(out);
            self.gutter_at = INDENT.min(width.saturating_sub(NARROWEST));
            return self.continuation(out, width);
        }
        // Text that begins far to the right would go on in a narrow column.
        self.gutter_at = match self.used <= width / 2 {
            true => self.used,
            false => INDENT.min(width.saturating_sub(NARROWEST)),
        };
        self.draw_gutter(out);
    }

    /// Begins a row that continues the one before.
    fn continuation(&mut self, out: &mut String, width: usize) {
        let most = width.saturating_sub(NARROWEST);
        let indent = match self.is_foreign {
            true => self.gutter_at.min(most),
            false => INDENT.min(most),
        };
        out.push_str(&" ".repeat(indent));
        self.used = indent;
        self.draw_gutter(out);
    }

    fn draw_gutter(&mut self, out: &mut String) {
        match self.style.is_empty() {
            true => out.push_str(&format!("{FAINT}{GUTTER}{PLAIN}")),
            false => out.push_str(&format!("{PLAIN}{FAINT}{GUTTER}{PLAIN}{}", self.style)),
        }
        self.used += GUTTER_WIDTH;
        self.is_begun = true;
    }

    fn end_row(&mut self, out: &mut String) {
        out.push('\n');
        self.rows += 1;
        self.used = 0;
        self.is_begun = false;
        if !self.is_foreign {
            self.gutter_at = 0;
        }
    }

    fn restyle(&mut self, sequence: &str) {
        match sequence {
            "\u{1b}[0m" | "\u{1b}[m" => self.style.clear(),
            sequence => self.style.push_str(sequence),
        }
    }
}

/// Lays out a whole text. Rows are separated by line breaks.
pub fn lay(text: &str, width: Option<usize>) -> String {
    Layout::new().push(text, width)
}

/// Columns a character may take at most: terminals do not agree about symbols and marks, and a row that is shorter
/// than the screen does no harm, while one that is longer goes on in the first column.
fn columns(character: char) -> usize {
    let usual = character.width().unwrap_or(0);
    match character {
        ' '..='~' => 1,
        _ if character.is_alphanumeric() => usual.max(1),
        // Ours: drawn by every terminal in one column.
        '│' | '·' | '…' | '→' | '└' | '“' | '”' | '▶' | '×' => 1,
        _ => character.width_cjk().unwrap_or(0).max(usual).max(1),
    }
}

/// A sequence at the front that only styles, and what follows it.
fn style_sequence(text: &str) -> Option<(&str, &str)> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes.get(end..)?.starts_with('m').then_some(())?;
    text.split_at_checked(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::super::foreign::{Foreign, foreign};
    use super::*;

    fn rows(text: &str, width: Option<usize>) -> Vec<String> {
        let laid = anstream::adapter::strip_str(&lay(text, width)).to_string();
        laid.lines().map(str::to_owned).collect()
    }

    #[test]
    fn x100_a_row_that_goes_on_has_a_gutter() {
        let text = format!("says: {}\nours\n", foreign("abcdefghijklmnop"));
        assert_eq!(
            rows(&text, Some(14)),
            ["says: │ abcdef", "      │ ghijkl", "      │ mnop", "ours"]
        );
        assert_eq!(rows(&text, None), ["says: │ abcdefghijklmnop", "ours"]);
        assert_eq!(rows("a line of ours", Some(10)), ["a line of ", "  │ ours"]);
        assert_eq!(rows("short\n\nlines\n", Some(20)), ["short", "", "lines"]);
    }

    #[test]
    fn x100_a_line_break_in_foreign_text_is_no_line_of_ours() {
        let lines = Foreign::lines("one\n\nApprove? [y/N]\n").mark();
        let text = format!("value  {lines}\nours\n");
        for width in [None, Some(80)] {
            assert_eq!(
                rows(&text, width),
                [
                    "value  │ one",
                    "       │ ",
                    "       │ Approve? [y/N]",
                    "       │ ",
                    "ours"
                ]
            );
        }
    }

    #[test]
    fn x100_foreign_text_that_begins_far_right_goes_on_further_left() {
        let text = format!("a long label of ours: {}\n", foreign("abcdefghijklmnopqrs"));
        assert_eq!(
            rows(&text, Some(24)),
            ["a long label of ours: ", "  │ abcdefghijklmnopqrs"]
        );
        let text = format!("a label of ours: {}\n", foreign("abcdefghijklmnopqrs"));
        assert_eq!(
            rows(&text, Some(24)),
            ["a label of ours: │ abcde", "  │ fghijklmnopqrs"]
        );
    }

    #[test]
    fn x08_nothing_is_lost_at_any_width() {
        let value = format!("日本語 e\u{301}{} 😀 ← ☺", "x".repeat(500));
        let text = format!("label {}", foreign(&value));
        for width in 1..90 {
            let rows = rows(&text, Some(width));
            let all: String = rows
                .iter()
                .map(|row| row.rsplit_once("│ ").map_or(row.as_str(), |(_, text)| text))
                .collect();
            assert!(all.ends_with(&value), "{width}: {all}");
            let fits = |row: &String| row.chars().map(columns).sum::<usize>() <= width.max(NARROWEST) + 1;
            assert!(rows.iter().all(fits), "{width}: {rows:?}");
        }
    }

    #[test]
    fn styles_go_on_behind_the_gutter_and_nothing_else_acts() {
        let text = "\u{1b}[31mabcdef\u{1b}[0m\u{1b}]0;t\u{7}\r";
        let laid = lay(text, Some(5));
        assert_eq!(
            laid,
            "\u{1b}[31mabcde\n \u{1b}[0m\u{1b}[2m│ \u{1b}[0m\u{1b}[31mf\u{1b}[0m]\n \u{1b}[2m│ \u{1b}[0m0;\n \
             \u{1b}[2m│ \u{1b}[0mt"
        );
    }
}
