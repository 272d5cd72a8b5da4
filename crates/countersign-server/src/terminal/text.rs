//! Converts the text of a card to styled lines that fit a width.
//!
//! Input: text with escape sequences from `output::style` and with marked foreign text. Output: the rows of
//! `output::layout`, with styles instead of escape sequences. Sequences other than styles lose their escape character
//! and become plain text (X15).

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::output::layout::lay;

/// Wraps text into lines of at most `width` columns.
pub fn wrap(text: &str, width: usize, has_colors: bool) -> Vec<Line<'static>> {
    let laid = lay(text, Some(width));
    let mut page = Page::default();
    for piece in pieces(&laid) {
        match piece {
            Piece::Text(text) => page.text(text),
            Piece::Style(codes) => page.style = styled(page.style, codes, has_colors),
        }
    }
    page.end();
    page.lines
}

/// Styles one line of text, without wrapping.
pub fn line(text: &str, has_colors: bool) -> Line<'static> {
    wrap(text, usize::MAX, has_colors)
        .into_iter()
        .next()
        .unwrap_or_default()
}

enum Piece<'t> {
    Text(&'t str),
    /// Parameters of an SGR sequence, which sets a style or colour.
    Style(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        found.push(Piece::Text(before));
        let is_code = |c: char| c.is_ascii_digit() || c == ';';
        let sequence = after.strip_prefix('[').and_then(|codes| {
            let end = codes.find(|c: char| !is_code(c))?;
            let (codes, end) = codes.split_at_checked(end)?;
            Some((codes, end.strip_prefix('m')?))
        });
        rest = match sequence {
            Some((codes, after)) => {
                found.push(Piece::Style(codes));
                after
            }
            // Not a style sequence: drop the escape character and keep the rest as plain text.
            None => after,
        };
    }
    found.push(Piece::Text(rest));
    found
}

fn styled(style: Style, codes: &str, has_colors: bool) -> Style {
    codes.split(';').fold(style, |style, code| {
        let color = |style: Style, color| if has_colors { style.fg(color) } else { style };
        match code {
            "" | "0" => Style::new(),
            "1" => style.add_modifier(Modifier::BOLD),
            "2" => style.add_modifier(Modifier::DIM),
            "7" => style.add_modifier(Modifier::REVERSED),
            "31" => color(style, Color::Red),
            "32" => color(style, Color::Green),
            "33" => color(style, Color::Yellow),
            "36" => color(style, Color::Cyan),
            _ => style,
        }
    })
}

#[derive(Default)]
struct Page {
    style: Style,
    lines: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
}

impl Page {
    fn text(&mut self, text: &str) {
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                self.lines.push(Line::from(std::mem::take(&mut self.line)));
            }
            let part: String = part.chars().filter(|c| !c.is_control()).collect();
            if !part.is_empty() {
                self.line.push(Span::styled(part, self.style));
            }
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.lines.push(Line::from(std::mem::take(&mut self.line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::foreign::foreign;
    use crate::output::style::{self, paint};

    fn plain(text: &str, width: usize) -> Vec<String> {
        wrap(text, width, true).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn x08_long_lines_go_on_and_say_so() {
        assert_eq!(plain("short\n\nlines\n", 20), ["short", "", "lines"]);
        assert_eq!(
            plain(&foreign("abcdefghijklmnopqrstuvwxyz"), 20),
            ["│ abcdefghijklmnopqr", "│ stuvwxyz"]
        );
        assert_eq!(plain(&foreign("日本語"), 4), ["│ 日", "│ 本", "│ 語"]);
        // The program's own text continues without a gutter.
        assert_eq!(plain("日本語", 4), ["日本", "語"]);
        let long = "x".repeat(100_000);
        let shown: String = plain(&foreign(&long), 80).concat().replace("│ ", "");
        assert_eq!(shown, long, "nothing is lost");
    }

    #[test]
    fn x15_only_our_own_styles_are_read() {
        let text = format!(
            "{}\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\rx",
            paint(style::BAD, "red")
        );
        let lines = wrap(&text, 80, true);
        let line = lines.first().unwrap();
        assert_eq!(line.to_string(), "red]0;title[2J31mx");
        assert_eq!(line.spans.first().unwrap().style.fg, Some(Color::Red));
        assert_eq!(line.spans.get(1).unwrap().style, Style::new());
        let dull = wrap(&paint(style::ERROR, "e"), 80, false);
        let style = dull.first().unwrap().spans.first().unwrap().style;
        assert_eq!(style, Style::new().add_modifier(Modifier::BOLD));
    }
}
