//! Answers in JSON.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::ApiError;

/// Most answers fit into this many bytes, and so into one piece of memory.
const USUAL: usize = 4096;

/// A value, answered as JSON.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match write(&self.0) {
            Ok(bytes) => answer(bytes.into()),
            Err(error) => error.into_response(),
        }
    }
}

/// The bytes of a value.
pub fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::with_capacity(USUAL);
    match serde_json::to_writer(&mut bytes, value) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            Err(ApiError::internal())
        }
    }
}

/// An answer of bytes that are JSON.
pub fn answer(bytes: Bytes) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], bytes).into_response()
}
