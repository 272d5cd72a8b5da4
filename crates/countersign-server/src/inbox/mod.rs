//! The inbox: pages on which people look and decide.
//!
//! Enters: a browser with a session. Leaves: HTML that works without script; the script only refreshes.
//! Deliberately absent: rules, and any text of others outside a template's escaping.

mod after;
mod arguments;
mod assets;
mod card;
mod decide;
mod detail;
mod edit;
mod filter;
mod history;
mod list;
mod live;
mod numbers;
mod page;
mod playground;
mod session;
mod sign_in;
mod timeline;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::http::App;

/// The map of the pages.
pub fn pages() -> Router<App> {
    Router::new()
        .route("/", get(list::home))
        .route("/approvals", get(list::show))
        .route("/approvals/history", get(history::show))
        .route("/approvals/{id}", get(detail::show))
        .route(
            "/approvals/{id}/decision",
            post(decide::decide).layer(DefaultBodyLimit::max(decide::LARGEST_FORM)),
        )
        .route(
            "/approvals/{id}/calls/{position}/arguments",
            get(arguments::arguments),
        )
        .route("/approvals/{id}/calls/{position}/result", get(arguments::result))
        .route("/approvals/{id}/calls/{position}/undo", post(after::undo))
        .route(
            "/approvals/{id}/calls/{position}/reconciliation",
            post(after::reconcile),
        )
        .route("/numbers", get(numbers::show))
        // Parts of pages, for the script.
        .route("/approvals/cards", get(list::cards))
        .route("/approvals/{id}/card", get(list::card))
        .route("/approvals/live", get(live::follow))
        .merge(playground::pages())
        .route("/sign-in", get(sign_in::form).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{name}", get(assets::file))
}
