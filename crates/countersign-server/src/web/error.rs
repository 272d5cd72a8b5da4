//! API errors, and the status code of each error of the library.
//!
//! Every error body is `{"error":{"code","message","hint"}}`, plus a few fields for programs on some errors.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::call::RefusalReason;
use countersign::command::{ExecuteRefusal, ProposeRefusal};
use countersign::decision::Refusal;
use countersign::gate::SubmitError;
use countersign::id::BadName;
use countersign::seal::SealError;
use countersign::state::CallState;
use countersign::store::StoreError;
use countersign_agent::agent::TurnError;
use countersign_agent::session::SessionError;
use serde_json::{Map, Value, json};

use crate::access::{AccessError, Scope};
use crate::service::ServiceError;
use crate::view::CallEnd;

/// Result of a handler.
pub type Answer<T> = Result<T, ApiError>;

/// Error response of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable error code for programs, such as `not_found`.
    pub code: &'static str,
    /// Message for people.
    pub message: String,
    /// Hint for the caller on how to proceed.
    pub hint: String,
    more: Map<String, Value>,
    retry_after: Option<Duration>,
}

/// `Retry-After` for a refusal that lasts until a person decides something.
const UNTIL_DECIDED: Duration = Duration::from_secs(10);

impl ApiError {
    /// Creates an error without extra fields.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ApiError {
        ApiError {
            status,
            code,
            message: message.into(),
            hint: hint.into(),
            more: Map::new(),
            retry_after: None,
        }
    }

    /// Adds an extra field to the error body.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> ApiError {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the time in `Retry-After`, a header that only 429 and 503 responses carry. Without a call of this method,
    /// the time is one second.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> ApiError {
        ApiError {
            retry_after: Some(wait),
            ..self
        }
    }

    /// Creates a 400 error: the request does not parse.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        let hint = "see /openapi.json for what this route takes";
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", message, hint)
    }

    /// Creates a 422 error: the request parses but contradicts itself or is out of range.
    pub fn unclear(message: impl Into<String>, hint: &str) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unclear", message, hint)
    }

    /// Creates a 404 error: the object does not exist or is not visible to the caller. The response does not tell
    /// which. `what` is the kind of object, such as `approval`.
    pub fn not_found(what: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no such {what}"),
            "check the id; approvals of others are not shown",
        )
    }

    /// Creates a 401 error: the credential is missing or invalid.
    pub fn unauthorized() -> ApiError {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs a valid token",
            "send `Authorization: Bearer TOKEN`; make one with `countersign token create`",
        )
    }

    /// Creates a 403 error: the credential has none of the needed scopes.
    pub fn wrong_scope(needed: &[Scope]) -> ApiError {
        let words: Vec<&str> = needed.iter().map(|scope| scope.as_str()).collect();
        ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_scope",
            format!("this credential has none of the scopes: {}", words.join(", ")),
            "use a credential with the right scope",
        )
    }

    /// Creates a 413 error: the content is too large.
    pub fn too_large(message: impl Into<String>) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            message,
            "send less data, or several requests",
        )
    }

    /// Creates a 429 error: a rate or concurrency limit is reached.
    pub fn too_many(message: impl Into<String>) -> ApiError {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many",
            message,
            "wait a moment and try again",
        )
    }

    /// Creates a 503 error: the service is shutting down.
    pub fn stopping() -> ApiError {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the service is stopping and starts nothing new",
            "try again in a moment",
        )
    }

    /// Creates a 500 error: a bug, or a failure that should be impossible.
    pub fn internal() -> ApiError {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "internal error",
            "see its log",
        )
    }

    /// Returns the value of the `Retry-After` header, rounded up to whole seconds; `None` for a status other than 429
    /// and 503.
    pub fn retry_header(&self) -> Option<HeaderValue> {
        let again = matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let wait = self.retry_after.unwrap_or(Duration::from_secs(1));
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        again.then(|| u64::try_from(seconds).unwrap_or(u64::MAX).into())
    }

    /// Creates a 408 error: the request body did not arrive in time.
    pub fn too_slow() -> ApiError {
        ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body of the request did not arrive in time",
            "send the whole body again without pauses",
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let retry = self.retry_header();
        let for_page = PageError(Arc::new(self.clone()));
        let mut error = self.more;
        error.insert("code".to_owned(), self.code.into());
        error.insert("message".to_owned(), self.message.into());
        error.insert("hint".to_owned(), self.hint.into());
        let mut response = (self.status, Json(json!({ "error": error }))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(retry) = retry {
            headers.insert(header::RETRY_AFTER, retry);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(for_page);
        response
    }
}

/// Error that a response was made of. The guard shows it as a page if a browser asked for one.
#[derive(Clone, Debug)]
pub(super) struct PageError(pub(super) Arc<ApiError>);

/// 400 for a text that is not a valid name; 422 for a name that is reserved, or could be taken for another one.
impl From<BadName> for ApiError {
    fn from(problem: BadName) -> ApiError {
        match problem {
            BadName::Reserved(..) | BadName::Blanks(_) => {
                ApiError::unclear(problem.to_string(), "choose another name")
            }
            _ => ApiError::bad_request(problem.to_string()),
        }
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> ApiError {
        match error {
            ServiceError::Refused(refusal) => refusal.into(),
            ServiceError::NotRecorded(refusal) => refusal.into(),
            ServiceError::Store(error) => error.into(),
            ServiceError::NotFound(what) => ApiError::not_found(what),
            ServiceError::NotValid => ApiError::unauthorized(),
            ServiceError::WrongScope(needed) => ApiError::wrong_scope(needed),
            ServiceError::NotAnApprover(person) => ApiError::new(
                StatusCode::FORBIDDEN,
                "not_allowed",
                format!("`{person}` may not record the outcome of this call"),
                "ask one of its approvers",
            ),
            ServiceError::RunsElsewhere(call) => ApiError::new(
                StatusCode::CONFLICT,
                "runs_elsewhere",
                format!("call `{call}` is run by the service or by a gateway"),
                "wait for its outcome with `waitFor=finished`",
            ),
            ServiceError::TooLong(message) => ApiError::too_large(message),
            ServiceError::TooMany(message, wait) => {
                let error = ApiError::too_many(message);
                match wait {
                    Some(wait) => error.retry_after(wait),
                    None => error,
                }
            }
            ServiceError::Stopping => ApiError::stopping(),
            ServiceError::Internal => ApiError::internal(),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let status = match &refusal {
            Refusal::NotFound(_) => return ApiError::not_found("approval"),
            Refusal::AlreadyDecided { .. }
            | Refusal::Superseded { .. }
            | Refusal::Withdrawn { .. }
            | Refusal::NotAsked { .. }
            | Refusal::Stale { .. }
            | Refusal::Incomplete { .. }
            | Refusal::Concealed { .. }
            | Refusal::AlreadyEndorsed { .. }
            | Refusal::KeyReused(_) => StatusCode::CONFLICT,
            Refusal::Expired { .. } => StatusCode::GONE,
            Refusal::NotAllowed { .. }
            | Refusal::FourEyes { .. }
            | Refusal::SurfaceTooWeak { .. }
            | Refusal::EditNotAlone { .. } => StatusCode::FORBIDDEN,
            Refusal::BadChoices { .. } | Refusal::BadEdit { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::CONFLICT,
        };
        let error = ApiError::new(status, refusal.code(), refusal.to_string(), refusal.hint());
        match refusal {
            Refusal::AlreadyDecided { state, by, at, .. } => error
                .with("status", state.as_str())
                .with("decidedBy", by.to_string())
                .with("decidedAt", at.to_string()),
            Refusal::Superseded { by, .. } => error.with("supersededBy", by.to_string()),
            Refusal::Stale { digest, .. } => error.with("digest", digest.to_string()),
            Refusal::Expired { at, .. } => error.with("expiredAt", at.to_string()),
            _ => error,
        }
    }
}

impl From<ExecuteRefusal> for ApiError {
    fn from(refusal: ExecuteRefusal) -> ApiError {
        let (status, hint) = match &refusal {
            ExecuteRefusal::NotFound(_) => return ApiError::not_found("call"),
            ExecuteRefusal::WrongState { .. } => (StatusCode::CONFLICT, "look at the approval"),
            ExecuteRefusal::EarlierFirst { .. } => (StatusCode::CONFLICT, "calls run in proposed order"),
            ExecuteRefusal::NothingToUndo { .. } => (StatusCode::CONFLICT, "there is nothing left to undo"),
            ExecuteRefusal::NotLookedAt(_) => (StatusCode::CONFLICT, "start it through the service"),
            ExecuteRefusal::NotAsShown {
                successor, because, ..
            } => {
                let error = ApiError::new(
                    StatusCode::CONFLICT,
                    refusal.code(),
                    refusal.to_string(),
                    match successor {
                        Some(_) => "a person is asked again, with the current content",
                        None => "look at it, and propose again",
                    },
                );
                let error = with_state(error, CallState::Refused, Some(because));
                return match successor {
                    Some(successor) => error.with("proposedAgain", successor.to_string()),
                    None => error,
                };
            }
            ExecuteRefusal::NotYourPermit(_) => (
                StatusCode::FORBIDDEN,
                "only the caller that started a call can finish it",
            ),
            _ => (StatusCode::CONFLICT, "look at the approval"),
        };
        let error = ApiError::new(status, refusal.code(), refusal.to_string(), hint);
        match &refusal {
            ExecuteRefusal::WrongState { state, because, .. } => with_state(error, *state, because.as_ref()),
            ExecuteRefusal::NothingToUndo { .. } => {
                with_state(error, CallState::Refused, Some(&RefusalReason::NothingToUndo))
            }
            _ => error,
        }
    }
}

/// Adds the state of a call and how it ended, so that a program need not read the approval.
fn with_state(error: ApiError, state: CallState, because: Option<&RefusalReason>) -> ApiError {
    let end = CallEnd::of(state, because).map(CallEnd::as_str);
    error.with("state", state.as_str()).with("end", end)
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> ApiError {
        let message = error.to_string();
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::CallCount(_) | SubmitError::UndoWithCalls(_) => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "call_count",
                message,
                "propose them in several batches",
            ),
            SubmitError::ClaimTooLong(_) => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "claim_too_long",
                message,
                "say it shorter",
            ),
            SubmitError::TtlTooLong { limit, .. } => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "ttl_too_long",
                message,
                "ask for less time, or set a longer `ttl` for the tool, or under `[channel]`, in the policy",
            )
            .with("longestTtlMs", u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            SubmitError::StartWithinTooLong { limit, .. } => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "start_within_too_long",
                message,
                "ask for less time, or set a longer `start_within` for the tool in the policy",
            )
            .with(
                "longestStartWithinMs",
                u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            ),
            SubmitError::NotAskable(..) => {
                let (message, hint) = message
                    .split_once("\nhint: ")
                    .unwrap_or((&message, "correct it and ask again"));
                ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "forbidden", message, hint)
            }
            SubmitError::Seal(problem) => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "seal",
                message,
                match problem {
                    SealError::TooLarge | SealError::NotVisible => {
                        "send a credential of printable ASCII characters, or its base64 form"
                    }
                    _ => "the service needs a sealing key: `countersign key generate`",
                },
            ),
            SubmitError::Refused(ProposeRefusal::KeyReused(_)) => ApiError::new(
                StatusCode::CONFLICT,
                "key_reused",
                message,
                "use a new key for a new proposal",
            ),
            SubmitError::Refused(ProposeRefusal::ChannelTaken(_)) => ApiError::new(
                StatusCode::CONFLICT,
                "channel_taken",
                message,
                "propose in a channel of your own; the policy's `[channel] shared` lists those that agents share",
            ),
            SubmitError::Refused(ProposeRefusal::TooManyPending { .. }) => ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_pending",
                message,
                "wait until people have decided what is pending; `[agents] most_pending` in the policy sets the limit",
            )
            .retry_after(UNTIL_DECIDED),
            SubmitError::TooFast { retry_after } => ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_fast",
                message,
                "wait that long, or put several calls into one proposal; `[agents] proposals_per_minute` in the policy sets the rate",
            )
            .retry_after(retry_after),
            SubmitError::Refused(ProposeRefusal::DeniedLately { .. }) => ApiError::new(
                StatusCode::CONFLICT,
                "denied_lately",
                message,
                "propose something else, or ask a person why",
            ),
            SubmitError::NoUndo(..) => {
                let message = message.split("\nhint:").next().unwrap_or_default().to_owned();
                ApiError::new(StatusCode::CONFLICT, "no_undo", message, "undo it by hand")
            }
            _ => ApiError::new(StatusCode::CONFLICT, "refused", message, "look at the approval"),
        }
    }
}

