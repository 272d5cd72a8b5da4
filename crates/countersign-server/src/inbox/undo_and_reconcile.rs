//! Actions on a call that has run: request its undo, or reconcile an unknown outcome.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::gate::Submission;
use countersign::id::{Agent, CallId, Key};
use serde::Deserialize;

use super::decide::SubmittedFields;
use super::form::FormFields;
use super::session::{FRAGMENT, SignedIn};
use super::{detail, list, page, playground};
use crate::access::Caller;
use crate::service;
use crate::web::{Answer, ApiError, App};

/// Agent name of undo requests made on a page, for which the person is the requester.
const AGENT: &str = "inbox";

#[derive(Debug, Default, Deserialize)]
pub struct UndoForm {
    #[serde(default)]
    key: String,
    /// Name of the page that the form was on.
    #[serde(default)]
    from: String,
}

#[derive(Debug, Deserialize)]
pub struct ReconcileForm {
    outcome: Option<String>,
    #[serde(default)]
    note: String,
}

/// Proposes an undo as a new approval, and redirects to it.
pub async fn undo(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    headers: HeaderMap,
    FormFields(asked): FormFields<UndoForm>,
) -> Response {
    if asked.from == "playground" {
        match playground::undo(&app, &caller, &id, position, headers.contains_key(FRAGMENT)).await {
            Ok(Some(answer)) => return answer,
            // The call is not from one of this person's conversations: propose the undo outside any conversation, as
            // the inbox does.
            Ok(None) => {}
            Err(error) => {
                return detail::again(&app, &caller, &id, &error, &SubmittedFields::default()).await;
            }
        }
    }
    match propose_undo(&app, &caller, &id, position, &asked.key).await {
        Ok(path) => Redirect::to(&path).into_response(),
        Err(error) => detail::again(&app, &caller, &id, &error, &SubmittedFields::default()).await,
    }
}

/// Records how a call with an unknown outcome ended.
pub async fn reconcile(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path((id, position)): Path<(String, u8)>,
    FormFields(found): FormFields<ReconcileForm>,
) -> Response {
    match decide_and_run(&app, &caller, &id, position, found).await {
        Ok(()) => Redirect::to(&format!("/approvals/{}", page::url_part(&id))).into_response(),
        Err(error) => detail::again(&app, &caller, &id, &error, &SubmittedFields::default()).await,
    }
}

async fn propose_undo(app: &App, caller: &Caller, id: &str, position: u8, key: &str) -> Answer<String> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let (approval, _) = list::one(app, caller, id).await?;
    let key = Some(key).filter(|key| !key.is_empty());
    let key = key.map(|key| Key::new(format!("undo-{}-{position}-{key}", approval.id.short())));
    let submission = Submission {
        tenant: caller.tenant.clone(),
        agent: Agent::of_service(AGENT)?,
        requester: caller.name.clone(),
        on_behalf_of: caller.person.clone(),
        // Without a channel, because a channel has one pending approval and this undo must not supersede it.
        channel: None,
        run: None,
        session: None,
        claim: None,
        conversation: None,
        key: key.transpose()?,
        options: Default::default(),
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

async fn decide_and_run(
    app: &App,
    caller: &Caller,
    id: &str,
    position: u8,
    found: ReconcileForm,
) -> Answer<()> {
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
    service::reconcile(app, caller, call, succeeded, note).await?;
    Ok(())
}

fn unclear() -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "bad_form",
        "the form does not say how the call ended",
        "choose one of the two",
    )
}
