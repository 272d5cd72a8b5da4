//! Who looks at a page: from the session's cookie, and from nothing else.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use minijinja::context;

use super::page;
use crate::access::{Caller, SESSION_LONGEST, Session};
use crate::http::{ApiError, App};

/// `__Host-` binds it to this very host: no other, and no subdomain, can set it.
const COOKIE: &str = "__Host-countersign";

/// The script asks for a part of a page.
pub const FRAGMENT: &str = "countersign-fragment";

/// Somebody who signed in.
pub struct SignedIn(pub Caller);

/// The page of somebody who signed in, asking by itself. Being left open is not being used.
pub struct Watching(pub Caller);

impl FromRequestParts<App> for Watching {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let caller = match cookie(&parts.headers) {
            Some(text) => Session::look(app.store(), text).await,
            None => Ok(None),
        };
        match caller {
            Ok(Some(caller)) => Ok(Watching(caller)),
            Ok(None) => Err(page::failure(&signed_out())),
            Err(error) => Err(page::failure(&ApiError::from(error))),
        }
    }
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        // What the script loads again by itself is not use either.
        let is_use = parts.method != Method::GET || !parts.headers.contains_key(FRAGMENT);
        if !is_use {
            let watching = Watching::from_request_parts(parts, app).await?;
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

/// A page asked for by following a link leads to the sign-in; anything else is told to sign in.
fn sign_in_first(parts: &Parts) -> Response {
    if parts.method != Method::GET {
        return page::failure(&signed_out());
    }
    let wanted = parts.uri.path();
    // Browsers keep the cookie back when a link on another site led here. Asked for once more by a page of our own, it
    // comes along, if there is one.
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

/// What the browser shows.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let texts = cookies.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

/// Tells the browser to keep a session.
pub fn keep(text: &str) -> HeaderValue {
    set(text, SESSION_LONGEST.as_secs())
}

/// Tells the browser to forget it.
pub fn forget() -> HeaderValue {
    set("", 0)
}

/// Browsers take a `Secure` cookie from the loopback address too: it never leaves the machine.
fn set(text: &str, seconds: u64) -> HeaderValue {
    let cookie = format!("{COOKIE}={text}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""))
}
