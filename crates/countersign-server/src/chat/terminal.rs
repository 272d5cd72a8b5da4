//! A line editor on a terminal, with output above the line.

use std::borrow::Cow;
use std::sync::mpsc::{Sender, channel};

use countersign_agent::message::Message;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ColorMode, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler,
    ExternalPrinter as _, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::line::{Button, Line, blocking};
use super::typing::{Mark, Typing};
use crate::failure::Failure;

/// Number of earlier messages in the editor's history.
const REMEMBERED: usize = 200;

type Edited = Editor<Painter, DefaultHistory>;

/// The line editor, and the sender for output above its line.
pub struct Terminal {
    editor: Option<Edited>,
    typing: Typing,
    above: Option<Sender<String>>,
}

impl Terminal {
    pub fn new(said: &[Message], typing: &Typing) -> Result<Terminal, Failure> {
        let config = Config::builder().max_history_size(REMEMBERED);
        // Colours are forced on, because the editor otherwise does not repaint the prompt, which itself contains no
        // colours.
        let config = config
            .map_err(no_terminal)?
            .auto_add_history(true)
            .color_mode(ColorMode::Forced);
        let mut editor = Edited::with_config(config.build()).map_err(no_terminal)?;
        editor.set_helper(Some(Painter(typing.clone())));
        let before = said.iter().filter_map(|message| match message {
            Message::Person { text, .. } => Some(text),
            _ => None,
        });
        for text in before {
            // If this fails, the history merely lacks a message.
            let _ = editor.add_history_entry(text.as_str());
        }
        let mut bind = |key: KeyEvent, does: KeyAction| {
            let handler = Key {
                does,
                typing: typing.clone(),
            };
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(handler)));
        };
        bind(KeyEvent::alt('y'), KeyAction::Press(Button::Yes));
        bind(KeyEvent::alt('n'), KeyAction::Press(Button::No));
        // Tab and Space work as in a form: they move between calls and toggle the marked one.
        bind(
            KeyEvent(KeyCode::Tab, Modifiers::NONE),
            KeyAction::Mark(Mark::Next),
        );
        bind(
            KeyEvent(KeyCode::BackTab, Modifiers::NONE),
            KeyAction::Mark(Mark::Before),
        );
        bind(KeyEvent(KeyCode::Char(' '), Modifiers::NONE), KeyAction::Toggle);
        Ok(Terminal {
            above: print_above(&mut editor),
            editor: Some(editor),
            typing: typing.clone(),
        })
    }

    /// Returns the sender for text printed above the line being typed; `None` if the terminal cannot do that.
    pub fn above(&self) -> Option<Sender<String>> {
        self.above.clone()
    }

    pub async fn next(&mut self) -> Result<Line, Failure> {
        let Some(mut editor) = self.editor.take() else {
            return Ok(Line::End);
        };
        let prompt = self.typing.prompt();
        let (editor, read) = blocking(move || {
            let read = editor.readline(prompt.as_str());
            (editor, read)
        })
        .await?;
        self.editor = Some(editor);
        let is_older_than_card = self.typing.take_older();
        match (read, self.typing.take_pressed()) {
            (Ok(_), Some(button)) => Ok(Line::Pressed(button)),
            (Ok(text), None) => Ok(Line::Said {
                text,
                is_older_than_card,
            }),
            (Err(ReadlineError::Eof), _) => Ok(Line::End),
            (Err(ReadlineError::Interrupted), _) => Ok(Line::Interrupted),
            (Err(error), _) => Err(no_terminal(error)),
        }
    }
}

/// Starts a thread that prints above the line, because printing blocks until the editor has taken the last piece.
/// Returns `None` if the terminal does not support this.
fn print_above(editor: &mut Edited) -> Option<Sender<String>> {
    let mut printer = editor.create_external_printer().ok()?;
    let (above, pieces) = channel::<String>();
    std::thread::spawn(move || {
        for piece in pieces {
            if printer.print(piece).is_err() {
                return;
            }
        }
    });
    Some(above)
}

/// Action of a key on an empty line.
#[derive(Clone, Copy)]
enum KeyAction {
    /// Ends the line and reports the button.
    Press(Button),
    /// Moves the mark, the call that Space toggles.
    Mark(Mark),
    /// Leaves the marked call out, or includes it again.
    Toggle,
}

struct Key {
    does: KeyAction,
    typing: Typing,
}

impl ConditionalEventHandler for Key {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        // The key acts only on an empty line: otherwise the typed text would be lost.
        let is_empty = context.line().is_empty();
        let does = match self.does {
            KeyAction::Press(button) if is_empty && self.typing.press(button) => Cmd::AcceptLine,
            KeyAction::Mark(to) if is_empty && self.typing.mark(to) => Cmd::Repaint,
            KeyAction::Toggle if is_empty && self.typing.toggle_marked() => Cmd::Repaint,
            // The space bar types a space.
            KeyAction::Toggle => return None,
            KeyAction::Press(_) | KeyAction::Mark(_) => Cmd::Noop,
        };
        Some(does)
    }
}

/// Shows the current prompt, which may change while a line is being typed, and records the line's text in [`Typing`].
struct Painter(Typing);

impl Highlighter for Painter {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        self.0.typed(line);
        Cow::Borrowed(line)
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, is_usual: bool) -> Cow<'b, str> {
        match is_usual {
            true => Cow::Owned(self.0.prompt_in_place_of(prompt)),
            // A different prompt is shown while the history is searched.
            false => Cow::Borrowed(prompt),
        }
    }

    fn highlight_char(&self, line: &str, _: usize, _: CmdKind) -> bool {
        self.0.typed(line);
        false
    }
}

impl Completer for Painter {
    type Candidate = String;
}

impl Hinter for Painter {
    type Hint = String;
}

impl Validator for Painter {}

impl Helper for Painter {}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::error("no_terminal", format!("the terminal cannot be used: {error}"))
        .hint("pipe the lines in instead")
}
