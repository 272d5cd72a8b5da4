//! Error pages: what happened, what to do now, and a way back.
//!
//! Input: an error. Output: words for the page, in the person's language. An error whose own words are only in English
//! is explained by its kind, and its words follow as a detail.

use axum::http::StatusCode;
use serde::Serialize;

use super::card::shown;
use super::language::{Language, say};
use super::page::sentence;
use crate::web::ApiError;

/// Words of an error page.
#[derive(Debug, Serialize)]
pub struct Explained {
    pub heading: &'static str,
    pub message: String,
    pub hint: String,
    /// The error's own words, if `message` says it in other words.
    pub detail: Option<String>,
    /// True if the person has to sign in first. Otherwise the way back leads to the inbox.
    pub is_signed_out: bool,
}

/// Explains an error to a person.
pub fn explain(error: &ApiError) -> Explained {
    let kind = Kind::of(error);
    let (heading, message, hint) = kind.words();
    let own = error.message.split("\nhint: ").next().unwrap_or_default();
    let own = sentence(&shown(own));
    // An internal error says nothing to a person, and other errors say it in English.
    let is_own = Language::current() == Language::English && kind != Kind::Fault;
    let is_signed_out = kind == Kind::SignedOut;
    match is_own {
        true => Explained {
            heading: say(heading),
            message: own,
            hint: sentence(&error.hint),
            detail: None,
            is_signed_out,
        },
        false => Explained {
            heading: say(heading),
            message: say(message).to_owned(),
            hint: say(hint).to_owned(),
            detail: (kind != Kind::Fault).then_some(own),
            is_signed_out,
        },
    }
}

/// Kinds of errors, as far as a person has to do something different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SignedOut,
    NotFound,
    NotAllowed,
    TooLarge,
    TooMany,
    Gone,
    Conflict,
    Unavailable,
    Fault,
    Bad,
}

impl Kind {
    fn of(error: &ApiError) -> Kind {
        match error.status {
            StatusCode::UNAUTHORIZED => Kind::SignedOut,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Kind::NotFound,
            StatusCode::FORBIDDEN => Kind::NotAllowed,
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge,
            StatusCode::TOO_MANY_REQUESTS => Kind::TooMany,
            StatusCode::GONE => Kind::Gone,
            StatusCode::CONFLICT => Kind::Conflict,
            StatusCode::SERVICE_UNAVAILABLE => Kind::Unavailable,
            status if status.is_server_error() => Kind::Fault,
            _ => Kind::Bad,
        }
    }

    /// Returns a heading, what happened and what to do.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::SignedOut => (
                "You are signed out",
                "Your session has ended, so nothing was done.",
                "Sign in and do it again.",
            ),
            Kind::NotFound => (
                "There is nothing here",
                "This address leads nowhere, or to something that only others may see.",
                "Check the address, or start from the inbox.",
            ),
            Kind::NotAllowed => (
                "You may not do this",
                "The service refused this, and nothing was done.",
                "Ask somebody who may, or an operator of this service.",
            ),
            Kind::TooLarge => (
                "This is too large",
                "The service does not take that much at once, and nothing was done.",
                "Go back and shorten it.",
            ),
            Kind::TooMany => (
                "That was too much at once",
                "The service takes only so many requests, and nothing was done.",
                "Wait a moment and try again.",
            ),
            Kind::Gone => (
                "Too late",
                "The time for this decision is over, and nothing was done.",
                "Ask the agent to propose it again.",
            ),
            Kind::Conflict => (
                "Not done",
                "Something has changed since the page was made, and nothing was done.",
                "Look at it again, then decide.",
            ),
            Kind::Unavailable => (
                "Not available right now",
                "The service is busy, or is about to stop.",
                "Try again in a moment. If you were deciding something, look in the inbox first whether it was recorded.",
            ),
            Kind::Fault => (
                "Something went wrong here",
                "The service could not do this, and it is not your fault.",
                "If you were deciding something, look in the inbox whether it was recorded. If this happens again, tell an operator: the service’s log says more.",
            ),
            Kind::Bad => (
                "Not done",
                "The service did not understand this, and nothing was done.",
                "Go back and correct it.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_is_explained_in_spanish() {
        for status in [400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = ApiError::new(status, "code", "own words", "own hint");
            let english = explain(&error);
            let spanish = Language::Spanish.within(|| explain(&error));
            assert_ne!(english.heading, spanish.heading, "{status}");
            assert_ne!(english.hint, spanish.hint, "{status}");
            assert!(
                !spanish.message.starts_with("The"),
                "{status}: {}",
                spanish.message
            );
        }
    }
}
