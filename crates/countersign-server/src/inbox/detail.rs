//! Page of one approval: the complete card, its outcome and its history.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign::approval::SharedApproval;
use countersign::gate::Concerns;
use countersign::policy::SchemaChoices;
use countersign::secrecy::Secrecy;
use countersign::time::Time;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Deserialize;

use super::card::{Card, Drawing, Edit, Measure};
use super::decide::{OfferedChoices, SubmittedFields, edit_fields, edit_problem};
use super::edit_form::Field;
use super::form::QueryFields;
use super::session::SignedIn;
use super::{edit, list, page, timeline};
use crate::access::Caller;
use crate::tool_schema;
use crate::web::{Answer, ApiError, App};

/// Maximum height of an arguments field, in lines.
const MOST_LINES: usize = 30;

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    /// Present if the page offers to edit the arguments. `form` means a field per value, anything else one field with
    /// JSON.
    edit: Option<String>,
}

/// Renders the page of one approval.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(id): Path<String>,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    let typed = SubmittedFields::default();
    let page = draw(
        &app,
        &caller,
        &id,
        Editing::asked(asked.edit.as_deref()),
        None,
        &typed,
    )
    .await;
    page.unwrap_or_else(|error| page::failure(&error))
}

/// Renders the page again after a request was refused, with the reason and the submitted fields.
pub async fn again(
    app: &App,
    caller: &Caller,
    id: &str,
    problem: &ApiError,
    typed: &SubmittedFields,
) -> Response {
    let page = draw(app, caller, id, Editing::of(typed), Some(problem), typed).await;
    page.unwrap_or_else(|error| page::failure(&error))
}

/// Renders the fields to edit the arguments, with what was typed so far.
pub async fn edit_again(app: &App, caller: &Caller, id: &str, typed: &SubmittedFields) -> Response {
    let page = draw(app, caller, id, Editing::typed(typed), None, typed).await;
    page.unwrap_or_else(|error| page::failure(&error))
}

/// Renders the card of what would run after an edit, with the button that approves exactly that. Nothing is decided
/// yet. No script keeps this page up to date, so the card under the button never changes.
pub async fn confirm(
    app: &App,
    caller: &Caller,
    preview: SharedApproval,
    now: Time,
    typed: &SubmittedFields,
) -> Response {
    let page = draw_confirm(app, caller, &preview, now, typed).await;
    page.unwrap_or_else(|error| page::failure(&error))
}

/// How a page offers to edit arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Editing {
    Nothing,
    /// A field for each value. Calls for which this is not possible have one field with JSON.
    Values,
    Json,
}

impl Editing {
    fn asked(query: Option<&str>) -> Editing {
        match query {
            None => Editing::Nothing,
            Some("form") => Editing::Values,
            Some(_) => Editing::Json,
        }
    }

    /// Returns the kind of edit form that was submitted, recognised by its fields.
    fn typed(typed: &SubmittedFields) -> Editing {
        match typed.has_json() && !typed.has_values() {
            true => Editing::Json,
            false => Editing::Values,
        }
    }

    /// Like [`Editing::typed`], but returns `Nothing` if the person edited nothing.
    fn of(typed: &SubmittedFields) -> Editing {
        match typed.is_edit() {
            true => Editing::typed(typed),
            false => Editing::Nothing,
        }
    }
}

/// Returns the edit fields of a call, filled with the submitted text where there is some. Empty if the call has to be
/// edited as JSON.
fn fields(
    offered: OfferedChoices<'_>,
    secrecy: &Secrecy,
    call: &countersign::call::Call,
    position: u8,
    typed: &SubmittedFields,
) -> Vec<Field> {
    let mut fields = edit_fields(offered, secrecy, call).unwrap_or_default();
    for (at, field) in fields.iter_mut().enumerate() {
        if let Some(text) = typed.value(position, at) {
            field.text = text.to_owned();
        }
    }
    fields
}

