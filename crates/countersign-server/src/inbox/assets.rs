//! Stylesheets, scripts and the icon, compiled into the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::hash::Hash;

use crate::web::ApiError;

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

const FILES: [(&str, &str, &str); 10] = [
    ("inbox.css", STYLE, include_str!("assets/inbox.css")),
    ("inbox.js", SCRIPT, include_str!("assets/inbox.js")),
    ("cards.js", SCRIPT, include_str!("assets/cards.js")),
    ("several.js", SCRIPT, include_str!("assets/several.js")),
    ("words.js", SCRIPT, include_str!("assets/words.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("keys.js", SCRIPT, include_str!("assets/keys.js")),
    ("playground.css", STYLE, include_str!("assets/playground.css")),
    ("playground.js", SCRIPT, include_str!("assets/playground.js")),
    ("icon.svg", PICTURE, include_str!("assets/icon.svg")),
];

/// Serves one file. Browsers revalidate it on each use by its `ETag`.
pub async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let found = FILES.iter().find(|(file, ..)| *file == name);
    let Some((_, kind, text)) = found else {
        return ApiError::not_found("file").into_response();
    };
    let tag = format!("\"{}\"", Hash::of(text.as_bytes()).short());
    let has_it = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match has_it {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
