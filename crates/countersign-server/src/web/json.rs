//! JSON responses.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::ApiError;

/// Initial buffer size in bytes. Most responses fit into it without reallocation.
const USUAL: usize = 4096;

/// Response with the value as JSON. If the value cannot be serialized, the response is a 500.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match write(&self.0) {
            Ok(bytes) => answer(bytes.into()),
            Err(error) => error.into_response(),
        }
    }
}

/// Serializes a value as JSON. A failure is logged and becomes a 500 response.
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

/// Creates a response from bytes that are already JSON.
pub fn answer(bytes: Bytes) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], bytes).into_response()
}
