//! Terminal output. Everything that commands print for people goes through this module.
//!
//! Input: the program's own text with untrusted text marked, or JSON. Output: rows on standard output and standard
//! error.
//!
//! INVARIANT: untrusted text enters through [`foreign`], which escapes and marks it, and is printed by [`layout`],
//! which puts a gutter before each of its rows. Only [`style`], and [`layout`] for the gutter, emit escape sequences.

mod above_prompt;
pub mod before;
pub mod card;
pub mod catalogue;
mod facts;
pub mod foreign;
pub mod history;
pub mod json;
pub mod layout;
pub mod list;
pub mod origin;
pub mod progress;
pub mod ruling;
pub mod style;
pub mod table;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::Sender;

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::cli::Color;
use crate::failure::{Exit, Failure};
use above_prompt::AbovePrompt;
use foreign::Foreign;
use layout::{Layout, lay};

pub use foreign::once;

/// Standard output and standard error of a command, for people or as JSON.
pub struct Output {
    /// True if results are printed as JSON.
    pub is_json: bool,
    color: ColorChoice,
    is_terminal: bool,
    /// Set while a person is typing: output is then printed above the prompt.
    above: Option<AbovePrompt>,
    layout: Layout,
    /// Number of rows that were printed without this `Output`, such as by a prompt.
    other_rows: usize,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
}

impl Output {
    /// Creates the output, and detects whether standard output is a terminal.
    pub fn new(is_json: bool, color: Color) -> Output {
        Output {
            is_json,
            color: match color {
                Color::Auto => ColorChoice::Auto,
                Color::Always => ColorChoice::AlwaysAnsi,
                Color::Never => ColorChoice::Never,
            },
            is_terminal: std::io::stdout().is_terminal(),
            above: None,
            layout: Layout::new(),
            other_rows: 0,
        }
    }

    /// Returns the terminal's width in columns. `None` if standard output is not a terminal, so that programs get
    /// unwrapped lines.
    pub fn width(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        self.is_terminal.then_some(usize::from(width.0))
    }

    /// Returns the terminal's size. `None` if standard output is not a terminal.
    pub fn size(&self) -> Option<Size> {
        let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
        self.is_terminal.then_some(Size {
            rows: usize::from(height.0),
            columns: usize::from(width.0),
        })
    }

    /// Returns the number of rows printed so far.
    pub fn rows(&self) -> usize {
        self.layout.rows() + self.other_rows
    }

    /// Counts rows that were printed without this `Output`.
    pub fn add_rows(&mut self, rows: usize) {
        self.other_rows += rows;
    }

