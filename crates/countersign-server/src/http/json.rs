//! Answers in JSON.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::ApiError;

/// Most answers fit into this many bytes, and so into one piece of memory.
const USUAL: usize = 4096;

/// A value, answered as JSON.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut bytes = Vec::with_capacity(USUAL);
        if let Err(error) = serde_json::to_writer(&mut bytes, &self.0) {
            tracing::error!(%error, "an answer could not be written");
            return ApiError::internal().into_response();
        }
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], bytes).into_response()
    }
}
