//! What would run and what came back, as plain text: nothing is left out.
//!
//! Enters: an approval and the position of a call. Leaves: text in which every character can be seen, or the exact
//! bytes as a file.
//! INVARIANT: a secret leaves in neither form.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use countersign::approval::SharedApproval;
use countersign::call::Call;
use countersign::display::escape;
use countersign::json;
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use serde::Deserialize;

use super::session::SignedIn;
use super::{list, page};
use crate::http::{Answer, ApiError, App};

#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    /// The bytes as they are, as a file.
    download: Option<String>,
    /// As they were proposed, before a person changed them.
    original: Option<String>,
}

/// The arguments of a call.
pub async fn arguments(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    Query(asked): Query<Asked>,
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

/// What a call answered.
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

/// One value per line, secrets as marks; nothing when there is no secret among them.
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
            false => leaves.iter().find(is_same).map(json::Leaf::text),
        };
        let value = whole.map_or_else(|| row.value.clone(), |whole| escape(&whole).into_owned());
        text.push_str(&format!("{}  {value}\n", row.pointer));
    }
    Some(text)
}

/// Line breaks stay, everything else that cannot be seen is written out.
pub fn visible_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    lines.join("\n")
}

fn plain(text: String) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Not to be shown by the browser: some characters would act there.
fn file(bytes: &[u8], name: &str) -> Response {
    let kind = HeaderValue::from_static("application/octet-stream");
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let name = name.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)];
    (headers, bytes.to_vec()).into_response()
}
