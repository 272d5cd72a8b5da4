//! Line wrapping for the terminal, with a gutter before every row that untrusted text can reach.
//!
//! Input: text with the styles of [`super::style`] and the marks of [`super::foreign`], and the width of the screen, if
//! there is one. Output: text in which no row is wider than the screen. The program's own text is wrapped between
//! words, without a gutter; untrusted text is wrapped anywhere.
//!
//! INVARIANT: a row without a gutter starts with the program's own text. Wrapped rows of untrusted or quoted text, and
//! new lines inside untrusted text, start with a gutter, so nothing an agent writes can imitate the beginning of the
//! program's lines (X100).

use unicode_width::UnicodeWidthChar as _;

use super::foreign::{BEGIN, END, QUOTE, UNQUOTE};

/// Prefix of every row of untrusted text, and of every wrapped row of a quotation.
pub const GUTTER: &str = "│ ";
/// Width of the gutter in columns.
pub const GUTTER_WIDTH: usize = 2;
/// Extra indentation of wrapped rows of the program's own text.
const INDENT: usize = 2;
/// Minimum layout width: the gutter and one wide character. Narrower screens are treated as this wide.
const NARROWEST: usize = 4;
/// Style of the gutter, regardless of the surrounding text.
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Wraps text that comes in pieces.
#[derive(Debug)]
pub struct Layout {
    /// Columns used in the current row.
    used: usize,
    /// Column of the gutter of the current untrusted text.
    gutter_at: usize,
    is_foreign: bool,
    /// True inside a quotation, in which a wrapped row may start with untrusted text.
    is_quoted: bool,
    /// Number of spaces at the start of the current line of the program's own text.
    lead: usize,
    /// True after a space and at the start of a row.
    is_between_words: bool,
    gutter: Gutter,
    /// True if anything has been printed in the current row.
    is_begun: bool,
    /// Active style sequences.
    style: String,
    /// Number of finished rows.
    rows: usize,
}

/// Whether the next untrusted character needs a gutter before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gutter {
    Drawn,
    /// No gutter drawn yet, at the start of untrusted text.
    First,
    /// No gutter drawn yet, at the start of a further line of untrusted text.
    Again,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::new()
    }
}

impl Layout {
    /// Creates a layout at the start of a row.
    pub fn new() -> Layout {
        Layout {
            used: 0,
            gutter_at: 0,
            is_foreign: false,
            is_quoted: false,
            lead: 0,
            is_between_words: true,
            gutter: Gutter::Drawn,
            is_begun: false,
            style: String::new(),
            rows: 0,
        }
    }

    /// Returns true if the current row is not empty.
    pub fn is_in_row(&self) -> bool {
        self.is_begun
    }

