//! `/v1/events`: the tenant's events as server-sent events.
//!
//! A client that reconnects with `Last-Event-ID` misses nothing. One that reads too slowly gets a `lagged` event and
//! the stream ends; it can then reconnect and resume from the store.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::web::{Answer, App, Authorized, Filter, QueryParams, scope, stream};
use crate::wire::{ErrorView, EventsQuery};

/// Follow events
///
/// Streams server-sent events, each with an id from which to resume. An agent's token follows that agent's approvals.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery,
        ("last-event-id" = Option<String>, Header, description = "id of the last event that was received; the stream continues after it")),
    security(("token" = ["read"]), ("token" = ["propose"]), ("token" = ["agent"]), ("token" = ["wait"])),
    responses((status = 200, content_type = "text/event-stream", body = String, description = "server-sent events; the data of each is a FeedEventView"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn follow(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Look>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let after = query
        .after
        .clone()
        .or_else(|| Some(headers.get("last-event-id")?.to_str().ok()?.to_owned()));
    let filter = Filter::new(&caller, query)?;
    let open = app.limits.stream(&caller.tenant, caller.name.as_str())?;
    stream(&app, &caller, after.as_deref(), filter, open).await
}
