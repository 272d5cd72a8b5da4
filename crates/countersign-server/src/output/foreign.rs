//! Text that somebody else wrote: an agent, a tool, a server, whoever called the API.
//!
//! Enters: any text. Leaves: the same text, escaped, between two marks that [`super::layout`] turns into a gutter.
//! INVARIANT: [`Foreign`] has no `Display`; [`Foreign::mark`] is its only way into printed text, and the marks are
//! private-use characters, which the escaper never lets through. A test looks for other ways (X100).

use countersign::display::{clip, escape};
use unicode_width::UnicodeWidthStr as _;

use super::table;

/// Where foreign text begins.
pub(super) const BEGIN: char = '\u{e000}';
/// Where it ends.
pub(super) const END: char = '\u{e001}';

/// Escaped text of somebody else. Each of its rows is printed behind a gutter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign(String);

impl Foreign {
    /// Takes text as it came. Line breaks become escapes.
    pub fn new(text: &str) -> Foreign {
        Foreign(escape(text).into_owned())
    }

    /// Takes text that may have been escaped before; escapes in it stay as they are.
    pub fn once(text: &str) -> Foreign {
        Foreign(once(text))
    }

    /// Takes text line by line: each of its lines gets a row of its own.
    pub fn lines(text: &str) -> Foreign {
        let lines: Vec<_> = text.split('\n').map(escape).collect();
        Foreign(lines.join("\n"))
    }

    /// Takes the beginning and the end of long text, and says how much is missing.
    pub fn clip(text: &str, max_chars: usize) -> Foreign {
        Foreign(clip(text, max_chars).to_string())
    }

    /// Cuts the text to `room` columns.
    pub fn fit(self, room: usize) -> Foreign {
        Foreign(table::fit(&self.0, room))
    }

    /// Columns of the text itself.
    pub fn width(&self) -> usize {
        self.0.width()
    }

    /// Returns the text as printed text may hold it.
    pub fn mark(&self) -> String {
        format!("{BEGIN}{}{END}", self.0)
    }
}

/// Marks text as it came.
pub fn foreign(text: &str) -> String {
    Foreign::new(text).mark()
}

/// Marks text that may have been escaped before, such as a summary.
pub fn shown(text: &str) -> String {
    Foreign::once(text).mark()
}

/// A name that an operator chose (a person, a group, a file), for the middle of a sentence of ours.
pub fn named(text: &str) -> String {
    escape(text).into_owned()
}

/// Begins foreign text that comes in pieces.
pub fn begin() -> String {
    BEGIN.to_string()
}

/// A piece of foreign text that was begun before; line breaks stay.
pub fn piece(text: &str) -> String {
    Foreign::lines(text).0
}

/// Ends foreign text that came in pieces.
pub fn end() -> String {
    END.to_string()
}

/// Makes text safe that may have been made safe before: what is escaped already stays as it is.
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
            Foreign::lines(&text).mark(),
            Foreign::clip(&text, 90).mark(),
        ] {
            assert_eq!(marked.matches([BEGIN, END]).count(), 2, "{marked:?}");
            assert!(marked.starts_with(BEGIN) && marked.ends_with(END), "{marked:?}");
        }
    }

    /// Every module that prints for people, and the calls that escape without marking.
    #[test]
    fn x100_no_module_that_prints_escapes_without_marking() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        // These make no text for a terminal: JSON, views, what an agent is told, and this file itself.
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
