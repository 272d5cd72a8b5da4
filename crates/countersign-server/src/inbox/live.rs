//! Event stream for the script of the pages.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt as _;

use super::page;
use super::session::BackgroundCaller;
use crate::web::App;
use crate::web::{Filter, stream};

/// Longest duration of a stream. The browser then reconnects and its session is checked again.
const AT_MOST: Duration = Duration::from_secs(2 * 60);

/// Streams the tenant's events. A browser that reconnects sends its last event id, and the stream continues from there.
pub async fn follow(
    State(app): State<App>,
    BackgroundCaller(caller): BackgroundCaller,
    headers: HeaderMap,
) -> Response {
    let after = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let open = match app
        .limits
        .stream(&caller.tenant, &format!("page:{}", caller.name))
    {
        Ok(open) => open,
        Err(error) => return page::failure(&error.into()),
    };
    match stream(&app, &caller, after, Filter::default(), open).await {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            let limited = body.into_data_stream().take_until(tokio::time::sleep(AT_MOST));
            Response::from_parts(parts, Body::from_stream(limited))
        }
        Err(error) => page::failure(&error),
    }
}