    /// Returns true if standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns true if standard error may be coloured.
    pub fn has_colored_errors(&self) -> bool {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&std::io::stderr()) != ColorChoice::Never,
            choice => choice != ColorChoice::Never,
        }
    }

    /// Sends all output to `printer`, which prints it above the prompt. With `None`, prints directly again.
    pub fn type_below(&mut self, printer: Option<Sender<String>>) {
        if let Some(above) = self.above.take() {
            above.end();
        }
        let color = AutoStream::new(std::io::stdout(), self.color).current_choice();
        let is_colored = color != ColorChoice::Never;
        self.above = printer.map(|printer| AbovePrompt::new(printer, is_colored));
    }

    /// Prints text, in which untrusted text is marked, wrapped for the screen. In JSON mode the text is printed
    /// unchanged.
    pub fn text(&mut self, text: &str) {
        // A closed pipe or terminal is ignored.
        let _ = self.try_text(text);
    }

    /// Prints one line.
    pub fn line(&mut self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints one line. Returns false if the output is closed.
    pub fn try_line(&mut self, line: &str) -> bool {
        self.try_text(&format!("{line}\n"))
    }

    /// Ends the current row if it is not empty.
    pub fn end_row(&mut self) {
        if self.layout.is_in_row() {
            self.text("\n");
        }
    }

    fn try_text(&mut self, text: &str) -> bool {
        let laid = match self.is_json {
            true => text.to_owned(),
            false => self.layout.push(text, self.width()),
        };
        if let Some(above) = &mut self.above {
            above.text(&laid);
            return true;
        }
        let mut stdout = AutoStream::new(std::io::stdout().lock(), self.color);
        stdout
            .write_all(laid.as_bytes())
            .and_then(|()| stdout.flush())
            .is_ok()
    }

    /// Serializes a value as JSON on one line, escaped for terminals.
    pub fn json_line<T: Serialize>(&self, value: &T) -> Result<String, Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::error("output", format!("cannot write JSON: {error}")))?;
        Ok(json::for_terminal(&text))
    }

    /// Writes bytes to standard output unchanged. A closed pipe is not an error.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::error(
                "output",
                format!("cannot write the output: {error}"),
            )),
            _ => Ok(()),
        }
    }

    /// Prints a value as JSON. If standard output is a terminal, characters that could affect it are escaped.
    pub fn json<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::error("output", format!("cannot write JSON: {error}")))?;
        let text = if self.is_terminal {
            json::for_terminal(&text)
        } else {
            text
        };
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        Ok(())
    }

    /// Prints a note to standard error. `code` identifies the note for programs and is printed only in JSON mode.
    pub fn notice(&mut self, code: &str, message: &str) {
        match self.is_json {
            true => self.error_line(&json::notice(code, message)),
            false => {
                let label = style::paint(style::NOTICE, "note:");
                self.error_line(&format!("{label} {}", foreign::quoting(message)));
            }
        }
    }

    /// Prints a note: `label`, which is the program's own, and then untrusted text. `code` is printed only in JSON
    /// mode.
    pub fn notice_foreign(&mut self, code: &str, label: &str, text: &str) {
        match self.is_json {
            true => self.error_line(&json::notice(code, &format!("{label} {text}"))),
            false => {
                let note = style::paint(style::NOTICE, "note:");
                self.error_line(&format!("{note} {label} {}", foreign::shown(text)));
            }
        }
    }

    /// Prints an error and its hint to standard error. Prints nothing after an interrupt.
    pub fn failure(&mut self, failure: &Failure) {
        if failure.exit == Exit::Interrupted {
            return;
        }
        if self.is_json {
            let (message, hint) = (once(&failure.message), failure.hint.as_deref().map(once));
            return self.error_line(&json::error(&failure.code, &message, hint.as_deref()));
        }
        let message = foreign::quoting(&failure.message);
        self.error_line(&format!("{} {message}", style::paint(style::ERROR, "error:")));
        if let Some(hint) = &failure.hint {
            let hint = match hint {
                Cow::Borrowed(ours) => (*ours).to_owned(),
                Cow::Owned(hint) => foreign::quoting(hint),
            };
            self.error_line(&format!("{} {hint}", style::paint(style::HINT, "hint:")));
        }
    }

    /// Prints a line to standard error, wrapped for the screen. In JSON mode the line is printed unchanged.
    pub fn error_line(&mut self, line: &str) {
        let line = match self.is_json {
            true => line.to_owned(),
            false => lay(line, error_width()),
        };
        self.other_rows += line.lines().count();
        if let Some(above) = &mut self.above {
            return above.text(&format!("{line}\n"));
        }
        let mut stderr = AutoStream::new(std::io::stderr().lock(), self.color);
        let _ = writeln!(stderr, "{line}").and_then(|()| stderr.flush());
    }
}

/// Returns the width of the terminal on standard error. `None` if standard error is redirected.
fn error_width() -> Option<usize> {
    let is_terminal = std::io::stderr().is_terminal();
    let size = terminal_size::terminal_size_of(std::io::stderr()).filter(|_| is_terminal);
    size.map(|(width, _)| usize::from(width.0))
}

/// Prints a line to standard error, for tasks that have no [`Output`].
pub fn print_to_stderr(line: &str) {
    // Always one line, whatever the text contains.
    let laid = lay(&line.replace('\n', "↵"), error_width());
    let mut stderr = AutoStream::new(std::io::stderr().lock(), ColorChoice::Auto);
    let _ = writeln!(stderr, "{laid}").and_then(|()| stderr.flush());
}

/// Prints a line of untrusted text to standard error, such as a line that a tool wrote there.
pub fn print_foreign_to_stderr(line: &Foreign) {
    print_to_stderr(&line.mark());
}

/// Prints a usage error or the help, and returns the exit code.
pub fn usage(error: &clap::Error) -> ExitCode {
    let says = |word: &str| std::env::args_os().any(|argument| argument == word);
    // A coding agent could mistake JSON on standard error for a hook's answer.
    let wants_json = says("--json") && !says("hook");
    if wants_json && error.use_stderr() {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = once(message.trim_start_matches("error: "));
        let mut output = Output::new(true, Color::Never);
        output.error_line(&json::error("usage", &message, Some("see `countersign --help`")));
        return ExitCode::from(Exit::Usage.code());
    }
    // A closed pipe is ignored.
    let _ = error.print();
    let exit = if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    };
    ExitCode::from(exit.code())
}

/// Quotes a word for the shell, if necessary.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
