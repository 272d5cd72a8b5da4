//! Host and origin guard: checks every request before routing, and adds security headers to every response.
//!
//! Requests with an unknown `Host` and cross-site requests from a browser are rejected here (X26, X27), before any
//! credential is read. Pages of the origins that the operator lists may call the API (`allowed_origins.rs`).

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::extract::DefaultBodyLimit;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::future::RouteFuture;
use axum::{BoxError, Router};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, Map, Ready, ready};
use tower::Service;

use super::allowed_origins::{allow, preflight};
use super::error::PageError;
use super::{ApiError, App, KnownQueries, PreferredLanguages};

/// Maximum size of a request body, in bytes. Call arguments have their own, lower limit.
const LARGEST_BODY: usize = 256 * 1024;

/// Accepted values of the `Host` header, compared case-insensitively.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Creates a list that accepts exactly these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> AllowedHosts {
        AllowedHosts(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Creates a list that accepts the loopback names (`127.0.0.1`, `localhost`, `[::1]`) with this port.
    pub fn loopback(port: u16) -> AllowedHosts {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        AllowedHosts::new(names.iter().map(|name| format!("{name}:{port}")))
    }

    /// Returns true if the `Host` header value is accepted.
    pub fn include(&self, host: &str) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Headers that a request may have only once. If a header occurs twice, a proxy in front may have checked the other
/// value.
const ONCE: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::ORIGIN,
    HeaderName::from_static("idempotency-key"),
];

/// Content security policy: loads only the service's own styles, scripts and images, and forbids framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The router behind the host and origin guard. This is not an axum middleware, because axum clones and boxes
/// middleware for every request.
#[derive(Clone)]
pub struct HostGuard {
    app: App,
    inside: Router,
    queries: Arc<KnownQueries>,
    dress: fn(Answered) -> Answered,
    error_page: Option<ErrorPage>,
}

/// Makes a page of an error, in the language that the browser prefers.
pub type ErrorPage = fn(&ApiError, &PreferredLanguages) -> Response;

type Answered = Result<Response, Infallible>;
/// Future of the response to a request that does not come from an allowed other origin.
type OwnAnswer = Map<Either<RouteFuture<Infallible>, Ready<Answered>>, fn(Answered) -> Answered>;

impl HostGuard {
    /// Creates the guard in front of `inside`. `queries` are the query parameters that each route accepts.
    pub fn new(app: App, inside: Router, queries: KnownQueries) -> HostGuard {
        let dress = match app.web().is_secure {
            true => |answered: Answered| answered.map(|answer| add_security_headers(answer, true)),
            false => |answered: Answered| answered.map(|answer| add_security_headers(answer, false)),
        };
        HostGuard {
            app,
            inside,
            queries: Arc::new(queries),
            dress,
            error_page: None,
        }
    }

    /// Shows errors as pages to browsers that ask for a page, outside of the API.
    #[must_use]
    pub fn with_error_page(self, error_page: ErrorPage) -> HostGuard {
        HostGuard {
            error_page: Some(error_page),
            ..self
        }
    }
}

impl<B> Service<Request<B>> for HostGuard
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<OwnAnswer, BoxFuture<'static, Answered>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// Checks the request, then routes or rejects it, and adds the security headers to the response.
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let origin = self.app.web().origins.of(uri, headers).cloned();
        let preflight = origin.as_ref().and_then(|_| preflight(method, headers));
        let checked = check(&self.app, method, uri, headers, origin.as_ref())
            .and_then(|()| self.queries.check(method, uri, headers));
        let for_page = self
            .error_page
            .filter(|_| wants_page(uri, headers))
            .map(|error_page| (error_page, PreferredLanguages::of(headers)));
        let answered = match (checked, preflight) {
            (Ok(()), None) => {
                DefaultBodyLimit::max(LARGEST_BODY).apply(&mut request);
                Either::Left(self.inside.call(request))
            }
            (Ok(()), Some(preflight)) => Either::Right(ready(Ok(preflight))),
            (Err(error), _) => Either::Right(ready(Ok(error.into_response()))),
        };
        let dress = self.dress;
        match (origin, for_page) {
            (None, None) => Either::Left(answered.map(dress)),
            (None, Some((error_page, languages))) => {
                let show = move |answered: Answered| {
                    dress(answered.map(|answer| show_error(answer, error_page, &languages)))
                };
                Either::Right(answered.map(show).boxed())
            }
            (Some(origin), _) => {
                let allowed = move |answered: Answered| answered.map(|answer| allow(answer, origin));
                Either::Right(answered.map(dress).map(allowed).boxed())
            }
        }
    }
}

