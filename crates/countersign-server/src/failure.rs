//! Failures of commands, and exit codes.

use std::borrow::Cow;

use countersign::command::{ExecuteRefusal, ProposeRefusal};
use countersign::decision::Refusal;
use countersign::gate::SubmitError;
use countersign::store::StoreError;

use crate::access::AccessError;

/// How a command ended. The exit codes are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Done,
    /// An error outside the gate: in a file, the store or the input.
    Error,
    /// The command line is invalid.
    Usage,
    /// The policy forbids a call.
    Forbidden,
    /// The gate refused the action, for example because it came too late or twice.
    Refused,
    /// The command waited, and the approval ended without being approved.
    NotApproved,
    /// The command waited, and nothing was decided in time.
    TimedOut,
    /// The call was approved and started, but failed or its outcome is unknown.
    CallFailed,
    /// The person pressed Ctrl-C.
    Interrupted,
    /// The MCP server behind the gateway ended, with this exit code.
    Server(u8),
}

impl Exit {
    /// Returns the number with which the process exits. Scripts rely on these numbers.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Forbidden => 3,
            Exit::Refused => 4,
            Exit::NotApproved => 5,
            Exit::TimedOut => 6,
            Exit::CallFailed => 7,
            Exit::Interrupted => 130,
            Exit::Server(code) => code,
        }
    }
}

/// An error with a message, a hint, a code for programs and an exit code.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Stable code for programs, such as `not_found`.
    pub code: Cow<'static, str>,
    /// Message for people. May quote foreign text, which is escaped on output.
    pub message: String,
    /// Advice on what to do next, if there is any. A borrowed hint is text of this program; an owned one may quote
    /// foreign text.
    pub hint: Option<Cow<'static, str>>,
}

impl Failure {
    /// Creates an error with [`Exit::Error`]. A `hint:` line at the end of the message becomes the hint.
    pub fn error(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Failure {
        Failure::with(Exit::Error, code, message)
    }

    /// Creates an error about the command line, for mistakes that clap does not detect.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::with(Exit::Usage, "usage", message)
    }

    /// Creates a failure with any exit code.
    pub fn with(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Failure {
        let message = message.into();
        let (message, hint) = match message.split_once("\nhint: ") {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned().into())),
            None => (message, None),
        };
        Failure {
            exit,
            code: code.into(),
            message,
            hint,
        }
    }

    /// Sets the hint, replacing an earlier one.
    pub fn hint(self, hint: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let code = match &error {
            StoreError::Unavailable(_) => "store_unavailable",
            StoreError::Busy(_) => "store_busy",
            StoreError::Full(_) => "store_full",
            StoreError::InDoubt(_) => "store_in_doubt",
            StoreError::Stopped(_) => "store_stopped",
            StoreError::Impossible(_) => "store_impossible",
            _ => "store_failed",
        };
        let hint = error.hint();
        Failure::error(code, error.to_string()).hint(hint)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let failure = Failure::with(Exit::Refused, refusal.code(), refusal.to_string());
        // A message about arguments that cannot be parsed already contains a more specific hint.
        match failure.hint {
            Some(_) => failure,
            None => failure.hint(refusal.hint()),
        }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        let message = error.to_string();
        match error {
            AccessError::Store(error) => error.into(),
            AccessError::NotAllowed(_) => Failure::error("not_acceptable", message).hint("see `--help`"),
            AccessError::Exists(_) => Failure::error("exists", message).hint("choose another name"),
            AccessError::NotFound(_) => {
                Failure::error("not_found", message).hint(
                    "see `countersign person list` and `token list`; add a person with `countersign person add NAME`",
                )
            }
        }
    }
}

impl From<ExecuteRefusal> for Failure {
    fn from(refusal: ExecuteRefusal) -> Failure {
        let hint = match &refusal {
            ExecuteRefusal::NotFound(_) => "find it with `countersign list --all`",
            ExecuteRefusal::WrongState { .. } => "look at it with `countersign show`",
            ExecuteRefusal::EarlierFirst { .. } => "calls run in proposed order",
            ExecuteRefusal::NothingToUndo { .. } => "there is nothing left to undo",
            ExecuteRefusal::NotLookedAt(_) => "start it through the service",
            ExecuteRefusal::NotAsShown { .. } => "check the current content and the new approval",
            ExecuteRefusal::NotYourPermit(_) => "only the caller that started a call can finish it",
            _ => "look at it with `countersign show`",
        };
        Failure::with(Exit::Refused, refusal.code(), refusal.to_string()).hint(hint)
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Failure {
        let message = error.to_string();
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::CallCount(_) | SubmitError::UndoWithCalls(_) => {
                Failure::error("call_count", message).hint("propose them in several batches")
            }
            SubmitError::ClaimTooLong(_) => Failure::error("claim_too_long", message).hint("say it shorter"),
            SubmitError::NotAskable(..) => Failure::with(Exit::Forbidden, "forbidden", message),
            SubmitError::Seal(_) => Failure::error("seal", message)
                .hint("make a key with `countersign key generate` and name it with `--seal-key-file`"),
            SubmitError::Refused(ProposeRefusal::ChannelTaken(_)) => Failure::with(
                Exit::Refused,
                "channel_taken",
                message,
            )
            .hint(
                "propose in another channel; the policy's `[channel] shared` lists those that agents share",
            ),
            SubmitError::Refused(ProposeRefusal::TooManyPending { .. }) => {
                Failure::with(Exit::Refused, "too_many_pending", message)
                    .hint("first decide or withdraw what is pending")
            }
            SubmitError::TooFast { .. } => {
                Failure::with(Exit::Refused, "too_fast", message).hint("wait that long and try again")
            }
            SubmitError::Refused(ProposeRefusal::DeniedLately { .. }) => {
                Failure::with(Exit::Refused, "denied_lately", message)
                    .hint("propose something else, or ask a person why")
            }
            SubmitError::Refused(ProposeRefusal::KeyReused(_)) => {
                Failure::with(Exit::Refused, "key_reused", message).hint("use a new key for a new proposal")
            }
            SubmitError::NoUndo(..) => {
                let failure = Failure::with(Exit::Refused, "no_undo", message);
                match failure.hint {
                    Some(_) => failure,
                    None => failure.hint("undo it by hand"),
                }
            }
            _ => Failure::with(Exit::Refused, "refused", message).hint("undo only what succeeded"),
        }
    }
}
