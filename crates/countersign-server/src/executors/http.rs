//! A tool behind an address: the exact argument bytes, signed, sent once.
//!
//! The tool checks `Countersign-Signature`, which is HMAC-SHA-256 over `TIMESTAMP.CALL.BODY` with the key both sides
//! know, refuses a timestamp more than five minutes away, and does a call id once. See docs/serve.md.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use countersign::executor::{LARGEST_RESULT, Outcome, Permit};
use countersign::hash::Hash;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::body::Bytes;
use sha2::Sha256;

use crate::client::{Allowed, Answered, Client, NoAnswer, Target};

/// We give up a moment before the gate does, so that the reason is ours to tell.
const BEFORE_THE_GATE: Duration = Duration::from_millis(100);
/// Why a call is not sent that was started too long ago.
const LATE: &str = "not sent: its time was over before it could be sent";
/// A shorter key could be guessed.
const SHORTEST_KEY: usize = 32;

/// One tool.
#[derive(Clone)]
pub struct HttpTool {
    target: Target,
    key: Arc<[u8]>,
    client: Client,
}

impl HttpTool {
    /// Reads address and key.
    pub fn new(url: &str, key_env: &str, allowed: Allowed) -> Result<HttpTool, String> {
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
            client: Client::new(allowed, LARGEST_RESULT),
        })
    }

    /// Sends the call. Whatever may have reached the tool without an answer is unknown, and never sent again.
    pub async fn run(self, permit: Permit) -> Outcome {
        let headers = match self.headers(&permit) {
            Ok(headers) => headers,
            Err(problem) => return Outcome::failed(problem),
        };
        let body = Bytes::copy_from_slice(permit.arguments().as_bytes());
        let Some(left) = permit.time_left() else {
            return Outcome::failed(LATE);
        };
        let check = || permit.time_left().map(drop).ok_or_else(|| LATE.to_owned());
        let sending = self
            .client
            .send_if(Method::POST, &self.target, headers, body, check);
        let limit = left.saturating_sub(BEFORE_THE_GATE);
        match tokio::time::timeout(limit, sending).await {
            Err(_) => Outcome::Unknown("the tool did not answer in time".to_owned()),
            Ok(Err(NoAnswer::NotSent(reason))) => Outcome::failed(reason),
            Ok(Err(NoAnswer::Unknown(reason))) => Outcome::Unknown(reason),
            Ok(Ok(Answered { status, body })) => outcome(status, &body),
        }
    }

    fn headers(&self, permit: &Permit) -> Result<HeaderMap, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = now.as_secs().to_string();
        // A call that passed has no id; it is only a read.
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
        if let Some((started, deadline)) = permit.span() {
            let (started, deadline) = (started.to_string(), deadline.to_string());
            let signature = sign_span(&self.key, &started, &deadline, &call)?;
            add("countersign-started", &started)?;
            add("countersign-deadline", &deadline)?;
            add("countersign-deadline-signature", &format!("v1={signature}"))?;
        }
        if let Some(secret) = permit.secret() {
            let mut value = HeaderValue::from_bytes(secret.reveal())
                .map_err(|_| "the call's secret cannot stand in a header".to_owned())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("countersign-secret"), value);
        }
        Ok(headers)
    }
}

/// What the tool said, as an outcome. Only a plain refusal says that nothing was done.
fn outcome(status: u16, body: &[u8]) -> Outcome {
    match status {
        200..=299 => Outcome::succeeded(body),
        // A redirect is not followed: nothing was approved about another address.
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

/// HMAC-SHA-256 over the start, the deadline and the call's id, in hex.
pub fn sign_span(key: &[u8], started: &str, deadline: &str, call: &str) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| error.to_string())?;
    mac.update(format!("{started}.{deadline}.{call}").as_bytes());
    Ok(Hash(mac.finalize().into_bytes().into()).to_string())
}

/// HMAC-SHA-256 over the timestamp, the call's id and the body, in hex.
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

    /// Computed with another program, so that tools in other languages can compare:
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
