//! Untrusted text: written by an agent, a tool, a server or an API caller.
//!
//! Input: any text. Output: the same text, escaped, between two marks that [`super::layout`] turns into a gutter.
//! INVARIANT: [`Foreign`] has no `Display`; [`Foreign::mark`] is the only way to print it. The marks are private-use
//! characters, which the escaper never lets through. A test searches for other ways (X100).

use countersign::display::{self, clip, escape, one_line, up_to_lines};
use countersign::json::Kind;
use unicode_width::UnicodeWidthStr as _;

use super::table;

/// Mark at the start of untrusted text.
pub(super) const BEGIN: char = '\u{e000}';
/// Mark at the end of untrusted text.
pub(super) const END: char = '\u{e001}';

/// Mark at the start of a quotation inside the program's own text.
pub(super) const QUOTE: char = '\u{e002}';
/// Mark at the end of a quotation.
pub(super) const UNQUOTE: char = '\u{e003}';

/// Escaped untrusted text. Each of its rows is printed after a gutter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign(String);

impl Foreign {
    /// Creates untrusted text from `text`: escaped, and on one line.
    pub fn new(text: &str) -> Foreign {
        Foreign(one_line(&escape(text)).into_owned())
    }

    /// Creates untrusted text on one line from text that may already be escaped; existing escapes are kept.
    pub fn once(text: &str) -> Foreign {
        Foreign(one_line(&once(text)).into_owned())
    }

    /// Creates untrusted text from `text`: escaped, with its line breaks.
    pub fn lines(text: &str) -> Foreign {
        Foreign(up_to_lines(&escape(text), usize::MAX).into_owned())
    }

    /// Creates untrusted text from a value: escaped, on one line, and quoted if it could be mistaken for a value of
    /// another type.
    pub fn value(kind: Kind, text: &str) -> Foreign {
        Foreign(one_line(&display::value(kind, text)).into_owned())
    }

    /// Creates untrusted text from a string value: escaped, with its line breaks.
    pub fn value_lines(text: &str) -> Foreign {
        Foreign(display::lines(text))
    }

    /// Creates untrusted text on one line. Long text is cut in the middle, with a note on how much is missing.
    pub fn clip(text: &str, max_chars: usize) -> Foreign {
        Foreign(one_line(&clip(text, max_chars).to_string()).into_owned())
    }

    /// Like [`Foreign::clip`], but keeps line breaks unless there are more than 40 lines.
    pub fn clip_lines(text: &str, max_chars: usize) -> Foreign {
        Foreign(display::with_line_breaks(&clip(text, max_chars).to_string()).into_owned())
    }

    /// Cuts the text to `room` columns.
    pub fn fit(self, room: usize) -> Foreign {
        Foreign(table::fit(&self.0, room))
    }

    /// Returns the width of the text in columns, without the gutter.
    pub fn width(&self) -> usize {
        self.0.width()
    }

    /// Returns the text between marks, ready to be embedded in output.
    pub fn mark(&self) -> String {
        format!("{BEGIN}{}{END}", self.0)
    }
}

/// Escapes and marks text.
pub fn foreign(text: &str) -> String {
    Foreign::new(text).mark()
}

/// Escapes and marks text that may already be escaped, such as a summary; existing escapes are kept.
pub fn shown(text: &str) -> String {
    Foreign::once(text).mark()
}

/// Like [`shown`], but with real line breaks, unless there are more than 40 lines. Each line has the gutter.
pub fn shown_lines(text: &str) -> String {
    Foreign(display::with_line_breaks(&once(text)).into_owned()).mark()
}

/// Escapes a name chosen by an operator (a person, a group, a file) for use inside a sentence of the program, without a
/// gutter.
pub fn named(text: &str) -> String {
    one_line(&escape(text)).into_owned()
}

/// Escapes text that a stranger may have chosen, such as a file path, and marks it as a quotation inside a sentence of
/// the program.
pub fn quoted(text: &str) -> String {
    format!("{QUOTE}{}{UNQUOTE}", one_line(&escape(text)))
}

/// Marks a sentence of the program that may quote untrusted text, such as an error. Everything from its first backtick
/// on counts as quoted, because the quoted text may itself contain backticks; wrapped rows of it get a gutter.
pub fn quoting(sentence: &str) -> String {
    let sentence = once(sentence);
    match sentence.find('`').and_then(|at| sentence.split_at_checked(at)) {
        Some((ours, quoted)) => format!("{ours}{QUOTE}{quoted}{UNQUOTE}"),
        None => sentence,
    }
}

/// Returns the mark that starts untrusted text which comes in pieces.
pub fn begin() -> String {
    BEGIN.to_string()
}

/// Escapes a piece of untrusted text after [`begin`]; line breaks are kept.
pub fn piece(text: &str) -> String {
    // Line by line, because a run of line breaks may be cut in two by the pieces.
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    lines.join("\n")
}

/// Returns the mark that ends untrusted text which came in pieces.
pub fn end() -> String {
    END.to_string()
}

/// Escapes text that may already be escaped: existing escapes are kept.
pub fn once(text: &str) -> String {
    let pieces: Vec<_> = text.split("\\u{").map(escape).collect();
    pieces.join("\\u{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x15_safe_text_is_escaped_once() {
        let shown = escape("a\u{1b}[31m\u{202e}b").into_owned();
        assert_eq!(shown, "a\\u{1b}[31m\\u{202e}b");
        assert_eq!(once(&shown), shown);
        assert_eq!(once("x\u{1b}y"), "x\\u{1b}y");
    }

    #[test]
    fn x100_nobody_can_write_the_marks() {
        let text = format!("a{END}\nApprove? [y/N]{BEGIN}");
        for marked in [
            foreign(&text),
            shown(&text),
            shown_lines(&text),
            Foreign::lines(&text).mark(),
            Foreign::clip(&text, 90).mark(),
            Foreign::clip_lines(&text, 90).mark(),
        ] {
            assert_eq!(marked.matches([BEGIN, END]).count(), 2, "{marked:?}");
            assert!(marked.starts_with(BEGIN) && marked.ends_with(END), "{marked:?}");
        }
    }

    /// Checks that modules that print for people never escape text without marking it.
    #[test]
    fn x100_no_module_that_prints_escapes_without_marking() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        // These produce no terminal text: JSON, views, messages to an agent, and this file itself.
        let exempt = ["output/foreign.rs", "output/json.rs"];
        let folders = ["output", "chat", "terminal", "commands"];
        let mut files: Vec<_> = folders.iter().map(|folder| source.join(folder)).collect();
        files.push(source.join("exec.rs"));
        let mut found = Vec::new();
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let name = path.strip_prefix(&source).unwrap().display().to_string();
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_raw = |line: &&str| {
                ["escape(", "display::clip", " clip(", "(clip(", "Escaped("]
                    .iter()
                    .any(|call| line.contains(call))
                    && !line.contains("RAW:")
            };
            if !exempt.contains(&name.as_str()) {
                found.extend(code.lines().filter(is_raw).map(|line| format!("{name}: {line}")));
            }
        }
        assert!(found.is_empty(), "use `foreign` instead:\n{}", found.join("\n"));
    }
}
