//! The list of what waits.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::store::{Filter, LONGEST_PAGE};
use minijinja::context;

use super::page;
use super::session::SignedIn;
use crate::http::App;
use crate::view;

/// The front door.
pub async fn home() -> Response {
    Redirect::to("/approvals").into_response()
}

/// What waits for a decision.
pub async fn show(State(app): State<App>, SignedIn(caller): SignedIn) -> Response {
    let filter = Filter {
        limit: Some(LONGEST_PAGE),
        ..Filter::pending()
    };
    let pending = match app.store().list(&caller.tenant, &filter).await {
        Ok(pending) => pending,
        Err(error) => return page::failure(&error.into()),
    };
    let rows: Vec<_> = pending
        .iter()
        .map(|approval| {
            context! {
                id => approval.id.to_string(),
                description => view::description(approval),
            }
        })
        .collect();
    page::render(
        StatusCode::OK,
        "list.html",
        context! { person => caller.name.as_str(), rows },
    )
}
