//! HTTP requests to a Countersign server, with error messages for people.
//!
//! The operator chooses the server, so private addresses are allowed. The token is never sent without TLS, except to
//! this machine.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use countersign::id::Key;
use countersign::seal::Secret;
use countersign_http_client::{AllowedTargets, Client, RequestError, Response, StreamedResponse, Target};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::credential;
use crate::failure::{Exit, Failure};

/// Time limit for a response, in addition to the duration of a long poll.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// Largest response, in bytes. A page of 500 approvals with the largest arguments is smaller.
const LARGEST_ANSWER: usize = 128 * 1024 * 1024;

/// Connection settings for a server: its address and the API token.
pub struct Server {
    client: Client,
    base: Target,
    token: Secret,
}

/// A request to the server.
pub struct Question<'a> {
    pub method: Method,
    /// Path below the server's base URL.
    pub path: &'a str,
    /// Idempotency key, sent as a header.
    pub key: Option<&'a Key>,
    /// JSON body; empty for GET.
    pub body: Bytes,
    pub within: Duration,
}

impl Server {
    /// Creates the settings for requests to the server at `url`. Refuses a URL over which the token would be sent
    /// unencrypted (H02).
    pub fn new(url: &str, token: Secret) -> Result<Server, Failure> {
        let base = target(url)?;
        Ok(Server {
            client: Client::new(AllowedTargets::one(base.host_and_port()), LARGEST_ANSWER),
            base,
            token,
        })
    }

    /// Sends a GET request and parses the JSON response.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.get_within(path, ANSWERS_WITHIN).await
    }

    /// Like [`Server::get`], with another time limit for the response.
    pub async fn get_within<T: DeserializeOwned>(&self, path: &str, within: Duration) -> Result<T, Failure> {
        let question = Question {
            method: Method::GET,
            path,
            key: None,
            body: Bytes::new(),
            within,
        };
        self.ask(question).await
    }

    /// Sends a POST request with a JSON body and, if given, an idempotency key. Parses the JSON response.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        key: Option<&Key>,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::error("output", format!("cannot write JSON: {error}")))?;
        let question = Question {
            method: Method::POST,
            path,
            key,
            body: body.into(),
            within: ANSWERS_WITHIN,
        };
        self.ask(question).await
    }

    /// Opens an event stream that resumes after the event with the id `after`, or that begins now if `after` is `None`.
    pub async fn stream(&self, path: &str, after: Option<&str>) -> Result<StreamedResponse, Failure> {
        let mut headers = self.headers(None)?;
        if let Some(after) = after {
            let value = HeaderValue::from_str(after).map_err(|_| unreadable(200))?;
            headers.insert(HeaderName::from_static("last-event-id"), value);
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let target = self.at(path);
        let opening = self.client.open(Method::GET, &target, headers, Bytes::new());
        let opened = tokio::time::timeout(ANSWERS_WITHIN, opening).await;
        let opened = opened
            .map_err(|_| silent())?
            .map_err(|error| request_error(&Method::GET, error))?;
        if opened.status == 200 {
            return Ok(opened);
        }
        // The response is not an event stream. Sends an ordinary request to get the error body.
        match self.get::<serde_json::Value>(path).await {
            Err(failure) => Err(failure),
            Ok(_) => Err(unreadable(opened.status)),
        }
    }

    async fn ask<T: DeserializeOwned>(&self, question: Question<'_>) -> Result<T, Failure> {
        let headers = self.headers(question.key)?;
        let target = self.at(question.path);
        let method = question.method.clone();
        let sending = self.client.send(question.method, &target, headers, question.body);
        let answered = match tokio::time::timeout(question.within, sending).await {
            Err(_) if method == Method::GET => return Err(silent()),
            Err(_) => return Err(in_doubt("it did not answer in time")),
            Ok(answered) => answered.map_err(|error| request_error(&method, error))?,
        };
        read(&answered)
    }

    fn at(&self, path: &str) -> Target {
        let prefix = self.base.path().trim_end_matches('/');
        self.base.with_path(&format!("{prefix}{path}"))
    }

    fn headers(&self, key: Option<&Key>) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let bearer = [b"Bearer ", self.token.reveal()].concat();
        let mut bearer = HeaderValue::from_bytes(&bearer)
            .map_err(|_| Failure::error("bad_token", "that is not a token").hint(credential::HINT))?;
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
        if let Some(key) = key {
            let value = HeaderValue::from_str(key.as_str()).map_err(|_| {
                Failure::usage("with a server, a key may contain only ASCII characters")
                    .hint("choose another key")
            })?;
            headers.insert(HeaderName::from_static("idempotency-key"), value);
        }
        Ok(headers)
    }
}

