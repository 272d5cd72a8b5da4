//! Sign-in by one-time link, or by name and password.
//!
//! Opening the link changes nothing (X36), so a link scanner does not use it up. Only the button on the page signs in.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use countersign::id::Person;
use minijinja::context;
use serde::Deserialize;

use super::form::{FormFields, QueryFields};
use super::language::say;
use super::{page, session};
use crate::access::{Account, Link, Session};
use crate::web::{ApiError, App, Client};

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    code: Option<String>,
    next: Option<String>,
}

#[derive(Deserialize)]
pub struct SignInForm {
    code: Option<String>,
    name: Option<String>,
    password: Option<String>,
    next: Option<String>,
}

/// Renders the sign-in page.
pub async fn form(QueryFields(asked): QueryFields<PageQuery>) -> Response {
    show(StatusCode::OK, asked.code.as_deref(), asked.next.as_deref(), None)
}

/// Signs in: checks the link or the password, sets the session cookie and redirects.
pub async fn enter(
    State(app): State<App>,
    client: Client,
    FormFields(entered): FormFields<SignInForm>,
) -> Response {
    let next = safe_path(entered.next.as_deref());
    match try_to_enter(&app, client, &entered).await {
        Ok(Some(text)) => {
            let mut response = Redirect::to(&next).into_response();
            response
                .headers_mut()
                .insert(header::SET_COOKIE, session::keep(&text));
            response
        }
        Ok(None) => {
            let problem = match entered.code {
                Some(_) => "This link was already used or has expired (15 minutes). Ask for a new one.",
                None => "The name or the password is wrong.",
            };
            show(StatusCode::UNAUTHORIZED, None, Some(&next), Some(say(problem)))
        }
        Err(error) => page::failure(&error),
    }
}

/// Ends the session and deletes the cookie.
pub async fn leave(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Some(text) = session::cookie(&headers)
        && let Err(error) = Session::end(app.store(), text).await
    {
        return page::failure(&error.into());
    }
    let mut response = Redirect::to("/sign-in").into_response();
    response
        .headers_mut()
        .insert(header::SET_COOKIE, session::forget());
    response
}

async fn try_to_enter(app: &App, client: Client, entered: &SignInForm) -> Result<Option<String>, ApiError> {
    if let Some(code) = &entered.code {
        app.limits.sign_in_by_link(client)?;
        let Some((tenant, account)) = Link::redeem(app.store(), code).await? else {
            return Ok(None);
        };
        return Ok(Some(Session::begin(app.store(), &tenant, &account).await?));
    }
    let name = entered.name.clone().unwrap_or_default();
    app.limits.sign_in(client, name.trim())?;
    let password = entered.password.clone().unwrap_or_default();
    let tenant = app.settings.tenant.clone();
    let account = match Person::new(name.trim()) {
        Ok(person) => Account::find(app.store(), &tenant, &person).await?,
        Err(_) => None,
    };
    // The check is deliberately slow, and equally slow for unknown names, so that timing does not reveal which names
    // exist.
    let checked = app.limits.hashing.run(client, move || match account {
        Some(account) => account.has_password(&password).then_some(account),
        None => {
            Account::waste_time(&password);
            None
        }
    });
    match checked.await? {
        Some(account) => Ok(Some(Session::begin(app.store(), &tenant, &account).await?)),
        None => Ok(None),
    }
}

fn show(status: StatusCode, code: Option<&str>, next: Option<&str>, problem: Option<&str>) -> Response {
    let next = safe_path(next);
    page::render(status, "sign_in.html", context! { code, next, problem })
}

/// Returns the path to redirect to after sign-in, or the default path if `next` is not one of the inbox's pages. This
/// prevents open redirects.
fn safe_path(next: Option<&str>) -> String {
    next.filter(|path| is_own_path(path))
        .unwrap_or("/approvals")
        .to_owned()
}

/// Returns true if `path` belongs to one of the inbox's pages and contains only plain characters. Tabs, line breaks,
/// `\` and dot segments are rejected, even percent-encoded, because browsers drop the first two, read `\` as `/` and
/// resolve dot segments.
fn is_own_path(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    let mut parts = rest.split('/');
    let is_page = matches!(
        parts.next(),
        Some("approvals" | "numbers" | "people" | "playground")
    );
    is_page && parts.all(is_plain_part)
}

fn is_plain_part(part: &str) -> bool {
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        let is_fine = match byte {
            b'%' => {
                let digits = [bytes.next(), bytes.next()];
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                match digits.map(digit) {
                    [Some(high), Some(low)] => {
                        let meant = high * 16 + low;
                        meant >= 0x80 || meant == 0x20
                    }
                    _ => false,
                }
            }
            _ => byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte),
        };
        if !is_fine {
            return false;
        }
    }
    !part.is_empty() && part != "." && part != ".."
}
