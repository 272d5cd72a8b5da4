//! Errors that end a turn early. The session stays intact, and calls that have not started do not run.

use countersign::gate::SubmitError;
use countersign::store::StoreError;

use crate::model::ModelError;
use crate::session::SessionError;

/// Maximum length of a person's message, in bytes.
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// Reason why a turn ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A step could not be added to the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The gate could not process the submission.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's answer reached the token limit and was cut off.
    #[error("the model's answer was cut off at its longest, so nothing of it was run")]
    AnswerTooLong,
    /// The model declined to answer.
    #[error("the model declined to answer")]
    Declined,
    /// The model was still calling tools after this many steps, which is the maximum.
    #[error("the model was asked {0} times and did not come to an end")]
    TooManySteps(u32),
    /// The model repeated the same call too often.
    #[error("the model called `{tool}` {times} times with the same arguments")]
    RepeatedCall {
        /// Name of the tool.
        tool: String,
        /// Number of times that the call occurred in the turn.
        times: u32,
    },
    /// The person's message has this many bytes, which is more than [`LONGEST_MESSAGE`].
    #[error("a message has at most {LONGEST_MESSAGE} bytes, not {0}")]
    MessageTooLong(usize),
    /// The agent has no specialist.
    #[error("the agent has no specialist")]
    NoSpecialist,
    /// The button's payload belongs to no card in this channel.
    #[error("this button belongs to no card")]
    NoSuchCard,
}

impl TurnError {
    /// Returns advice on what to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            TurnError::Store(error) => error.hint(),
            TurnError::Session(error) => error.hint(),
            TurnError::Submit(SubmitError::Store(error)) => error.hint(),
            TurnError::Submit(_) => "say it in other words",
            TurnError::Model(error) => error.hint(),
            TurnError::MessageTooLong(_) => "say it shorter, or put it into a file that a tool can read",
            TurnError::AnswerTooLong | TurnError::TooManySteps(_) => "ask for less at once",
            TurnError::Declined | TurnError::RepeatedCall { .. } => "say it in other words",
            TurnError::NoSpecialist => "add a `[[specialist]]` to the agent's file",
            TurnError::NoSuchCard => "look at the current card",
        }
    }
}