/// Parses a server address, and refuses one without TLS unless it is on this machine.
pub fn target(url: &str) -> Result<Target, Failure> {
    let target = Target::parse(url).map_err(|problem| {
        Failure::usage(problem)
            .hint("write `--server https://countersign.example.com` or `http://localhost:8787`")
    })?;
    if target.is_remote_plaintext() {
        let message = format!("`{url}` does not use TLS, so the token would be sent unencrypted");
        return Err(Failure::error("not_secure", message).hint("use https://, or a tunnel to localhost"));
    }
    Ok(target)
}

/// Percent-encodes a query value.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encoded = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// Converts a request without a response to a failure. After a GET nothing has happened; after any other method it is
/// unknown whether the server acted, unless the request was certainly not sent.
fn request_error(method: &Method, error: RequestError) -> Failure {
    match error {
        RequestError::NotSent(reason) => unreachable(&reason),
        RequestError::Unknown(reason) if method == Method::GET => unreachable(&reason),
        RequestError::Unknown(reason) => in_doubt(&reason),
    }
}

fn unreachable(reason: &str) -> Failure {
    Failure::error(
        "server_unreachable",
        format!("the server cannot be reached: {reason}"),
    )
    .hint("check the address, and that `countersign serve` is running there")
}

fn silent() -> Failure {
    unreachable("it did not answer in time")
}

fn in_doubt(reason: &str) -> Failure {
    Failure::error(
        "in_doubt",
        format!("it is unknown whether this was done: {reason}"),
    )
    .hint("check with `countersign show` before you try again")
}

pub(super) fn unreadable(status: u16) -> Failure {
    let message = format!(
        "the answer is not from a Countersign server that this command understands (status {status})"
    );
    Failure::error("not_a_server", message).hint("check the URL; the server may also have another version")
}

#[derive(Deserialize)]
struct Refused {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    code: String,
    message: String,
    hint: Option<String>,
}

fn read<T: DeserializeOwned>(answered: &Response) -> Result<T, Failure> {
    let status = answered.status;
    if (200..300).contains(&status) {
        return serde_json::from_slice(&answered.body).map_err(|_| unreadable(status));
    }
    let Ok(Refused { error }) = serde_json::from_slice::<Refused>(&answered.body) else {
        return Err(unreadable(status));
    };
    let hint = match (error.code.as_str(), status) {
        (_, 401) => Some(credential::HINT.to_owned()),
        ("wrong_scope", _) => {
            Some("use a token with one of these scopes; see `countersign token create --help`".to_owned())
        }
        _ => error.hint,
    };
    let failure = Failure::with(exit(status, &error.code), error.code, error.message);
    Err(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// Returns the exit code for an error of the API: the same as for this error at the local store.
fn exit(status: u16, code: &str) -> Exit {
    match code {
        "forbidden" => Exit::Forbidden,
        "not_allowed" | "bad_choices" | "bad_edit" | "not_your_permit" | "too_many_pending"
        | "denied_lately" => Exit::Refused,
        _ if matches!(status, 409 | 410) => Exit::Refused,
        _ => Exit::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encode("telegram:42 &é"), "telegram%3A42%20%26%C3%A9");
    }

    #[test]
    fn h02_a_token_does_not_travel_in_the_clear() {
        for open in [
            "http://example.com",
            "http://10.0.0.1:8787",
            "http://localhost.evil.example",
        ] {
            assert!(target(open).is_err(), "{open}");
        }
        for safe in [
            "http://localhost:8787",
            "http://127.0.0.1",
            "http://[::1]:8787",
            "https://example.com",
        ] {
            assert!(target(safe).is_ok(), "{safe}");
        }
    }

    #[test]
    fn errors_keep_their_words_and_exit_codes() {
        let answered = |status, body: &str| Response {
            status,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let body = r#"{"error":{"code":"already_decided","message":"m","hint":"h","decidedBy":"ana"}}"#;
        let failure = read::<()>(&answered(409, body)).unwrap_err();
        assert_eq!(
            (failure.exit, failure.code.as_ref()),
            (Exit::Refused, "already_decided")
        );
        assert_eq!(
            (failure.message.as_str(), failure.hint.as_deref()),
            ("m", Some("h"))
        );
        for strange in ["<html>", "", "[]", r#"{"error":"x"}"#] {
            let failure = read::<()>(&answered(502, strange)).unwrap_err();
            assert_eq!(failure.code, "not_a_server", "{strange}");
        }
    }
}
