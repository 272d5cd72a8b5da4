//! Origins of other web sites whose pages may call the API (CORS).
//!
//! Input: the operator's list, which is empty by default. Output: whether a request comes from one of them, and the
//! headers that let the browser show the response to the page.
//!
//! INVARIANT: origins are compared exactly, and no response allows credentials. The API takes only tokens, so a page
//! can do nothing without a token of its own. The pages of the service are never opened to other sites.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

/// Beginning of the paths that may be called from other origins.
const API: &str = "/v1/";
/// Methods of the API.
const METHODS: &str = "GET, POST, PUT, DELETE";
/// Request headers that the API reads.
const REQUEST_HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id";
/// Response headers that a page may read.
const RESPONSE_HEADERS: &str = "retry-after, countersign-version";
/// Seconds for which a browser may remember the answer to a preflight request.
const REMEMBERED: &str = "600";

/// Origins of other web sites whose pages may call the API.
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins(Vec<HeaderValue>);

impl AllowedOrigins {
    /// Parses origins such as `https://app.example.com`, spelled as browsers send them. Fails with a message about the
    /// first one that is not.
    pub fn parse(texts: &[String]) -> Result<AllowedOrigins, String> {
        let origins = texts.iter().map(|text| {
            let bad = || {
                format!(
                    "`allowed_origins`: `{}` is not an origin such as `https://app.example.com`",
                    text.escape_debug()
                )
            };
            if !is_origin(text) {
                return Err(bad());
            }
            HeaderValue::from_str(text).map_err(|_| bad())
        });
        origins.collect::<Result<_, _>>().map(AllowedOrigins)
    }

    /// Returns the origin of a request to the API; `None` if it is not one of the allowed origins.
    pub(super) fn of(&self, uri: &Uri, headers: &HeaderMap) -> Option<&HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let mode = headers.get("sec-fetch-mode");
        let is_cors = mode.is_none_or(|mode| mode == "cors");
        let is_api = uri.path().starts_with(API);
        self.0.iter().find(|known| is_api && is_cors && *known == origin)
    }
}

/// Returns the response to a preflight request of an allowed origin; `None` if the request is not a preflight request.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    let is_preflight =
        *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let allowed: [(HeaderName, &'static str); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
    ];
    is_preflight.then(|| (StatusCode::NO_CONTENT, allowed).into_response())
}

/// Adds the headers that let the browser show a response to a page of `origin`.
pub(super) fn allow(mut response: Response, origin: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(RESPONSE_HEADERS),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// Returns true if the text is an origin as browsers spell it: in lower case, without a path, and without the scheme's
/// default port.
fn is_origin(text: &str) -> bool {
    let (rest, usual_port) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (rest, 443),
        (_, Some(rest)) => (rest, 80),
        _ => return false,
    };
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
    };
    let authority = Authority::try_from(rest);
    rest.bytes().all(is_plain)
        && authority.is_ok_and(|authority| {
            !authority.host().is_empty() && authority.port_u16() != Some(usual_port) && !rest.ends_with(':')
        })
}

#[cfg(test)]
mod tests {
    use super::is_origin;

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for (text, expected) in [
            ("https://app.example.com", true),
            ("http://localhost:3000", true),
            ("http://[::1]:3000", true),
            ("*", false),
            ("null", false),
            ("https://*.example.com", false),
            ("https://app.example.com/", false),
            ("https://App.example.com", false),
            ("https://app.example.com:443", false),
            ("https://app.example.com:", false),
            ("https://a@app.example.com", false),
            ("https://", false),
            ("ftp://app.example.com", false),
            ("app.example.com", false),
        ] {
            assert_eq!(is_origin(text), expected, "`{text}`");
        }
    }
}
