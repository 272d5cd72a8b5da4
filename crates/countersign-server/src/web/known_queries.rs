//! Refuses unknown query parameters, and an `Idempotency-Key` where it would have no effect.
//!
//! Input: the OpenAPI document, and requests. Output: an error for a parameter or a key that the route does not have. If
//! unknown parameters were ignored, a proposal sent with `?dryRun=true` would be a real proposal. The routes themselves
//! check the values of parameters.

use axum::extract::Query;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, PathItem, RefOr};

use super::ApiError;

/// The query parameters of every route.
#[derive(Clone, Debug)]
pub struct KnownQueries(Vec<Route>);

#[derive(Clone, Debug)]
struct Route {
    method: Method,
    /// Path with placeholders, such as `/v1/approvals/{id}`.
    path: String,
    names: Vec<String>,
    /// Whether the route takes an `Idempotency-Key`.
    takes_key: bool,
}

/// Header with the idempotency key.
const KEY: &str = "idempotency-key";

impl KnownQueries {
    /// Collects the query parameters of all routes in an OpenAPI document.
    pub fn of(document: &OpenApi) -> KnownQueries {
        let items = document.paths.paths.iter();
        KnownQueries(items.flat_map(|(path, item)| routes(path, item)).collect())
    }

    /// Refuses a request with a parameter or an idempotency key that its route does not have. Requests to routes outside
    /// the document are accepted.
    pub(super) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let has_key = headers.contains_key(KEY);
        if uri.query().is_none_or(str::is_empty) && !has_key {
            return Ok(());
        }
        let method = match *method == Method::HEAD {
            true => &Method::GET,
            false => method,
        };
        let mut routes = self.0.iter();
        let Some(route) = routes.find(|route| route.method == method && matches(&route.path, uri.path()))
        else {
            return Ok(());
        };
        if has_key && !route.takes_key {
            return Err(no_key());
        }
        let Ok(Query(parameters)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(ApiError::bad_request("the query cannot be read"));
        };
        let unknown = parameters.iter().find(|(name, _)| !route.names.contains(name));
        unknown.map_or(Ok(()), |(name, _)| Err(unknown_parameter(name, &route.names)))
    }
}

fn routes(path: &str, item: &PathItem) -> Vec<Route> {
    let operations = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    let route = |(method, operation): (Method, &Option<Operation>)| {
        let parameters = operation.as_ref()?.parameters.iter().flatten();
        let takes_key = parameters.clone().any(|parameter| match parameter {
            RefOr::T(parameter) => {
                matches!(parameter.parameter_in, ParameterIn::Header) && parameter.name == KEY
            }
            RefOr::Ref(_) => false,
        });
        let in_query = parameters.filter_map(|parameter| match parameter {
            RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => Some(parameter),
            _ => None,
        });
        Some(Route {
            method,
            path: path.to_owned(),
            names: in_query.map(|parameter| parameter.name.clone()).collect(),
            takes_key,
        })
    };
    operations.into_iter().filter_map(route).collect()
}

/// Returns true if a path belongs to a route: `/v1/approvals/7` belongs to `/v1/approvals/{id}`.
fn matches(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(segment)) if part.starts_with('{') || part == segment => {}
            _ => return false,
        }
    }
}

fn no_key() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "no_idempotency_key",
        "this route takes no `Idempotency-Key`, so nothing was done",
        "leave it out; /openapi.json says which routes take one, and what makes a repeated request harmless here",
    )
}

fn unknown_parameter(name: &str, known: &[String]) -> ApiError {
    let shown = countersign::display::clip(name, 40);
    let message = format!("this route has no query parameter `{shown}`, so nothing was done");
    let hint = match known.is_empty() {
        true => "leave it out; this route has none".to_owned(),
        false => format!("this route has {}", known.join(", ")),
    };
    ApiError::new(StatusCode::BAD_REQUEST, "unknown_parameter", message, hint)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_path_is_matched_part_by_part() {
        for (route, path, expected) in [
            ("/v1/calls", "/v1/calls", true),
            ("/v1/calls", "/v1/calls/", false),
            ("/v1/approvals/{id}", "/v1/approvals/7", true),
            ("/v1/approvals/{id}", "/v1/approvals", false),
            ("/v1/approvals/{id}", "/v1/approvals/7/undo", false),
            ("/v1/a/{id}/b", "/v1/a/%2F/b", true),
        ] {
            assert_eq!(matches(route, path), expected, "{route} {path}");
        }
    }
}
