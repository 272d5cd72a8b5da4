//! Why a reply was read as it was: for logs, for tests, and for people who wonder.

use std::fmt;

/// The reason of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// These words decided.
    Words(Vec<String>),
    /// The whole reply is what the prompt offered.
    Offered(String),
    /// No piece goes on with this word.
    Unknown(String),
    /// It asks something.
    Question,
    /// It says yes in one way of reading it and no in another.
    Ambiguous(String),
    /// It is understood, and says neither yes nor no.
    Undecided(String),
    /// It greets, or says nothing else that matters.
    Courtesy(String),
    /// Too little for something that cannot be taken back.
    Filler(String),
    /// It is written as a program writes: this character is in it.
    Code(char),
    /// It has a character that cannot be seen.
    Hidden(char),
    /// It is too long for a plain answer.
    TooLong,
    /// It has no words.
    Empty,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Words(words) => {
                for (index, word) in words.iter().enumerate() {
                    write!(f, "{}`{word}`", if index > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Why::Offered(text) => write!(f, "`{text}` is what was offered"),
            Why::Unknown(word) => write!(f, "`{word}` is not part of a plain answer"),
            Why::Question => f.write_str("it asks something"),
            Why::Ambiguous(text) => write!(f, "`{text}` can mean yes and no"),
            Why::Undecided(text) | Why::Courtesy(text) => write!(f, "`{text}` says neither yes nor no"),
            Why::Filler(text) => write!(f, "`{text}` is too little here"),
            Why::Code(c) => write!(f, "`{c}` is not part of a plain answer"),
            Why::Hidden(c) => write!(f, "it hides the character U+{:04X}", u32::from(*c)),
            Why::TooLong => f.write_str("it is longer than a plain answer"),
            Why::Empty => f.write_str("it has no words"),
        }
    }
}
