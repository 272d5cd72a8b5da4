//! `/healthz`, `/readyz`, `/metrics`: for whoever runs the service. They say nothing about anybody's approvals.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::store::{Filter, LONGEST_PAGE};

use super::{Answer, ApiError, App, For, scope};

/// Is the process alive?
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = String)))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Can it do its work?
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = String), (status = 503, body = super::wire::ErrorView)))]
pub async fn readyz(State(app): State<App>) -> Answer<&'static str> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    app.store().now().await?;
    app.store().list(&app.settings.tenant, &one()).await?;
    Ok("ready\n")
}

/// Figures for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations", security(("token" = ["admin"])),
    responses((status = 200, content_type = "application/openmetrics-text", body = String), (status = "default", body = super::wire::ErrorView)))]
pub async fn metrics(State(app): State<App>, For(caller, ..): For<scope::Admin>) -> Answer<Response> {
    let pending = Filter {
        limit: Some(LONGEST_PAGE),
        ..Filter::pending()
    };
    let pending = app.store().list(&caller.tenant, &pending).await?;
    let now = app.store().now().await?;
    let oldest = pending
        .iter()
        .map(|approval| now.since(approval.created_at).as_secs_f64())
        .fold(0.0, f64::max);
    app.metrics.waiting(pending.len(), oldest);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}

fn one() -> Filter {
    Filter {
        limit: Some(1),
        ..Filter::pending()
    }
}
