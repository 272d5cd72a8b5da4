//! Statistics page: how people decide, computed from the newest approvals.
//!
//! The number of approvals read is bounded, and the page states it.

mod count;
mod fast_decisions;
mod plot;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use countersign::approval::SharedApproval;
use countersign::store::{Filter, LONGEST_PAGE};
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::page;
use super::session::SignedIn;
use crate::access::Caller;
use crate::web::{Answer, App};
use count::Numbers;

/// Maximum number of approvals read.
const NEWEST: usize = 2_000;
/// Size of arguments and results, in bytes, after which no further approvals are read.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Renders the statistics page.
pub async fn show(State(app): State<App>, SignedIn(caller): SignedIn) -> Response {
    draw(&app, &caller)
        .await
        .unwrap_or_else(|error| page::failure(&error))
}

async fn draw(app: &App, caller: &Caller) -> Answer<Response> {
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let (approvals, is_cut) = newest(app, caller).await?;
    let now = app.store().now().await?;
    let numbers = Numbers::count(&approvals, now);
    let values = context! {
        looked_at => approvals.len(),
        is_cut,
        decisions => Value::from(Serde(plot::bars(&numbers.spans))),
        medians => Value::from(Serde(plot::line(&numbers.spans))),
        tools => Value::from(Serde(plot::rates(&numbers.tools))),
        numbers => Value::from(Serde(&numbers)),
    };
    Ok(page::signed_in(
        app,
        StatusCode::OK,
        "numbers.html",
        caller,
        "numbers",
        values,
    ))
}

/// Reads the newest approvals. The flag is true if there may be more.
async fn newest(app: &App, caller: &Caller) -> Answer<(Vec<SharedApproval>, bool)> {
    let mut filter = Filter {
        limit: Some(LONGEST_PAGE),
        most_bytes: Some(MOST_BYTES),
        ..Filter::default()
    };
    let mut newest = Vec::new();
    let mut room = MOST_BYTES;
    while newest.len() < NEWEST && room > 0 {
        let page = app.store().list(&caller.tenant, &filter).await?;
        filter.after = page.last().map(|approval| approval.id);
        let is_last = !filter.is_full(&page);
        room = page
            .iter()
            .fold(room, |room, approval| room.saturating_sub(approval.weight()));
        filter.most_bytes = Some(room.max(1));
        newest.extend(page);
        if is_last {
            return Ok((newest, false));
        }
    }
    Ok((newest, true))
}
