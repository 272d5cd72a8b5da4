//! `/healthz`, `/readyz`, `/metrics`: for whoever runs the service. They say nothing about anybody's approvals.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::store::{Filter, LONGEST_PAGE};

use super::approvals::LARGEST_PAGE;
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
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut filter = Filter {
        limit: Some(LONGEST_PAGE),
        most_bytes: Some(LARGEST_PAGE),
        ..Filter::pending()
    };
    let (mut pending, mut oldest) = (0, 0.0_f64);
    while let Some(limit) = LONGEST_PAGE.checked_sub(pending).filter(|limit| *limit > 0) {
        filter.limit = Some(limit);
        let page = app.store().list(&caller.tenant, &filter).await?;
        let now = app.store().now().await?;
        let ages = page.iter().map(|approval| now.since(approval.created_at));
        oldest = ages.fold(oldest, |oldest, age| oldest.max(age.as_secs_f64()));
        pending += page.len();
        filter.after = page.last().map(|approval| approval.id);
        if !filter.is_full(&page) {
            break;
        }
    }
    app.metrics.waiting(pending, oldest);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}

fn one() -> Filter {
    Filter {
        limit: Some(1),
        ..Filter::pending()
    }
}