    /// Returns the number of finished rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Wraps the next piece for a screen of `width` columns. Without a width nothing is wrapped.
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
            let is_mark = matches!(character, BEGIN | END | QUOTE | UNQUOTE);
            if !self.is_foreign && self.is_between_words && !is_mark && !character.is_control() {
                self.begin_word(rest, &mut out, width);
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            match character {
                BEGIN => (self.is_foreign, self.gutter) = (true, Gutter::First),
                END => self.end_foreign(&mut out, width),
                QUOTE => self.is_quoted = true,
                UNQUOTE => self.is_quoted = false,
                '\n' => self.line_break(&mut out, width),
                // Drop all other control characters, wherever they come from.
                character if character.is_control() => {}
                character => self.character(&mut out, character, width),
            }
        }
        out
    }

    /// Starts a new row if the next word of the program's own text does not fit into this one.
    fn begin_word(&mut self, text: &str, out: &mut String, width: usize) {
        let wide = word_width(text);
        let is_first = self.used <= self.indent(width);
        let fits_alone = self.indent(width) + GUTTER_WIDTH + wide <= width;
        if !is_first && fits_alone && self.used.saturating_add(wide) > width {
            self.end_row(out);
            self.continuation(out, width);
        }
    }

    fn end_foreign(&mut self, out: &mut String, width: usize) {
        // After a final line break, show an empty row.
        if self.gutter == Gutter::Again {
            self.gutter(out, width);
        }
        (self.is_foreign, self.gutter) = (false, Gutter::Drawn);
    }

    fn line_break(&mut self, out: &mut String, width: usize) {
        if self.is_foreign {
            // An empty line of untrusted text gets a gutter too.
            if self.gutter != Gutter::Drawn {
                self.gutter(out, width);
            }
            self.gutter = Gutter::Again;
        }
        self.end_row(out);
        self.lead = 0;
    }

    fn character(&mut self, out: &mut String, character: char, width: usize) {
        if self.gutter != Gutter::Drawn {
            self.gutter(out, width);
        }
        let wide = columns(character);
        let is_blank = character == ' ';
        if !self.is_foreign {
            if is_blank && self.used == self.lead {
                self.lead += 1;
            }
            // At the end of a row, the line break replaces the space between words.
            if is_blank && self.used >= width {
                self.is_between_words = true;
                return;
            }
        }
        // Combining marks stay with their base character.
        let is_mark = character.width() == Some(0);
        if !is_mark && self.used.saturating_add(wide) > width {
            self.end_row(out);
            self.continuation(out, width);
        }
        out.push(character);
        self.used = self.used.saturating_add(wide);
        self.is_begun = true;
        self.is_between_words = is_blank;
    }

    /// Draws the gutter before untrusted text: in this row if there is room, else in the next.
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
        // Text that starts far to the right would wrap into a narrow column.
        self.gutter_at = match self.used <= width / 2 {
            true => self.used,
            false => INDENT.min(width.saturating_sub(NARROWEST)),
        };
        self.draw_gutter(out);
    }

    /// Starts a continuation row.
    fn continuation(&mut self, out: &mut String, width: usize) {
        let indent = match self.is_foreign {
            true => self.gutter_at.min(width.saturating_sub(NARROWEST)),
            false => self.indent(width),
        };
        out.push_str(&" ".repeat(indent));
        self.used = indent;
        self.is_between_words = true;
        if self.is_foreign || self.is_quoted {
            self.draw_gutter(out);
        }
    }

    /// Returns the indentation of continuation rows of the program's own text.
    fn indent(&self, width: usize) -> usize {
        let indent = match self.lead <= width / 4 {
            true => self.lead + INDENT,
            false => INDENT,
        };
        indent.min(width.saturating_sub(NARROWEST))
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
        self.is_between_words = true;
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

/// Wraps a complete text for a screen of `width` columns; without a width nothing is wrapped. See [`Layout`] for text
/// that comes in pieces.
pub fn lay(text: &str, width: Option<usize>) -> String {
    Layout::new().push(text, width)
}

/// Returns the number of columns that a character takes at most. Terminals disagree about symbols and marks.
/// Overestimating only makes a row shorter; underestimating would let the row spill into the first column of the next
/// one.
fn columns(character: char) -> usize {
    let usual = character.width().unwrap_or(0);
    match character {
        ' '..='~' => 1,
        _ if character.is_alphanumeric() => usual.max(1),
        // Symbols that the program itself prints; every terminal draws them in one column.
        '│' | '·' | '…' | '→' | '└' | '“' | '”' | '▶' | '×' => 1,
        _ => character.width_cjk().unwrap_or(0).max(usual).max(1),
    }
}

/// Returns the width of the first word, up to a space, a line break or untrusted text.
fn word_width(text: &str) -> usize {
    let (mut wide, mut rest) = (0, text);
    while let Some(character) = rest.chars().next() {
        if let Some((_, after)) = style_sequence(rest) {
            rest = after;
            continue;
        }
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            ' ' | '\n' | BEGIN => break,
            QUOTE | UNQUOTE | END => {}
            character if character.is_control() => {}
            character => wide += columns(character),
        }
    }
    wide
}

/// Splits text into a leading ANSI style sequence and the rest; `None` if the text does not begin with one.
fn style_sequence(text: &str) -> Option<(&str, &str)> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes.get(end..)?.starts_with('m').then_some(())?;
    text.split_at_checked(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::super::foreign::{Foreign, foreign, quoting};
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
        assert_eq!(rows("a line of ours", Some(10)), ["a line of ", "  ours"]);
        assert_eq!(rows("short\n\nlines\n", Some(20)), ["short", "", "lines"]);
    }

    #[test]
    fn our_own_words_are_wrapped_between_words_and_without_a_gutter() {
        assert_eq!(
            rows("  note: one two three four", Some(14)),
            ["  note: one ", "    two three ", "    four"]
        );
        // A word that is wider than the screen is cut.
        assert_eq!(rows("abcdefghijklmnop", Some(10)), ["abcdefghij", "  klmnop"]);
        // Untrusted text inside the program's own text keeps its gutter, and the program's words after it get no
        // gutter.
        let text = format!("one two {} three four five", foreign("abcdefghijkl"));
        assert_eq!(
            rows(&text, Some(16)),
            ["one two │ abcdef", "        │ ghijkl", "  three four ", "  five"]
        );
    }

    #[test]
    fn x100_a_quotation_that_goes_on_has_a_gutter() {
        let text = quoting("there is no approval `Approve? [y/N] yes` here");
        assert_eq!(
            rows(&text, Some(24)),
            ["there is no approval ", "  │ `Approve? [y/N] yes`", "  │ here"]
        );
        // A backtick inside the quoted text does not end the quotation.
        let text = quoting("no approval `a` is Approve? [y/N] `b`");
        let rows = rows(&text, Some(20));
        assert!(rows.iter().skip(1).all(|row| row.starts_with("  │ ")), "{rows:?}");
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
        assert_eq!(laid, "\u{1b}[31mabcde\n f\u{1b}[0m]0;\n t");
    }
}
