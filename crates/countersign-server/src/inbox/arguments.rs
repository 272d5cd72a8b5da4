//! A call's complete arguments or result as plain text.
//!
//! Input: an approval and the position of a call. Output: text with invisible characters escaped, or the exact bytes as
//! a download.
//! INVARIANT: neither form contains a secret.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use countersign::approval::SharedApproval;
use countersign::call::Call;
use countersign::display::{self, escape, one_line, up_to_lines};
use countersign::json;
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use serde::Deserialize;

use super::form::QueryFields;
use super::session::SignedIn;
use super::{list, page};
use crate::web::{Answer, ApiError, App};

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    /// Query parameter without a value; if present, the response is the exact bytes as a download.
    download: Option<String>,
    /// Query parameter without a value; if present, the arguments are those that the agent proposed, before a person
    /// edited them.
    original: Option<String>,
}

/// Shows or downloads the arguments of a call.
pub async fn arguments(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    let answer = async {
        let (approval, _) = list::one(&app, &caller, &id).await?;
        let call = call(&approval, position)?;
        let bytes = match (&asked.original, &call.original) {
            (Some(_), Some(original)) => original.as_bytes(),
            (Some(_), None) => return Err(ApiError::not_found("change of this call")),
            (None, _) => call.arguments.as_bytes(),
        };
        let values = values(app.gate.policy(), &approval, call, bytes);
        match (values, asked.download) {
            (Some(_), Some(_)) => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "secret",
                "these arguments hold a secret, so their bytes are not given out",
                "look at them value by value",
            )),
            (Some(text), None) => Ok(plain(text)),
            (None, None) => Ok(plain(visible_lines(&String::from_utf8_lossy(bytes)))),
            (None, Some(_)) => Ok(file(bytes, &format!("{}-{position}.json", approval.id.short()))),
        }
    };
    answer.await.unwrap_or_else(|error| page::failure(&error))
}

/// Shows the result of a call.
pub async fn result(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
) -> Response {
    let answer = async {
        let (approval, _) = list::one(&app, &caller, &id).await?;
        let bytes = call(&approval, position)?.result.clone();
        let bytes = bytes.ok_or_else(|| ApiError::not_found("result"))?;
        let shown = approval.secrecy(app.gate.policy()).bytes(&bytes).into_owned();
        Ok(plain(visible_lines(&String::from_utf8_lossy(&shown))))
    };
    answer
        .await
        .unwrap_or_else(|error: ApiError| page::failure(&error))
}

fn call(approval: &SharedApproval, position: u8) -> Answer<&Call> {
    approval.call(position).ok_or_else(|| ApiError::not_found("call"))
}

/// Returns the values as text, one per line, with secrets replaced with placeholders. `None` if the arguments contain
/// no secret.
fn values(policy: &Policy, approval: &SharedApproval, call: &Call, bytes: &[u8]) -> Option<String> {
    let rows = Secrecy::of(call, policy, &approval.salt).table(bytes);
    if !rows.iter().any(|row| row.hidden) {
        return None;
    }
    let leaves = json::leaves(bytes);
    let mut text = "These arguments hold a secret, so they are shown value by value.\n\n".to_owned();
    for row in &rows {
        let is_same = |leaf: &&json::Leaf<'_>| escape(&leaf.pointer) == row.pointer;
        let whole = match row.hidden {
            true => None,
            false => leaves.iter().find(is_same),
        };
        let whole = whole.map(|leaf| one_line(&display::value(leaf.kind, &leaf.text())).into_owned());
        let value = whole.unwrap_or_else(|| format!("({})", row.value));
        text.push_str(&format!("{}  {value}\n", one_line(&row.name)));
    }
    Some(text)
}

/// Escapes invisible characters, but keeps line breaks.
pub fn visible_lines(text: &str) -> String {
    up_to_lines(&escape(text), usize::MAX).into_owned()
}

fn plain(text: String) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Builds a response that the browser saves as a file. The browser must not display the bytes, because some characters
/// would affect the page's rendering.
fn file(bytes: &[u8], name: &str) -> Response {
    let kind = HeaderValue::from_static("application/octet-stream");
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let name = name.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)];
    (headers, bytes.to_vec()).into_response()
}
