//! Rendering: every page goes through here, so every value is escaped.

use std::sync::OnceLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use crate::http::ApiError;

/// The templates, compiled into the program.
const TEMPLATES: &[(&str, &str)] = &[
    ("base.html", include_str!("templates/base.html")),
    ("sign_in.html", include_str!("templates/sign_in.html")),
    ("failure.html", include_str!("templates/failure.html")),
    ("list.html", include_str!("templates/list.html")),
];

/// A page.
pub fn render(status: StatusCode, name: &str, values: Value) -> Response {
    let rendered = environment()
        .get_template(name)
        .and_then(|template| template.render(values));
    match rendered {
        Ok(html) => html_response(status, html),
        Err(error) => {
            tracing::error!(template = name, "a page could not be made: {error:#}");
            let plain = "Something is wrong inside the service; see its log.";
            (StatusCode::INTERNAL_SERVER_ERROR, plain).into_response()
        }
    }
}

/// The page that says why something was not done.
pub fn failure(error: &ApiError) -> Response {
    render(
        error.status,
        "failure.html",
        context! { message => error.message.as_str(), hint => error.hint.as_str() },
    )
}

/// A text as part of an address.
pub fn url_part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                part.push(char::from(byte))
            }
            _ => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}

fn html_response(status: StatusCode, html: String) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], html).into_response()
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        // INVARIANT: whatever a template is called, what it shows is escaped for HTML.
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        for (name, source) in TEMPLATES {
            if let Err(error) = environment.add_template(name, source) {
                tracing::error!("the template {name} is broken: {error:#}");
            }
        }
        environment
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_good() {
        for (name, source) in TEMPLATES {
            let mut environment = Environment::new();
            assert!(environment.add_template(name, source).is_ok(), "{name}");
        }
    }

    #[test]
    fn paths_stand_in_addresses() {
        assert_eq!(url_part("/approvals/a b&c"), "/approvals/a%20b%26c");
    }
}
