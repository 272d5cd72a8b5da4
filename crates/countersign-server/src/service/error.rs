//! Errors of the service, which each surface shows in its own way.

use std::time::Duration;

use countersign::command::ExecuteRefusal;
use countersign::decision::Refusal;
use countersign::id::{CallId, Person};
use countersign::store::StoreError;

use crate::access::Scope;

/// Reason why the service refuses a request.
#[derive(Debug)]
pub enum ServiceError {
    /// The gate refused the decision.
    Refused(Refusal),
    /// The gate refused to record the outcome of a call.
    NotRecorded(ExecuteRefusal),
    /// The store failed.
    Store(StoreError),
    /// The object does not exist, or the caller may not see it; with the kind of object, such as `approval`.
    NotFound(&'static str),
    /// The credential is no longer valid.
    NotValid,
    /// The credential has none of these scopes.
    WrongScope(&'static [Scope]),
    /// This person cannot record the outcome of the call, because the person is not one of its approvers.
    NotAnApprover(Person),
    /// An agent wants to start a call that the service, or a gateway, runs itself.
    RunsElsewhere(CallId),
    /// A text is too long; contains a message with the limit.
    TooLong(String),
    /// A rate or concurrency limit is reached; contains a message and, if it is known, the time to wait.
    TooMany(String, Option<Duration>),
    /// The service is shutting down.
    Stopping,
    /// A failure that should be impossible.
    Internal,
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> ServiceError {
        ServiceError::Refused(refusal)
    }
}

impl From<ExecuteRefusal> for ServiceError {
    fn from(refusal: ExecuteRefusal) -> ServiceError {
        ServiceError::NotRecorded(refusal)
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        ServiceError::Store(error)
    }
}
