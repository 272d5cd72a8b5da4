//! Web inbox: HTML pages on which people read approvals and decide.
//!
//! Input: requests from a browser with a session. Output: HTML that works without JavaScript; the script only refreshes
//! it. Untrusted text reaches a page only through the templates' escaping. Approval rules are in the library, not here.

mod arguments;
mod assets;
mod card;
mod decide;
mod detail;
mod edit;
mod edit_form;
mod failure;
mod filter;
mod form;
mod history;
mod history_file;
mod language;
mod list;
mod live;
mod numbers;
mod page;
mod people;
mod playground;
mod session;
mod several;
mod sign_in;
mod timeline;
mod undo_and_reconcile;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{get, post};

use crate::web::{ApiError, App, PreferredLanguages};
use language::Language;

/// Makes the page of an error that occurred outside of the pages, such as an unknown address.
pub fn error_page(error: &ApiError, languages: &PreferredLanguages) -> Response {
    Language::preferred(languages).within(|| page::failure(error))
}

/// Returns the routes of the pages.
pub fn pages() -> Router<App> {
    Router::new()
        .route("/", get(list::home))
        .route("/approvals", get(list::show))
        .route("/approvals/history", get(history::show))
        .route("/approvals/history.csv", get(history::csv))
        .route("/approvals/history.jsonl", get(history::json_lines))
        .route("/approvals/decisions", post(several::decide))
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
        .route(
            "/approvals/{id}/calls/{position}/undo",
            post(undo_and_reconcile::undo),
        )
        .route(
            "/approvals/{id}/calls/{position}/reconciliation",
            post(undo_and_reconcile::reconcile),
        )
        .route("/numbers", get(numbers::show))
        .merge(people::pages())
        // HTML fragments and event streams for the script.
        .route("/approvals/cards", get(list::cards))
        .route("/approvals/{id}/card", get(list::card))
        .route("/approvals/live", get(live::follow))
        .merge(playground::pages())
        .route("/sign-in", get(sign_in::form).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{name}", get(assets::file))
        .layer(axum::middleware::from_fn(language::choose))
}
