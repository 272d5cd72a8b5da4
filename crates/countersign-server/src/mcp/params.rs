//! Arguments that a tool's definition also wants in HTTP headers (`x-mcp-header`, protocol version 2026-07-28).
//!
//! A tool's definition names the arguments; each call then gets the headers for them. They are made from the arguments
//! that are really sent, even if a person edited these or they were stored over a restart.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::call::Says;
use super::frame::{Frame, Kind, pick};
use super::one_line::OneLine;
use super::server::Headers;
use super::tools::Tools;

/// Prefix of headers that carry arguments.
pub const PREFIX: &str = "mcp-param-";
/// Maximum depth at which arguments are searched.
const DEEPEST: usize = 32;
/// Largest whole number that every parser reads exactly; doubles round some larger ones.
const LARGEST: i64 = (1 << 53) - 1;

/// An argument that is also sent in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InHeader {
    /// Path to the argument, as member names.
    pub path: Vec<String>,
    /// Full name of the header.
    pub name: HeaderName,
}

/// Returns the arguments of an input schema that are also sent in headers.
pub fn in_headers(schema: &str) -> Arc<[InHeader]> {
    // Fast path: few schemas have such arguments.
    if !schema.contains("x-mcp-header") {
        return Arc::default();
    }
    let mut found = Vec::new();
    if let Ok(schema) = serde_json::from_str::<Value>(schema) {
        look(&schema, &mut Vec::new(), &mut found);
    }
    found.into()
}

fn look(schema: &Value, path: &mut Vec<String>, found: &mut Vec<InHeader>) {
    if let Some(name) = schema.get("x-mcp-header").and_then(Value::as_str)
        && let Ok(name) = HeaderName::try_from(format!("{PREFIX}{name}"))
        && !path.is_empty()
    {
        let path = path.clone();
        found.push(InHeader { path, name });
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if path.len() < DEEPEST {
            path.push(name.clone());
            look(property, path, found);
            path.pop();
        }
    }
}

/// Returns the headers for a message; empty unless it calls a tool that wants arguments in headers.
pub fn headers(tools: &Tools, message: &OneLine) -> Headers {
    let frame = Frame::again(message.clone()).ok();
    frame.and_then(|frame| of_call(tools, &frame)).unwrap_or_default()
}

fn of_call(tools: &Tools, frame: &Frame) -> Option<Headers> {
    let Kind::Request { method, .. } = &frame.kind else {
        return None;
    };
    let params = frame.part(&frame.params).filter(|_| method == "tools/call")?;
    let [name, arguments] = pick(params, ["name", "arguments"]).ok()?;
    let tool: String = serde_json::from_str(name?.get()).ok()?;
    let wanted = tools.get(&tool)?.in_headers;
    if wanted.is_empty() || !Says::read(params).is_modern() {
        return None;
    }
    let arguments: Value = serde_json::from_str(arguments?.get()).ok()?;
    let headers = wanted.iter().filter_map(|wanted| {
        let found = wanted.path.iter().try_fold(&arguments, |at, name| at.get(name));
        let value = HeaderValue::try_from(encoded(&written(found?)?)).ok()?;
        Some((wanted.name.clone(), value))
    });
    Some(headers.collect())
}

/// Returns a value as header text; `None` for values that a header cannot hold.
pub fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Number(number) => {
            let whole = number.as_i64().or_else(|| {
                let number = number.as_f64()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it is whole, and compared with the largest next"
                )]
                (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
            });
            match whole {
                Some(whole) => (-LARGEST..=LARGEST).contains(&whole).then(|| whole.to_string()),
                None => number
                    .as_f64()
                    .filter(|number| number.fract() != 0.0)
                    .map(|number| number.to_string()),
            }
        }
        _ => None,
    }
}

/// Returns text as it can be sent in a header: unchanged if possible, otherwise as `=?base64?…?=`.
fn encoded(text: &str) -> String {
    let is_plain = text
        .bytes()
        .all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    match !text.is_empty() && is_plain && text.trim() == text && !looks_encoded {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", base64(text.as_bytes())),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |number: u32| char::from(*DIGITS.get((number % 64) as usize).unwrap_or(&b'='));
    let three = |bytes: &[u8]| {
        let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or_default());
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digits = [18, 12, 6, 0].map(|by| digit(number >> by));
        let used = bytes.len() + 1;
        digits
            .into_iter()
            .take(used)
            .chain(std::iter::repeat_n('=', 4 - used))
            .collect::<String>()
    };
    bytes.chunks(3).map(three).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tools::definition;

    #[track_caller]
    fn check(arguments: &str, expected: &[(&str, &str)]) {
        let tools = Tools::default();
        let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "items":{"type":"array","items":{"x-mcp-header":"Never"}}}}}"#;
        tools.saw(vec![definition(serde_json::from_str(tool).unwrap()).unwrap()]);
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let message = format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments},"_meta":{meta}}}}}"#
        );
        let made = headers(&tools, &OneLine::new(message));
        let made: Vec<_> = made
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(made, expected, "{arguments}");
    }

    #[test]
    fn arguments_stand_in_the_headers_that_a_tool_asks_for() {
        check(r#"{"region":"eu","other":1}"#, &[("mcp-param-region", "eu")]);
        check(r#"{"deep":{"n":100}}"#, &[("mcp-param-n", "100")]);
        check(r#"{"deep":{"n":1e2}}"#, &[("mcp-param-n", "100")]);
        check(r#"{"deep":{"n":90071992547409930}}"#, &[]);
        check(r#"{"region":null,"deep":{}}"#, &[]);
        check(r#"{"region":["eu"]}"#, &[]);
        for (text, base64) in [
            ("caf\u{e9}", "Y2Fmw6k="),
            (" eu", "IGV1"),
            ("", ""),
            ("=?base64?x?=", "PT9iYXNlNjQ/eD89"),
            ("a\r\nx-evil: 1", "YQ0KeC1ldmlsOiAx"),
            ("\u{ffff}", "77+/"),
        ] {
            let arguments = serde_json::json!({"region": text}).to_string();
            let value = format!("=?base64?{base64}?=");
            check(&arguments, &[("mcp-param-region", value.as_str())]);
        }
    }
}
