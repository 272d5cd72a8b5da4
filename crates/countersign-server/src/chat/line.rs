//! Reads the person's lines, from a line editor on a terminal or from a pipe.

use std::io::BufRead as _;
use std::sync::mpsc::Sender;

use countersign_agent::message::Message;

use super::terminal::Terminal;
use super::typing::Typing;
use crate::failure::Failure;

/// Maximum bytes of a line from a pipe.
const LONGEST: usize = 64 * 1024;

/// One input from the person.
#[derive(Debug)]
pub enum Line {
    /// A line of text.
    Said {
        text: String,
        /// True if the person began to type before the current card appeared, so that the line cannot be a reply to it.
        is_older_than_card: bool,
    },
    /// A key that acts as a button.
    Pressed(Button),
    /// Ctrl-C on an empty line.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// Buttons of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Approves the selected calls.
    Yes,
    /// Denies the card.
    No,
}

/// Source of the person's input.
pub enum Lines {
    /// Line editor on a terminal.
    Terminal(Box<Terminal>),
    /// Plain lines from standard input, without line editing and without button keys.
    Pipe,
}

impl Lines {
    /// Creates the source. `said` is the conversation so far: on a terminal, the person's messages in it become the
    /// line editor's history.
    pub fn new(is_terminal: bool, said: &[Message], typing: &Typing) -> Result<Lines, Failure> {
        match is_terminal {
            true => Ok(Lines::Terminal(Box::new(Terminal::new(said, typing)?))),
            false => Ok(Lines::Pipe),
        }
    }

    /// Returns the sender for text printed above the line being typed; `None` if the input or the terminal does not
    /// support that.
    pub fn above(&self) -> Option<Sender<String>> {
        match self {
            Lines::Pipe => None,
            Lines::Terminal(terminal) => terminal.above(),
        }
    }

    /// Waits for the person's next input. Keys act as buttons only while a card is shown.
    pub async fn next(&mut self) -> Result<Line, Failure> {
        match self {
            Lines::Pipe => blocking(read_pipe).await?,
            Lines::Terminal(terminal) => terminal.next().await,
        }
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
    Ok(Line::Said {
        text: String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        is_older_than_card: false,
    })
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::error("input", error.to_string()))
}
