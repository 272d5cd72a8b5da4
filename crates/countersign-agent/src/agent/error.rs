//! Why a turn ended early. In every case the session is intact, and what did not start does not run.

use countersign::gate::SubmitError;
use countersign::store::StoreError;

use crate::model::ModelError;
use crate::session::SessionError;

/// The longest message of a person.
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// Why a turn ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session did not take a step.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The gate could not take the calls.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's answer was longer than allowed.
    #[error("the model's answer was cut off at its longest, so nothing of it was run")]
    TooLong,
    /// The model would not answer.
    #[error("the model declined to answer")]
    Declined,
    /// The model does not come to an end.
    #[error("the model was asked {0} times and did not come to an end")]
    TooManySteps(u32),
    /// The model asks for the same again and again.
    #[error("the model called `{tool}` {times} times with the same arguments")]
    Repeats {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// Nobody needs so many words.
    #[error("a message has at most {LONGEST_MESSAGE} bytes, not {0}")]
    MessageTooLong(usize),
    /// The agent has nobody who could answer.
    #[error("the agent has no specialist")]
    Nobody,
    /// A button of no card.
    #[error("this button belongs to no card")]
    NoSuchCard,
}

impl TurnError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            TurnError::Store(error) => error.hint(),
            TurnError::Session(error) => error.hint(),
            TurnError::Submit(SubmitError::Store(error)) => error.hint(),
            TurnError::Submit(_) => "say it in other words",
            TurnError::Model(error) => error.hint(),
            TurnError::MessageTooLong(_) => "say it shorter, or put it into a file that a tool can read",
            TurnError::TooLong | TurnError::TooManySteps(_) => "ask for less at once",
            TurnError::Declined | TurnError::Repeats { .. } => "say it in other words",
            TurnError::Nobody => "add a `[specialists.NAME]` to the agent's file",
            TurnError::NoSuchCard => "look at the current card",
        }
    }
}
