//! The numbers page: how people decide, drawn from the newest approvals.
//!
//! The work is bounded: so many approvals are looked at, and the page says so.

mod count;
mod haste;
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
use crate::http::{Answer, App};
use count::Numbers;

/// So many approvals are looked at.
const NEWEST: usize = 2_000;

/// The page.
pub async fn show(State(app): State<App>, SignedIn(caller): SignedIn) -> Response {
    draw(&app, &caller)
        .await
        .unwrap_or_else(|error| page::failure(&error))
}

async fn draw(app: &App, caller: &Caller) -> Answer<Response> {
    let approvals = newest(app, caller).await?;
    let now = app.store().now().await?;
    let numbers = Numbers::count(&approvals, now);
    let values = context! {
        looked_at => approvals.len(),
        is_cut => approvals.len() >= NEWEST,
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

async fn newest(app: &App, caller: &Caller) -> Answer<Vec<SharedApproval>> {
    let mut filter = Filter {
        limit: Some(LONGEST_PAGE),
        ..Filter::default()
    };
    let mut newest = Vec::new();
    while newest.len() < NEWEST {
        let page = app.store().list(&caller.tenant, &filter).await?;
        filter.after = page.last().map(|approval| approval.id);
        let is_last = page.len() < filter.page();
        newest.extend(page);
        if is_last {
            break;
        }
    }
    Ok(newest)
}
