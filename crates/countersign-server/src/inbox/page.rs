//! Template rendering. All pages are rendered here, so every value is HTML-escaped.

use std::sync::OnceLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use super::card::shown;
use super::failure::explain;
use super::language::{self, Language};
use crate::access::{Caller, Scope};
use crate::web::{ApiError, App};

/// Templates, compiled into the binary.
pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("base.html", include_str!("templates/base.html")),
    ("sign_in.html", include_str!("templates/sign_in.html")),
    ("arrive.html", include_str!("templates/arrive.html")),
    ("failure.html", include_str!("templates/failure.html")),
    ("list.html", include_str!("templates/list.html")),
    ("cards.html", include_str!("templates/cards.html")),
    ("card.html", include_str!("templates/card.html")),
    ("call.html", include_str!("templates/call.html")),
    ("values.html", include_str!("templates/values.html")),
    ("alike.html", include_str!("templates/alike.html")),
    ("listed.html", include_str!("templates/listed.html")),
    ("sections.html", include_str!("templates/sections.html")),
    ("value.html", include_str!("templates/value.html")),
    ("cell.html", include_str!("templates/cell.html")),
    ("decide.html", include_str!("templates/decide.html")),
    ("people.html", include_str!("templates/people.html")),
    ("several.html", include_str!("templates/several.html")),
    ("detail.html", include_str!("templates/detail.html")),
    ("history.html", include_str!("templates/history.html")),
    ("numbers.html", include_str!("templates/numbers.html")),
    ("playground.html", include_str!("templates/playground.html")),
];

/// Renders a template. A failure is logged and becomes a 500 response.
pub fn render(status: StatusCode, name: &str, values: Value) -> Response {
    let values = context! { lang => Language::current().tag(), ..values };
    let rendered = environment()
        .get_template(name)
        .and_then(|template| template.render(values));
    match rendered {
        Ok(html) => html_response(status, html),
        Err(error) => {
            tracing::error!(template = name, "a page could not be made: {error:#}");
            let plain = "Internal error; see the service's log.";
            (StatusCode::INTERNAL_SERVER_ERROR, plain).into_response()
        }
    }
}

/// Renders a page with the navigation for a signed-in person; `here` is the current section.
pub fn signed_in(
    app: &App,
    status: StatusCode,
    name: &str,
    caller: &Caller,
    here: &str,
    values: Value,
) -> Response {
    let person = shown(caller.name.as_str());
    let has_playground = app.agents.has_playground;
    let is_admin = caller.may(Scope::Admin);
    let values = context! { person, here, has_playground, is_admin, ..values };
    render(status, name, values)
}

/// Returns a random idempotency key for a form, so that submitting the form twice has one effect. Empty if the system
/// provides no randomness.
pub fn form_key() -> String {
    let mut random = [0; 8];
    // Without randomness the form still works, but sending it twice is not detected.
    match getrandom::fill(&mut random) {
        Ok(()) => format!("{:016x}", u64::from_be_bytes(random)),
        Err(_) => String::new(),
    }
}

/// Converts an error to template values: its message and its hint.
pub fn problem(error: &ApiError) -> Value {
    let message = error.message.split("\nhint: ").next().unwrap_or_default();
    context! { code => error.code, message => sentence(&shown(message)), hint => sentence(&error.hint) }
}

/// Converts an error message to a sentence: capitalises it and adds a full stop.
pub fn sentence(fragment: &str) -> String {
    let mut characters = fragment.chars();
    match characters.next() {
        Some(first) => {
            let mut text: String = first.to_uppercase().collect();
            text.push_str(characters.as_str());
            if !text.ends_with(['.', '!', '?', '`']) {
                text.push('.');
            }
            text
        }
        None => String::new(),
    }
}

/// Renders the error page.
pub fn failure(error: &ApiError) -> Response {
    let mut page = render(
        error.status,
        "failure.html",
        context! { why => Value::from(Serde(&explain(error))), status => error.status.as_u16() },
    );
    if let Some(retry) = error.retry_header() {
        page.headers_mut().insert(header::RETRY_AFTER, retry);
    }
    page
}

/// Percent-encodes text for a URL; slashes are kept.
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
        // INVARIANT: all templates are HTML-escaped, regardless of their names.
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_syntax(syntax());
        environment.add_function("t", language::translate);
        for (name, source) in TEMPLATES {
            if let Err(error) = environment.add_template(name, source) {
                tracing::error!("the template {name} is broken: {error:#}");
            }
        }
        environment
    })
}

/// Makes lines that contain only a template block leave no blank line in the output.
fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    syntax.build().unwrap_or_default()
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
