//! After a call ran: ask to take it back, or say how it ended when nobody knows.

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::gate::Submission;
use countersign::id::{Agent, BadName, CallId, Key};
use serde::Deserialize;

use super::decide::Typed;
use super::session::{FRAGMENT, SignedIn};
use super::{detail, list, page, playground};
use crate::access::Caller;
use crate::http::calls::settle;
use crate::http::{Answer, ApiError, App};

/// The agent that asks for an undo is the page itself; the person is the requester.
const AGENT: &str = "inbox";

#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    #[serde(default)]
    key: String,
    /// Where the form stood.
    #[serde(default)]
    from: String,
}

#[derive(Debug, Deserialize)]
pub struct FoundOut {
    outcome: Option<String>,
    #[serde(default)]
    note: String,
}

/// Asks for an undo, as an approval of its own, and leads to it.
pub async fn undo(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    headers: HeaderMap,
    form: Result<Form<Asked>, FormRejection>,
) -> Response {
    let asked = form.map(|Form(asked)| asked).unwrap_or_default();
    if asked.from == "playground" {
        match playground::undo(&app, &caller, &id, position, headers.contains_key(FRAGMENT)).await {
            Ok(Some(answer)) => return answer,
            // A card of no talk of theirs: the inbox asks for it.
            Ok(None) => {}
            Err(error) => return detail::again(&app, &caller, &id, &error, &Typed::default()).await,
        }
    }
    match propose_undo(&app, &caller, &id, position, &asked.key).await {
        Ok(path) => Redirect::to(&path).into_response(),
        Err(error) => detail::again(&app, &caller, &id, &error, &Typed::default()).await,
    }
}

/// Records how a call ended whose outcome was unknown.
pub async fn reconcile(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    form: Result<Form<FoundOut>, FormRejection>,
) -> Response {
    let outcome = match form {
        Ok(Form(found)) => record(&app, &caller, &id, position, found).await,
        Err(_) => Err(unclear()),
    };
    match outcome {
        Ok(()) => Redirect::to(&format!("/approvals/{}", page::url_part(&id))).into_response(),
        Err(error) => detail::again(&app, &caller, &id, &error, &Typed::default()).await,
    }
}

async fn propose_undo(app: &App, caller: &Caller, id: &str, position: u8, key: &str) -> Answer<String> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let (approval, _) = list::one(app, caller, id).await?;
    let bad_name = |problem: BadName| ApiError::bad_request(problem.to_string());
    let key = Some(key).filter(|key| !key.is_empty());
    let key = key.map(|key| Key::new(format!("undo-{}-{position}-{key}", approval.id.short())));
    let submission = Submission {
        tenant: caller.tenant.clone(),
        agent: Agent::of_service(AGENT).map_err(bad_name)?,
        requester: caller.name.clone(),
        on_behalf_of: caller.person.clone(),
        // A conversation has one pending approval; an undo asked for here must not end it.
        channel: None,
        run: None,
        session: None,
        claim: None,
        conversation: None,
        key: key.transpose().map_err(bad_name)?,
        calls: Vec::new(),
    };
    let call = CallId {
        approval: approval.id,
        position,
    };
    let undo = app.gate.undo(submission, call).await?;
    app.metrics.proposed(&undo);
    Ok(format!("/approvals/{}", undo.id))
}

async fn record(app: &App, caller: &Caller, id: &str, position: u8, found: FoundOut) -> Answer<()> {
    let succeeded = match found.outcome.as_deref() {
        Some("succeeded") => true,
        Some("failed") => false,
        _ => return Err(unclear()),
    };
    let (approval, _) = list::one(app, caller, id).await?;
    let call = CallId {
        approval: approval.id,
        position,
    };
    let note = found.note.trim();
    let note = (!note.is_empty()).then(|| note.to_owned());
    settle(app, caller, call, succeeded, note).await.map(|_| ())
}

fn unclear() -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "bad_form",
        "the form does not say how the call ended",
        "choose one of the two",
    )
}
