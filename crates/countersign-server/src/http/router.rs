//! Route table of the API, and the OpenAPI document generated from it.

use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{agents, approvals, calls, channels, events, operations, people};
use crate::view::FeedEventView;
use crate::web::{ApiError, App, HostGuard, KnownQueries};

/// Builds the complete service: the API, `/openapi.json` and the inbox pages, behind the host and origin guard.
pub fn router(app: App, pages: Router<App>) -> HostGuard {
    let (api, document) = api().split_for_parts();
    let queries = KnownQueries::of(&document);
    let document = Json(document);
    let inside = api
        .route("/openapi.json", get(move || async move { document }))
        .merge(pages)
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app.clone());
    HostGuard::new(app, inside, queries)
}

/// Returns the OpenAPI description of the API.
pub fn openapi() -> OpenApi {
    api().into_openapi()
}

fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(document())
        .routes(routes!(approvals::list, approvals::ask))
        .routes(routes!(approvals::get, approvals::decide))
        .routes(routes!(approvals::withdraw))
        .routes(routes!(calls::submit))
        .routes(routes!(calls::start))
        .merge(
            OpenApiRouter::new()
                .routes(routes!(calls::finish))
                .layer(DefaultBodyLimit::max(calls::LARGEST_FINISH)),
        )
        .routes(routes!(calls::reconcile))
        .routes(routes!(calls::undo))
        .routes(routes!(channels::reply))
        .routes(routes!(channels::press))
        .routes(routes!(channels::say_shown))
        .routes(routes!(channels::pending))
        .routes(routes!(channels::read_transcript))
        .routes(routes!(events::follow))
        .routes(routes!(agents::say))
        .routes(routes!(agents::session))
        .routes(routes!(agents::follow))
        .routes(routes!(people::list, people::add))
        .routes(routes!(people::remove))
        .routes(routes!(people::set_groups))
        .routes(routes!(people::make_sign_in_link))
        .routes(routes!(people::link_sender))
        .routes(routes!(people::unlink_sender))
        .routes(routes!(operations::guide))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
}

fn document() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Countersign")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "An agent proposes tool calls; only a person's recorded decision on those exact bytes lets them run, at most once.",
        ));
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Made with `countersign token create`."));
    let mut components = Components::new();
    // No response names it, because event streams are text.
    components
        .schemas
        .insert(FeedEventView::name().into_owned(), FeedEventView::schema());
    components.add_security_scheme("token", SecurityScheme::Http(token.build()));
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(components))
        .build()
}

async fn nowhere() -> Response {
    ApiError::not_found("page or route").into_response()
}

async fn wrong_method() -> Response {
    ApiError::new(
        axum::http::StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        "this route does not support that method",
        "see /openapi.json for what it takes",
    )
    .into_response()
}
