//! Runs a tool over HTTP: the exact argument bytes, signed, sent once.
//!
//! The tool verifies `Countersign-Signature`, an HMAC-SHA-256 over `TIMESTAMP.CALL.BODY` with a shared key, refuses a
//! timestamp more than five minutes off, and runs each call id once. See docs/serve.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use countersign::executor::{LARGEST_RESULT, Outcome, Permit};
use countersign::hash::Hash;
use countersign_http_client::{AllowedTargets, Client, Proxy, RequestError, Response, Target};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::body::Bytes;
use sha2::Sha256;

/// Maximum time to wait for a response after the call's deadline. The gate stops waiting at the deadline, but still
/// records a late response.
const LATE_ANSWER: Duration = Duration::from_secs(15 * 60);
/// Outcome text of a call that was not sent in time.
const LATE: &str = "not sent: its deadline passed first";
/// Minimum length of the shared signing key, in bytes.
const SHORTEST_KEY: usize = 32;

/// A tool that is called by an HTTP POST request.
#[derive(Clone)]
pub struct HttpTool {
    target: Target,
    key: Arc<[u8]>,
    client: Client,
}

impl HttpTool {
    /// Creates a tool from its URL and the signing key in the environment variable `key_env`. Fails if the URL is
    /// invalid, or if the key is missing or too short. `allowed` limits the addresses that are called, also through a
    /// `proxy`.
    pub fn new(
        url: &str,
        key_env: &str,
        allowed: AllowedTargets,
        proxy: Option<Proxy>,
    ) -> Result<HttpTool, String> {
        let key =
            std::env::var(key_env).map_err(|_| format!("the environment variable `{key_env}` is not set"))?;
        if key.len() < SHORTEST_KEY {
            return Err(format!(
                "the key in `{key_env}` is shorter than {SHORTEST_KEY} characters"
            ));
        }
        Ok(HttpTool {
            target: Target::parse(url)?,
            key: key.into_bytes().into(),
            client: Client::new(allowed, LARGEST_RESULT).with_proxy(proxy),
        })
    }

    /// Sends the call. If the request may have reached the tool and there is no response, the outcome is unknown and
    /// the call is never sent again.
    pub async fn run(self, permit: Permit) -> Outcome {
        let headers = match self.headers(&permit) {
            Ok(headers) => headers,
            Err(problem) => return Outcome::NotSent(problem),
        };
        let body = Bytes::copy_from_slice(permit.arguments().as_bytes());
        let Some(left) = permit.time_left() else {
            return Outcome::NotSent(LATE.to_owned());
        };
        let went_out = Arc::new(AtomicBool::new(false));
        let (limit_of_call, goes_out) = (permit.time_limit(), went_out.clone());
        let check = move || {
            limit_of_call.left().ok_or(LATE)?;
            goes_out.store(true, Ordering::SeqCst);
            Ok(())
        };
        let sending = self
            .client
            .send_after_check(Method::POST, &self.target, headers, body, check);
        // The gate enforces the deadline. A late response is still recorded if the call has a record.
        let limit = match permit.call() {
            Some(_) => left.saturating_add(LATE_ANSWER),
            None => left,
        };
        match tokio::time::timeout(limit, sending).await {
            Err(_) if went_out.load(Ordering::SeqCst) => {
                Outcome::Unknown("the tool did not answer in time".to_owned())
            }
            // Nothing was sent yet, so the tool cannot have acted.
            Err(_) => Outcome::NotSent(LATE.to_owned()),
            Ok(Err(RequestError::NotSent(reason))) => Outcome::NotSent(reason),
            Ok(Err(RequestError::Unknown(reason))) => Outcome::Unknown(reason),
            Ok(Ok(Response { status, body })) => outcome(status, &body),
        }
    }

