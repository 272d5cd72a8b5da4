//! History page: approvals that are no longer pending, newest first.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign::display::one_line;
use countersign::state::State as ApprovalState;
use countersign::store::Filter;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};

use super::card::{Moment, risk, shown, tone};
use super::page;
use super::session::SignedIn;
use crate::access::Caller;
use crate::view::{self, Outcome};
use crate::web::{Answer, ApiError, App};

/// Lines per page.
const LINES: usize = 50;
/// Size of arguments and results, in bytes, at which a page ends early.
const MOST_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    #[serde(default)]
    status: String,
    #[serde(default)]
    after: String,
}

#[derive(Debug, Serialize)]
struct Line {
    id: String,
    title: String,
    /// Outcome of the approval, in words.
    label: String,
    /// CSS class for the colour.
    tone: &'static str,
    risk: &'static str,
    agent: String,
    by: Option<String>,
    at: Moment,
    /// Outcome of the approval's calls, if the label does not state it.
    outcome: Option<&'static str>,
    /// Why the policy let the call pass, if it did.
    because: Option<String>,
}

/// Renders the history page.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Query(asked): Query<PageQuery>,
) -> Response {
    draw(&app, &caller, &asked)
        .await
        .unwrap_or_else(|error| page::failure(&error))
}

async fn draw(app: &App, caller: &Caller, asked: &PageQuery) -> Answer<Response> {
    let state = ended_states().find(|state| state.as_str() == asked.status);
    let after = match asked.after.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| ApiError::not_found("page"))?),
    };
    let filter = Filter {
        state,
        after,
        limit: Some(LINES),
        most_bytes: Some(MOST_BYTES),
        ..Filter::default()
    };
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let approvals = app.store().list(&caller.tenant, &filter).await?;
    let now = app.store().now().await?;
    let is_full = filter.is_full(&approvals);
    let next = approvals.last().filter(|_| is_full);
    let next = next.map(|approval| approval.id.to_string());
    let lines: Vec<Line> = approvals
        .iter()
        .filter(|approval| view::state(approval, now) != ApprovalState::Pending)
        .map(|approval| {
            let decided = approval.decision.as_ref();
            let at = decided.map(|decided| decided.at).or(approval.ended_at);
            let state = view::state(approval, now);
            let outcome = Outcome::of(approval, now);
            let only = approval.calls.first().filter(|_| approval.calls.len() == 1);
            // Omitted where it follows from the label: a denied call is always refused.
            let word = only.map(|call| call.state.as_str());
            let word = word.filter(|word| !matches!(*word, "refused" | "held"));
            Line {
                id: approval.id.to_string(),
                title: one_line(&view::description(approval)).into_owned(),
                label: outcome.label(),
                tone: tone(state, &outcome),
                risk: risk(approval).as_str(),
                agent: shown(approval.agent.as_str()),
                by: decided.map(|decided| shown(decided.by.as_str())),
                at: Moment::new(at.unwrap_or(approval.expires_at), now),
                outcome: word.or(outcome.all_succeeded.then_some("succeeded")),
                because: view::passed_because(approval),
            }
        })
        .collect();
    let states: Vec<&str> = ended_states().map(ApprovalState::as_str).collect();
    let values = context! {
        lines => Value::from(Serde(&lines)),
        states,
        status => state.map_or("", ApprovalState::as_str),
        is_first => asked.after.is_empty(),
        next,
    };
    Ok(page::signed_in(
        app,
        StatusCode::OK,
        "history.html",
        caller,
        "history",
        values,
    ))
}

fn ended_states() -> impl Iterator<Item = ApprovalState> {
    ApprovalState::ALL
        .into_iter()
        .filter(|state| *state != ApprovalState::Pending)
}
