//! The person's lines: edited on a terminal, taken as they come from a pipe.

use std::io::BufRead as _;
use std::sync::mpsc::Sender;

use countersign_agent::message::Message;

use super::terminal::Terminal;
use super::typing::Typing;
use crate::failure::Failure;

/// The longest line that is taken.
const LONGEST: usize = 64 * 1024;

/// What came.
#[derive(Debug)]
pub enum Line {
    /// Words.
    Said {
        /// Which.
        text: String,
        /// They were begun before the card that stands now: they cannot be an answer to it.
        is_older_than_card: bool,
    },
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
    /// Approves what is chosen.
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

impl Lines {
    /// Lines from a terminal, with what the person said before to go back to; or from a pipe.
    pub fn new(is_terminal: bool, said: &[Message], typing: &Typing) -> Result<Lines, Failure> {
        match is_terminal {
            true => Ok(Lines::Terminal(Box::new(Terminal::new(said, typing)?))),
            false => Ok(Lines::Pipe),
        }
    }

    /// The way to print above what is being typed, if there is one.
    pub fn above(&self) -> Option<Sender<String>> {
        match self {
            Lines::Pipe => None,
            Lines::Terminal(terminal) => terminal.above(),
        }
    }

    /// The next line. Keys are buttons only while there is a card.
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