/// Checks a request. `allowed_origin` is the other origin that the request comes from, if the operator allows it.
fn check(
    app: &App,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    allowed_origin: Option<&HeaderValue>,
) -> Result<(), ApiError> {
    let mut named = headers.get_all(header::HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok());
    // With several `Host` headers, a proxy in front may have checked another one.
    if named.next().is_some() {
        return Err(two_hosts());
    }
    let Some(host) = host.filter(|host| app.web().hosts.include(host)) else {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "unknown_host",
            "this service has another host name",
            "use an address that the service listens on, or start it with `--host NAME`",
        ));
    };
    // An absolute-form request target names a host too, which takes precedence over the header.
    let target = uri.authority().map(Authority::as_str);
    if target.is_some_and(|target| !target.eq_ignore_ascii_case(host)) {
        return Err(two_hosts());
    }
    // If a header occurs twice, a proxy in front may have checked the other value.
    for name in ONCE {
        if headers.get_all(&name).iter().nth(1).is_some() {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "header_twice",
                format!("the request has more than one `{name}` header"),
                "send it once",
            ));
        }
    }
    let is_ours = allowed_origin.is_some() || is_same_origin(headers, host);
    // A link on another site may open a page. Other cross-site requests may neither read a response nor change
    // anything.
    let is_navigation = text(headers, "sec-fetch-mode") == Some("navigate") && is_safe(method);
    if !is_ours && !is_navigation {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross_site",
            "cross-site requests are refused",
            "use the service's own pages, or a token from a program",
        ));
    }
    Ok(())
}

/// Returns true if a browser asks for a page, and not a program for data.
fn wants_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let accepts = text(headers, "accept").is_some_and(|kinds| kinds.contains("text/html"));
    accepts && !uri.path().starts_with("/v1/")
}

/// Replaces an error in JSON with its page. Other responses stay as they are.
fn show_error(answer: Response, error_page: ErrorPage, languages: &PreferredLanguages) -> Response {
    match answer.extensions().get::<PageError>() {
        Some(PageError(error)) => error_page(error, languages),
        None => answer,
    }
}

fn two_hosts() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "two_hosts",
        "the request names more than one host",
        "send one `Host` header, and a path or the same host in the request line",
    )
}

/// Returns true if `Sec-Fetch-Site` and `Origin`, where present, indicate a request from the service's own origin.
///
/// Programs send neither header. Browsers send at least one with every request that can change something.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let site = match text(headers, "sec-fetch-site") {
        None => headers.get("sec-fetch-site").is_none(),
        Some(site) => matches!(site, "same-origin" | "none"),
    };
    let origin = match headers.get(header::ORIGIN) {
        None => true,
        Some(origin) => origin.to_str().is_ok_and(|origin| {
            let name = origin.split_once("://").map(|(_, name)| name);
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        }),
    };
    site && origin
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Security headers of every response, and the version of the service.
static CARRIED: LazyLock<HeaderMap> = LazyLock::new(|| {
    let carried = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`, because browsers would then send the service's own forms with `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("countersign-version"),
            env!("CARGO_PKG_VERSION"),
        ),
    ];
    let carried = carried.map(|(name, value)| (name, HeaderValue::from_static(value)));
    carried.into_iter().collect()
});

fn add_security_headers(mut answer: Response, is_secure: bool) -> Response {
    let headers = answer.headers_mut();
    let own = std::mem::replace(headers, CARRIED.clone());
    // INVARIANT: a handler overrides none of these headers except `Cache-Control`.
    debug_assert!(
        own.keys()
            .all(|name| name == header::CACHE_CONTROL || !CARRIED.contains_key(name))
    );
    headers.extend(own);
    if is_secure {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    answer
}
