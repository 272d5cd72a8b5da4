//! `/healthz`, `/readyz` and `/metrics`, for operators, and `/v1/guide`, for agents. None of them reveals the content of
//! approvals.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::store::Filter;

use crate::web::{Answer, ApiError, App, Authorized, scope};

/// Liveness check
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, body = String, description = "the service works"), (status = 503, body = crate::wire::ErrorView, description = "not ready; `error.code` says why")))]
pub async fn healthz(State(app): State<App>) -> Answer<&'static str> {
    // Unhealthy if the store can no longer write and the process has to be restarted.
    app.store().health()?;
    Ok("ok\n")
}

/// Readiness check
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = String, description = "the service works"), (status = 503, body = crate::wire::ErrorView, description = "not ready; `error.code` says why")))]
pub async fn readyz(State(app): State<App>) -> Answer<&'static str> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    app.writable.check(app.store())?;
    app.store().now().await?;
    app.store().list(&app.settings.tenant, &one()).await?;
    Ok("ready\n")
}

/// Instructions for an agent's prompt
///
/// Tells a model how to work with calls that wait for a person. Add it to the system prompt of an agent.
#[utoipa::path(get, path = "/v1/guide", tag = "calls",
    responses((status = 200, content_type = "text/plain", body = String, description = "a prompt for models")))]
pub async fn guide() -> &'static str {
    countersign::gate::GUIDE
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations", security(("token" = ["admin"])),
    responses((status = 200, content_type = "application/openmetrics-text", body = String, description = "metrics"), (status = "default", body = crate::wire::ErrorView, description = "an error; `error.code` says which")))]
pub async fn metrics(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
) -> Answer<Response> {
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let store = app.store();
    let pending = store.count_pending(&caller.tenant).await?;
    // Ids increase with time, so the first is the oldest.
    let oldest = store.list(&caller.tenant, &one()).await?;
    let now = store.now().await?;
    let age = oldest.first().map(|approval| now.since(approval.created_at));
    app.metrics
        .waiting(pending, age.unwrap_or_default().as_secs_f64());
    app.metrics.store(
        app.writable.check(store).is_ok(),
        app.gate.unrecorded(),
        store.clock_trouble(),
    );
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}

fn one() -> Filter {
    Filter {
        limit: Some(1),
        ..Filter::pending()
    }
}
