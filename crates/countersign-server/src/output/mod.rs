//! The only way to the screen.
//!
//! Enters: text of ours in which foreign text is marked, or JSON. Leaves: rows on standard output and standard error.
//! INVARIANT: what others wrote gets here through [`foreign`], which escapes and marks it, and leaves through
//! [`layout`], which puts a gutter before each row of it; only [`style`] emits escape sequences.

mod above;
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
pub mod ruling;
pub mod style;
pub mod table;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::Sender;

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::cli::Color;
use crate::failure::{Exit, Failure};
use above::Above;
use foreign::Foreign;
use layout::{Layout, lay};

pub use foreign::once;

/// Where a command's answers go.
pub struct Output {
    /// Answer in JSON.
    pub is_json: bool,
    color: ColorChoice,
    is_terminal: bool,
    /// Somebody types: what is said stands above their line.
    above: Option<Above>,
    layout: Layout,
    /// Rows on the screen that are not of standard output.
    other_rows: usize,
}

/// How large a screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
}

impl Output {
    /// Decides once how to answer.
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

    /// Columns of the screen; nothing when nobody looks, so that programs get whole lines.
    pub fn width(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        self.is_terminal.then_some(usize::from(width.0))
    }

    /// The size of the screen; nothing when nobody looks.
    pub fn size(&self) -> Option<Size> {
        let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
        self.is_terminal.then_some(Size {
            rows: usize::from(height.0),
            columns: usize::from(width.0),
        })
    }

    /// Rows that the screen has got so far.
    pub fn rows(&self) -> usize {
        self.layout.rows() + self.other_rows
    }

    /// Notes rows that the screen got from elsewhere.
    pub fn add_rows(&mut self, rows: usize) {
        self.other_rows += rows;
    }

    /// True when a person looks at standard output.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// True when lines on standard error may have colours.
    pub fn has_colored_errors(&self) -> bool {
        match self.color {
            ColorChoice::Auto => AutoStream::choice(&std::io::stderr()) != ColorChoice::Never,
            choice => choice != ColorChoice::Never,
        }
    }

    /// From now on somebody types, and what is said goes to whoever prints above their line; or nobody does any more.
    pub fn type_below(&mut self, printer: Option<Sender<String>>) {
        if let Some(above) = self.above.take() {
            above.end();
        }
        let color = AutoStream::new(std::io::stdout(), self.color).current_choice();
        let is_colored = color != ColorChoice::Never;
        self.above = printer.map(|printer| Above::new(printer, is_colored));
    }

    /// Prints text in which foreign text is marked, laid out for the screen. JSON goes out as it is.
    pub fn text(&mut self, text: &str) {
        // Whoever closed the pipe has seen enough, and nothing else can be done about a lost screen.
        let _ = self.try_text(text);
    }

    /// Prints one line.
    pub fn line(&mut self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints one line; false when nobody takes it any more.
    pub fn try_line(&mut self, line: &str) -> bool {
        self.try_text(&format!("{line}\n"))
    }

    /// Ends the row, if one was begun.
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

    /// A value as JSON on one line.
    pub fn json_line<T: Serialize>(&self, value: &T) -> Result<String, Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::error("output", format!("cannot write JSON: {error}")))?;
        Ok(json::for_terminal(&text))
    }

    /// Writes bytes exactly as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::error(
                "output",
                format!("cannot write the arguments: {error}"),
            )),
            _ => Ok(()),
        }
    }

    /// Prints a value as JSON.
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

    /// Tells a person something beside the answer.
    pub fn notice(&mut self, code: &str, message: &str) {
        match self.is_json {
            true => self.error_line(&json::notice(code, message)),
            false => {
                let label = style::paint(style::NOTICE, "note:");
                self.error_line(&format!("{label} {}", once(message)));
            }
        }
    }

    /// Tells a person something that somebody else wrote, behind words of ours.
    pub fn notice_foreign(&mut self, code: &str, label: &str, text: &str) {
        match self.is_json {
            true => self.error_line(&json::notice(code, &format!("{label} {text}"))),
            false => {
                let note = style::paint(style::NOTICE, "note:");
                self.error_line(&format!("{note} {label} {}", foreign::shown(text)));
            }
        }
    }

    /// Says why a command did not do what it was asked.
    pub fn failure(&mut self, failure: &Failure) {
        if failure.exit == Exit::Interrupted {
            return;
        }
        let (message, hint) = (once(&failure.message), failure.hint.as_deref().map(once));
        if self.is_json {
            return self.error_line(&json::error(&failure.code, &message, hint.as_deref()));
        }
        self.error_line(&format!("{} {message}", style::paint(style::ERROR, "error:")));
        if let Some(hint) = hint {
            self.error_line(&format!("{} {hint}", style::paint(style::HINT, "hint:")));
        }
    }

    /// Prints a line to standard error, laid out for the screen. JSON goes out as it is.
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

/// Columns of the screen behind standard error; nothing when it goes elsewhere.
fn error_width() -> Option<usize> {
    let is_terminal = std::io::stderr().is_terminal();
    let size = terminal_size::terminal_size_of(std::io::stderr()).filter(|_| is_terminal);
    size.map(|(width, _)| usize::from(width.0))
}

/// A line to standard error, from a task that has no [`Output`].
pub fn beside(line: &str) {
    // One line, whatever stands in it.
    let laid = lay(&line.replace('\n', "\\u{a}"), error_width());
    let mut stderr = AutoStream::new(std::io::stderr().lock(), ColorChoice::Auto);
    let _ = writeln!(stderr, "{laid}").and_then(|()| stderr.flush());
}

/// A line that somebody else wrote, to standard error, such as what a tool says there.
pub fn beside_foreign(line: &Foreign) {
    beside(&line.mark());
}

/// A command line that clap does not understand, or a request for help.
pub fn usage(error: &clap::Error) -> ExitCode {
    let says = |word: &str| std::env::args_os().any(|argument| argument == word);
    // A coding agent may take JSON on standard error for a hook's answer, and this is none.
    let wants_json = says("--json") && !says("hook");
    if wants_json && error.use_stderr() {
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = once(message.trim_start_matches("error: "));
        let mut output = Output::new(true, Color::Never);
        output.error_line(&json::error("usage", &message, Some("see `countersign --help`")));
        return ExitCode::from(Exit::Usage.code());
    }
    // A closed pipe is no reason to complain.
    let _ = error.print();
    let exit = if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    };
    ExitCode::from(exit.code())
}
