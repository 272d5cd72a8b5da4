//! The reason why a reply was read as it was, for logs, tests and people.

use std::fmt;

/// Reason for a reading. A `String` in a variant is the whole reply, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The words that decided.
    Words(Vec<String>),
    /// The whole reply is a label, or one side of a pair, that was offered.
    Offered(String),
    /// The reply has this word, which fits no known phrase.
    Unknown(String),
    /// The reply is a question.
    Question,
    /// The reply can be read as a yes and as a no.
    Ambiguous(String),
    /// The reply is understood, but says neither yes nor no.
    Undecided(String),
    /// The reply is only a greeting or another courtesy.
    Courtesy(String),
    /// Only a filler such as "ok", which is not enough for this offer.
    Filler(String),
    /// The reply sounds like a yes, but is not plain enough for a card.
    NotPlain(String),
    /// The reply has a bare number, which may be one call's position or a count of calls.
    WhichOnes(String),
    /// The reply names calls by numbers, and a value of another call is such a number.
    WhichPlaces(String),
    /// The reply has this character, which suggests that a program wrote it.
    Code(char),
    /// The reply has this character, which is invisible or reorders text.
    Hidden(char),
    /// The reply is too long for a plain answer.
    TooLong,
    /// The reply has no words.
    Empty,
}

impl Why {
    /// Returns true if the reply seems to answer the card but has more than one possible meaning. The person is then
    /// asked again.
    pub fn is_unclear(&self) -> bool {
        matches!(
            self,
            Why::Ambiguous(_) | Why::NotPlain(_) | Why::WhichOnes(_) | Why::WhichPlaces(_)
        )
    }
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
            Why::NotPlain(text) => write!(f, "`{text}` is not a plain yes"),
            Why::WhichOnes(text) => {
                write!(f, "`{text}` may be a number of calls, or the call of that number")
            }
            Why::WhichPlaces(text) => {
                write!(
                    f,
                    "`{text}` may be the call of that number, or the call with that value"
                )
            }
            Why::Code(c) => write!(f, "`{c}` is not part of a plain answer"),
            Why::Hidden(c) => write!(f, "it hides the character U+{:04X}", u32::from(*c)),
            Why::TooLong => f.write_str("it is longer than a plain answer"),
            Why::Empty => f.write_str("it has no words"),
        }
    }
}