/// Logs the store's error; the response reveals only its kind.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        let busy =
            |code, message: &str| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message, error.hint());
        let answer = match &error {
            StoreError::Unavailable(_) => busy("store_unavailable", "the store cannot be reached"),
            StoreError::Busy(_) => busy("store_busy", "the store is busy"),
            StoreError::Full(_) => busy("store_full", "the store is full"),
            StoreError::InDoubt(_) => busy("in_doubt", "it is unknown whether this was written"),
            StoreError::Stopped(_) => busy("store_stopped", "the store stopped"),
            _ => ApiError::internal(),
        };
        tracing::error!(code = answer.code, "the store failed: {error}");
        answer
    }
}

impl From<TurnError> for ApiError {
    fn from(error: TurnError) -> ApiError {
        match error {
            TurnError::Store(error) | TurnError::Session(SessionError::Store(error)) => error.into(),
            other => ApiError::new(StatusCode::CONFLICT, "no_answer", other.to_string(), other.hint()),
        }
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> ApiError {
        let message = error.to_string();
        match error {
            AccessError::Store(error) => error.into(),
            AccessError::NotAllowed(_) => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "not_acceptable",
                message,
                "ask for less",
            ),
            AccessError::Exists(_) => {
                ApiError::new(StatusCode::CONFLICT, "exists", message, "choose another name")
            }
            AccessError::NotFound(_) => {
                ApiError::new(StatusCode::NOT_FOUND, "not_found", message, "check the name")
            }
        }
    }
}
