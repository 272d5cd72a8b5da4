//! Models: from a conversation to a stream of parts.
//!
//! Enters: a [`Request`]. Leaves: parts in the order in which the model made them, the last of them a [`Stop`]. A
//! stream that ends without one was cut off. Arguments of calls are the exact text the model wrote.

mod anthropic;
mod openai;
mod script;
mod sse;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::message::{Message, ModelCall};
use crate::tool::Tool;

pub use anthropic::Anthropic;
pub use openai::OpenAi;
pub use script::{BadScript, Script};
pub use wire::{ApiKey, Endpoint, Patience};

/// The most bytes of one answer, text and arguments together.
pub const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks: a specialist's name, `orchestrator` or `evaluator`. Only scripts look at it.
    pub role: String,
    /// The system prompt.
    pub system: String,
    /// What was said.
    pub messages: Vec<Message>,
    /// What it may call.
    pub tools: Vec<Arc<Tool>>,
    /// Whether it may call at all; otherwise it only explains.
    pub may_call: bool,
    /// The most it may write.
    pub most_tokens: u32,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Some more text.
    Text(String),
    /// A whole tool call.
    Call(ModelCall),
    /// What it took so far; the last one counts.
    Usage(Usage),
    /// The end, and why.
    Stop(Stop),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is whole.
    Done,
    /// It was cut at its longest: its last call may be half a call.
    Length,
    /// The model, or whoever runs it, would not answer.
    Declined,
}

/// What answers took, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
}

impl Usage {
    /// Both together.
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Why there is no answer, or no more of it. In every case nothing of it runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nobody there.
    #[error("the model cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("the model did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It answered that something is wrong.
    #[error("the model's service answered {status}: {message}")]
    Status {
        /// The status code.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It reported an error in the middle of an answer.
    #[error("the model's service stopped in the middle: {0}")]
    Failed(String),
    /// It ended without an end.
    #[error("the model's answer was cut off: {0}")]
    CutOff(String),
    /// It cannot be understood.
    #[error("the model's answer cannot be read: {0}")]
    Garbage(String),
    /// It is too long.
    #[error("the model's answer has more than {LARGEST_ANSWER} bytes")]
    TooLarge,
    /// A script has nothing to say to this.
    #[error("the script has no rule for this")]
    NoRule,
    /// A script's rule does not work.
    #[error("the script's rule {0} does not work: {1}")]
    BadRule(usize, String),
}

impl ModelError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            ModelError::Unreachable(_) => "check the address and that the service is running",
            ModelError::TimedOut(_) => "try again, or use a faster model",
            ModelError::Status {
                status: 401 | 403, ..
            } => "check the key",
            ModelError::Status { status: 404, .. } => "check the address and the model's name",
            ModelError::Status {
                status: 429 | 529, ..
            } => "wait a moment, then say it again",
            ModelError::Status {
                status: 400..=499, ..
            } => "check the model's name, and what its service says about the request",
            ModelError::Status { .. } | ModelError::Failed(_) | ModelError::CutOff(_) => "say it again",
            ModelError::Garbage(_) | ModelError::TooLarge => {
                "check that the address speaks the dialect it was given for"
            }
            ModelError::NoRule => "say it in other words, or use a real model",
            ModelError::BadRule(..) => "mend the script",
        }
    }
}

/// An answer as it comes.
pub type Parts = BoxStream<'static, Result<Part, ModelError>>;

/// A model.
pub trait Model: Send + Sync + 'static {
    /// Answers.
    fn answer(&self, request: Request) -> Parts;

    /// What people call it.
    fn name(&self) -> String;
}
