//! Authentication of the pages, by session cookie only.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use minijinja::context;

use super::page;
use crate::access::{Caller, SESSION_LONGEST, Session};
use crate::web::{ApiError, App};

/// Session cookie. The `__Host-` prefix binds it to this host: no other host or subdomain can set it.
const COOKIE: &str = "__Host-countersign";

/// Header that the script sends to request a fragment of a page instead of the whole page.
pub const FRAGMENT: &str = "countersign-fragment";

/// Extracts a signed-in person, and extends the session unless the script sent the request by itself.
pub struct SignedIn(pub Caller);

/// Extracts a signed-in person for automatic requests of an open page, which do not extend the session.
pub struct BackgroundCaller(pub Caller);

impl FromRequestParts<App> for BackgroundCaller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let caller = match cookie(&parts.headers) {
            Some(text) => Session::open_unextended(app.store(), text).await,
            None => Ok(None),
        };
        match caller {
            Ok(Some(caller)) => Ok(BackgroundCaller(caller)),
            Ok(None) => Err(page::failure(&signed_out())),
            Err(error) => Err(page::failure(&ApiError::from(error))),
        }
    }
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        // Automatic refreshes by the script do not count as use.
        let is_use = parts.method != Method::GET || !parts.headers.contains_key(FRAGMENT);
        if !is_use {
            let watching = BackgroundCaller::from_request_parts(parts, app).await?;
            return Ok(SignedIn(watching.0));
        }
        let caller = match cookie(&parts.headers) {
            Some(text) => Session::open(app.store(), text).await,
            None => Ok(None),
        };
        match caller {
            Ok(Some(caller)) => Ok(SignedIn(caller)),
            Ok(None) => Err(sign_in_first(parts)),
            Err(error) => Err(page::failure(&ApiError::from(error))),
        }
    }
}

/// Returns the response to a request without a valid session: a redirect to the sign-in page for a GET, a 401 for
/// anything else.
fn sign_in_first(parts: &Parts) -> Response {
    if parts.method != Method::GET {
        return page::failure(&signed_out());
    }
    let wanted = parts.uri.path();
    // Browsers withhold a `SameSite=Strict` cookie after a link on another site. An intermediate page of this site that
    // loads the URL again makes them send the cookie.
    let site = parts.headers.get("sec-fetch-site");
    if site.is_some_and(|site| site == "cross-site" || site == "same-site") {
        return page::render(StatusCode::OK, "arrive.html", context! { wanted });
    }
    Redirect::to(&format!("/sign-in?next={}", page::url_part(wanted))).into_response()
}

fn signed_out() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "signed_out",
        "you are signed out",
        "sign in and decide again",
    )
}

/// Returns the value of the session cookie, or `None` if the request has no such cookie.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let texts = cookies.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

/// Creates a `Set-Cookie` header that stores the session.
pub fn keep(text: &str) -> HeaderValue {
    set(text, SESSION_LONGEST.as_secs())
}

/// Creates a `Set-Cookie` header that deletes the session.
pub fn forget() -> HeaderValue {
    set("", 0)
}

/// Creates the `Set-Cookie` header. It is always `Secure`; browsers accept that on loopback addresses without TLS, too.
fn set(text: &str, seconds: u64) -> HeaderValue {
    let cookie = format!("{COOKIE}={text}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""))
}
