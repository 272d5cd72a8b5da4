//! The inbox: pages on which people look and decide.
//!
//! Enters: a browser with a session. Leaves: HTML that works without script; the script only refreshes.
//! Deliberately absent: rules, and any text of others outside a template's escaping.

mod assets;
mod list;
mod page;
mod session;
mod sign_in;

use axum::Router;
use axum::routing::{get, post};

use crate::http::App;

/// The map of the pages.
pub fn pages() -> Router<App> {
    Router::new()
        .route("/", get(list::home))
        .route("/approvals", get(list::show))
        .route("/sign-in", get(sign_in::form).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{name}", get(assets::file))
}