    fn headers(&self, permit: &Permit) -> Result<HeaderMap, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = now.as_secs().to_string();
        // Only a read that passed has no call id.
        let call = permit.call().map(|call| call.to_string()).unwrap_or_default();
        let signature = sign(&self.key, &timestamp, &call, permit.arguments().as_bytes())?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut add = |name: &'static str, value: &str| -> Result<(), String> {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            headers.insert(HeaderName::from_static(name), value);
            Ok(())
        };
        add("countersign-tool", permit.tool().as_str())?;
        add("countersign-tenant", permit.tenant().as_str())?;
        add("countersign-timestamp", &timestamp)?;
        add("countersign-signature", &format!("v1={signature}"))?;
        if !call.is_empty() {
            add("idempotency-key", &call)?;
        }
        if let Some((started, deadline)) = permit.start_and_deadline() {
            let (started, deadline) = (started.to_string(), deadline.to_string());
            let signature = sign_span(&self.key, &started, &deadline, &call)?;
            add("countersign-started", &started)?;
            add("countersign-deadline", &deadline)?;
            add("countersign-deadline-signature", &format!("v1={signature}"))?;
        }
        if let Some(secret) = permit.secret() {
            let mut value = HeaderValue::from_bytes(secret.reveal())
                .map_err(|_| "the call's credential is not valid in an HTTP header".to_owned())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("countersign-secret"), value);
        }
        Ok(headers)
    }
}

/// Converts a response to an outcome. Only a status of 3xx or 4xx means that the tool did nothing.
fn outcome(status: u16, body: &[u8]) -> Outcome {
    match status {
        200..=299 => Outcome::succeeded(body),
        // A redirect is not followed: the approval does not cover another address.
        300..=399 => Outcome::failed(format!(
            "the tool answered with a redirect ({status}), which is not followed"
        )),
        400..=499 => Outcome::failed(match body.is_empty() {
            true => format!("the tool refused ({status})").into_bytes(),
            false => body.to_vec(),
        }),
        _ => Outcome::Unknown(format!(
            "the tool answered {status}: {}",
            countersign::display::clip(&String::from_utf8_lossy(body), 500)
        )),
    }
}

/// Returns the HMAC-SHA-256 of the start, the deadline and the call's id, in hex.
pub fn sign_span(key: &[u8], started: &str, deadline: &str, call: &str) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| error.to_string())?;
    mac.update(format!("{started}.{deadline}.{call}").as_bytes());
    Ok(Hash(mac.finalize().into_bytes().into()).to_string())
}

/// Returns the HMAC-SHA-256 of the timestamp, the call's id and the body, in hex.
pub fn sign(key: &[u8], timestamp: &str, call: &str, body: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| error.to_string())?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(call.as_bytes());
    mac.update(b".");
    mac.update(body);
    Ok(Hash(mac.finalize().into_bytes().into()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value was computed with another program, so that authors of tools in other languages can compare:
    /// `printf '1700000000.abc.1.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef`
    #[test]
    fn h10_signatures_are_what_they_always_were() {
        let signature = sign(
            b"0123456789abcdef0123456789abcdef",
            "1700000000",
            "abc.1",
            br#"{"a":1}"#,
        );
        assert_eq!(
            signature.unwrap(),
            "1e478d8a7be28ab5da5b4558475fe484767a06d94942632b747194774df91ef3"
        );
    }

    /// The expected value was computed with `printf '2026-11-17T04:00:00.000Z.2026-11-17T04:01:00.000Z.abc.1' | openssl
    /// dgst -sha256 -hmac …`
    #[test]
    fn x84_deadlines_are_signed_as_documented() {
        let signature = sign_span(
            b"0123456789abcdef0123456789abcdef",
            "2026-11-17T04:00:00.000Z",
            "2026-11-17T04:01:00.000Z",
            "abc.1",
        );
        assert_eq!(
            signature.unwrap(),
            "094b48c159f0c841d25013d5ed7f61c157672e33f7e19b7820e2871fe0c20379"
        );
    }

    #[test]
    fn only_a_plain_refusal_says_that_nothing_was_done() {
        assert_eq!(outcome(200, b"{}"), Outcome::succeeded("{}"));
        assert_eq!(outcome(422, b"no such page"), Outcome::failed("no such page"));
        assert!(matches!(outcome(302, b""), Outcome::Failed(_)));
        for unclear in [500, 502, 503, 504] {
            assert!(matches!(outcome(unclear, b""), Outcome::Unknown(_)), "{unclear}");
        }
    }
}
