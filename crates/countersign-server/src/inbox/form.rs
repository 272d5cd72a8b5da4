//! Parsing of the pages' forms and queries. A form that names a field twice is refused, because two readers could take
//! different values from it.

use std::collections::HashSet;

use axum::body::{Body, Bytes};
use axum::extract::{Form, FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::page;
use crate::web::{ApiError, App};

/// Extracts a form in which each field occurs once.
pub struct FormFields<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest<App> for FormFields<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        read(request, app).await.map_err(|error| page::failure(&error))
    }
}

/// Extracts the fields of a query.
pub struct QueryFields<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryFields<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let query = Query::<T>::from_request_parts(parts, app).await;
        query.map(|Query(fields)| QueryFields(fields)).map_err(|_| {
            let message = "the address has a value that this page does not understand";
            page::failure(&ApiError::new(
                StatusCode::BAD_REQUEST,
                "bad_address",
                message,
                "correct the part behind the question mark, or leave it out",
            ))
        })
    }
}

async fn read<T: DeserializeOwned + 'static>(request: Request, app: &App) -> Result<FormFields<T>, ApiError> {
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let bytes = Bytes::from_request(whole, app).await;
    let bytes = bytes.map_err(|rejection| unread(rejection.status()))?;
    let again = || Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let fields = Form::<Vec<(String, String)>>::from_request(again(), app).await;
    let Form(fields) = fields.map_err(|rejection| unread(rejection.status()))?;
    let mut names = HashSet::new();
    if fields.iter().any(|(name, _)| !names.insert(name.as_str())) {
        let message = "the form has a field twice, so it is not clear what it says";
        return Err(ApiError::bad_request(message));
    }
    let form = Form::<T>::from_request(again(), app).await;
    form.map(|Form(form)| FormFields(form))
        .map_err(|rejection| unread(rejection.status()))
}

fn unread(status: StatusCode) -> ApiError {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the form is too large"),
        _ => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "bad_form",
            "the form could not be read",
            "open the page again",
        ),
    }
}
