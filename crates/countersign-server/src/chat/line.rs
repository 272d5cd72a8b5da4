//! The person's lines: edited on a terminal, taken as they come from a pipe.

use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use countersign_agent::message::Message;
use rustyline::error::ReadlineError;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, DefaultEditor, Event, EventContext, EventHandler, KeyEvent,
    RepeatCount,
};

use crate::failure::Failure;

/// The longest line that is taken.
const LONGEST: usize = 64 * 1024;
/// How many earlier messages the arrow keys bring back.
const REMEMBERED: usize = 200;

/// What came.
pub enum Line {
    /// Words.
    Said(String),
    /// A key that is a button.
    Pressed(Button),
    /// Ctrl-C on an empty line.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// The buttons under a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Approves.
    Yes,
    /// Denies.
    No,
}

/// Where lines come from.
pub enum Lines {
    /// A person at a terminal.
    Terminal(Box<Terminal>),
    /// A pipe.
    Pipe,
}

/// An editor, and the key that was pressed last.
pub struct Terminal {
    editor: Option<DefaultEditor>,
    pressed: Arc<AtomicU8>,
}

impl Lines {
    /// Lines from a terminal, with what the person said before to go back to; or from a pipe.
    pub fn new(is_terminal: bool, said: &[Message]) -> Result<Lines, Failure> {
        if !is_terminal {
            return Ok(Lines::Pipe);
        }
        let config = Config::builder().max_history_size(REMEMBERED);
        let config = config.map_err(no_terminal)?.auto_add_history(true).build();
        let mut editor = DefaultEditor::with_config(config).map_err(no_terminal)?;
        let before = said.iter().filter_map(|message| match message {
            Message::Person { text, .. } => Some(text),
            _ => None,
        });
        for text in before {
            // One that is not remembered is no loss.
            let _ = editor.add_history_entry(text.as_str());
        }
        let pressed = Arc::new(AtomicU8::new(0));
        for (key, button) in [('y', 1), ('n', 2)] {
            let handler = Key {
                button,
                pressed: pressed.clone(),
            };
            editor.bind_sequence(KeyEvent::alt(key), EventHandler::Conditional(Box::new(handler)));
        }
        Ok(Lines::Terminal(Box::new(Terminal {
            editor: Some(editor),
            pressed,
        })))
    }

    /// The next line. Keys are buttons only while there is a card.
    pub async fn next(&mut self, has_card: bool) -> Result<Line, Failure> {
        match self {
            Lines::Pipe => blocking(read_pipe).await?,
            Lines::Terminal(terminal) => terminal.next(has_card).await,
        }
    }
}

impl Terminal {
    async fn next(&mut self, has_card: bool) -> Result<Line, Failure> {
        let Some(mut editor) = self.editor.take() else {
            return Ok(Line::End);
        };
        let prompt = if has_card { "? " } else { "> " };
        let (editor, read) = blocking(move || {
            let read = editor.readline(prompt);
            (editor, read)
        })
        .await?;
        self.editor = Some(editor);
        let pressed = self.pressed.swap(0, Ordering::SeqCst);
        match (read, pressed) {
            (Ok(_), 1) if has_card => Ok(Line::Pressed(Button::Yes)),
            (Ok(_), 2) if has_card => Ok(Line::Pressed(Button::No)),
            (Ok(text), _) => Ok(Line::Said(text)),
            (Err(ReadlineError::Eof), _) => Ok(Line::End),
            (Err(ReadlineError::Interrupted), _) => Ok(Line::Interrupted),
            (Err(error), _) => Err(no_terminal(error)),
        }
    }
}

/// A key that ends the line and says which button it was.
struct Key {
    button: u8,
    pressed: Arc<AtomicU8>,
}

impl ConditionalEventHandler for Key {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        // Behind words it is no button: the words would be lost.
        if !context.line().is_empty() {
            return Some(Cmd::Noop);
        }
        self.pressed.store(self.button, Ordering::SeqCst);
        Some(Cmd::AcceptLine)
    }
}

fn read_pipe() -> Result<Line, Failure> {
    let mut bytes = Vec::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), LONGEST as u64 + 1);
    let read = input
        .read_until(b'\n', &mut bytes)
        .map_err(|error| Failure::error("input", format!("standard input cannot be read: {error}")))?;
    if read > LONGEST {
        return Err(Failure::error(
            "input",
            format!("a line has more than {LONGEST} bytes"),
        ));
    }
    if read == 0 {
        return Ok(Line::End);
    }
    Ok(Line::Said(String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::error("input", error.to_string()))
}

fn no_terminal(error: ReadlineError) -> Failure {
    Failure::error("no_terminal", format!("the terminal cannot be used: {error}"))
        .hint("pipe the lines in instead")
}
