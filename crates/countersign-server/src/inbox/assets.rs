//! Style and script, compiled into the program.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::http::ApiError;

/// One file.
pub async fn file(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "inbox.css" => ("text/css; charset=utf-8", include_str!("assets/inbox.css")),
        "inbox.js" => ("text/javascript; charset=utf-8", include_str!("assets/inbox.js")),
        _ => return ApiError::not_found("file").into_response(),
    };
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (headers, text).into_response()
}
