//! Models: turn a conversation into a stream of answer parts.
//!
//! Input: a [`Request`]. Output: parts in the order in which the model produced them, ending with a [`StopReason`]. A
//! stream that ends without one was cut off. Arguments of calls are the exact text that the model wrote.

mod anthropic;
mod openai;
mod script;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::message::{Message, ModelCall};
use crate::tool::Tool;

pub use anthropic::Anthropic;
pub use countersign_http_client::Proxy;
pub use openai::OpenAi;
pub use script::{BadScript, Script};
pub use transport::{ApiKey, Endpoint, RetryPolicy};

/// Maximum bytes of one answer, text and arguments together.
pub const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// A request to a model.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the role that sends the request: a specialist's name, `orchestrator` or `evaluator`. Only scripts use
    /// it.
    pub role: String,
    /// The system prompt.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tools that the model is offered.
    pub tools: Vec<Arc<Tool>>,
    /// If false, the model may not call tools and only answers with text.
    pub may_call: bool,
    /// Maximum number of tokens in the answer.
    pub most_tokens: u32,
}

/// Part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    /// The next piece of the answer's text.
    Text(String),
    /// A complete tool call.
    Call(ModelCall),
    /// Token usage so far; the last one counts.
    Usage(Usage),
    /// End of the answer.
    Stop(StopReason),
}

/// Reason why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    Done,
    /// The answer reached the token limit; its last call may be truncated.
    Length,
    /// The model or its provider declined to answer.
    Declined,
}

/// Token usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that the model read.
    pub input: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

impl Usage {
    /// Returns the sum of two usages, saturating.
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Error of a model. A text is the message of the provider or of the network. In every case no call of the answer runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No connection could be made.
    #[error("the model cannot be reached: {0}")]
    Unreachable(String),
    /// No answer arrived within this time.
    #[error("the model did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The provider answered with an error status.
    #[error("the model's service answered {status}: {message}")]
    Status {
        /// The status code.
        status: u16,
        /// Error message of the provider.
        message: String,
    },
    /// The request is longer than the model's context.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// The provider reported an error in the middle of an answer.
    #[error("the model's service stopped in the middle: {0}")]
    Failed(String),
    /// The answer's stream ended early.
    #[error("the model's answer was cut off: {0}")]
    CutOff(String),
    /// The answer could not be parsed.
    #[error("the model's answer cannot be read: {0}")]
    InvalidAnswer(String),
    /// The answer is larger than [`LARGEST_ANSWER`].
    #[error("the model's answer has more than {LARGEST_ANSWER} bytes")]
    TooLarge,
    /// No rule of the script matches.
    #[error("the script has no rule for this")]
    NoRule,
    /// A rule of the script failed; with the rule's number and the error.
    #[error("the script's rule {0} does not work: {1}")]
    BadRule(usize, String),
}

impl ModelError {
    /// Returns advice on what to do next.
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
            ModelError::InvalidAnswer(_) | ModelError::TooLarge => {
                "check that the URL belongs to an API of that kind"
            }
            ModelError::TooLong(_) => {
                "start a new session, give the agent fewer tools, or use a model with a larger context"
            }
            ModelError::NoRule => "say it in other words, or use a real model",
            ModelError::BadRule(..) => "mend the script",
        }
    }
}

/// Stream of the parts of an answer. Ends after [`AnswerPart::Stop`] or after an error.
pub type AnswerStream = BoxStream<'static, Result<AnswerPart, ModelError>>;

/// A language model, or a script in its place.
pub trait Model: Send + Sync + 'static {
    /// Requests an answer. Failures to connect and to decode are items of the stream.
    fn answer(&self, request: Request) -> AnswerStream;

    /// Returns a name for people, such as the model and its host.
    fn name(&self) -> String;
}