async fn draw_confirm(
    app: &App,
    caller: &Caller,
    preview: &SharedApproval,
    now: Time,
    typed: &SubmittedFields,
) -> Answer<Response> {
    let events = app.store().events(&caller.tenant, preview.id).await?;
    let concerns = list::concerns(app, preview, now).await?;
    let card = card(
        app,
        caller,
        preview,
        (now, &concerns),
        (Editing::Nothing, &[]),
        typed,
    );
    let values = context! {
        card => Value::from(Serde(&card)),
        events => Value::from(Serde(timeline::lines(&events, now))),
        now => now.to_string(),
        problem => None::<Value>,
        comment => typed.comment(),
        is_edit => false,
        confirm => typed.preview_hash(preview).to_string(),
        fields => Value::from(Serde(typed.about_calls())),
        key => page::form_key(),
        from => "detail",
    };
    Ok(page::signed_in(
        app,
        StatusCode::OK,
        "detail.html",
        caller,
        "",
        values,
    ))
}

async fn draw(
    app: &App,
    caller: &Caller,
    id: &str,
    editing: Editing,
    problem: Option<&ApiError>,
    typed: &SubmittedFields,
) -> Answer<Response> {
    let (approval, now) = list::one(app, caller, id).await?;
    let events = app.store().events(&caller.tenant, approval.id).await?;
    let concerns = list::concerns(app, &approval, now).await?;
    let choices = match editing {
        Editing::Nothing => Vec::new(),
        Editing::Values | Editing::Json => tool_schema::choices(app.store(), &approval).await?,
    };
    let card = card(
        app,
        caller,
        &approval,
        (now, &concerns),
        (editing, &choices),
        typed,
    );
    let is_edit = editing != Editing::Nothing && card.is_pending && card.may.edit;
    let is_form = card
        .calls
        .iter()
        .any(|call| call.edit.as_ref().is_some_and(|edit| !edit.fields.is_empty()));
    let values = context! {
        card => Value::from(Serde(&card)),
        events => Value::from(Serde(timeline::lines(&events, now))),
        now => now.to_string(),
        problem => problem.map(page::problem),
        comment => typed.comment(),
        is_edit,
        is_form,
        key => page::form_key(),
        from => "detail",
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(page::signed_in(app, status, "detail.html", caller, "", values))
}

fn card(
    app: &App,
    caller: &Caller,
    approval: &SharedApproval,
    (now, concerns): (Time, &Concerns),
    (editing, choices): (Editing, &[SchemaChoices]),
    typed: &SubmittedFields,
) -> Card {
    let decider = caller.decider();
    let drawing = Drawing {
        policy: app.gate.policy(),
        now,
        decider: decider.as_ref(),
        measure: Measure::FULL,
    };
    let mut card = Card::new(approval, concerns, drawing);
    let is_edit = editing != Editing::Nothing;
    if is_edit {
        // Each call has its own field.
        card.alike = None;
    }
    for (call, (position, held)) in card.calls.iter_mut().zip(approval.numbered()) {
        call.is_left_out |= typed.leaves_out(position);
        if is_edit {
            let secrecy = Secrecy::of(held, app.gate.policy(), &approval.salt);
            let is_secret = |pointer: &str| secrecy.is_secret(pointer);
            let offered = OfferedChoices::new(app.gate.policy(), choices, position);
            let text = match typed.arguments(position) {
                Some(text) => text.to_owned(),
                None => edit::field(held.arguments.as_bytes(), is_secret),
            };
            call.edit = Some(Edit {
                lines: text.lines().count().clamp(3, MOST_LINES),
                problem: edit_problem(offered, &secrecy, held, position, typed),
                kept: call.values.has_secret.then_some(edit::KEPT),
                fields: match editing {
                    Editing::Values => fields(offered, &secrecy, held, position, typed),
                    Editing::Json | Editing::Nothing => Vec::new(),
                },
                text,
            });
        }
    }
    card
}
