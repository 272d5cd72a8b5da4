//! Checks the headers that protocol versions from 2026-07-28 on add, which repeat parts of the body.
//!
//! Proxies may act on the headers, so they must not contradict the body. The gateway checks them for requests that it
//! answers itself or sends to a server without headers; other servers check them themselves.

use axum::http::HeaderMap;
use serde_json::Value;

use super::target::VERSION;
use crate::mcp::call::Says;
use crate::mcp::frame::{Frame, Kind, pick};
use crate::mcp::params::{InHeader, written};

/// MCP error code: headers and body contradict each other.
pub const MISMATCH: i32 = -32020;
/// First protocol version without `initialize`.
const MODERN: &str = "2026-07-28";

/// Returns true if the headers name a protocol version without `initialize`.
pub fn are_modern(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    // Versions are dates, so they compare as text.
    version.is_some_and(|version| version >= MODERN)
}

/// Checks that the headers repeat the version, method and name of the body. Fails with a message that names the header.
pub fn check(frame: &Frame, headers: &HeaderMap) -> Result<(), String> {
    let Kind::Request { method, .. } = &frame.kind else {
        return Ok(());
    };
    let params = frame.part(&frame.params).unwrap_or_default();
    let member = match method.as_str() {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    };
    let named = member.and_then(|member| {
        let [found] = pick(params, [member]).ok()?;
        serde_json::from_str::<String>(found?.get()).ok()
    });
    let expected = [
        ("mcp-protocol-version", Says::read(params).version()),
        ("mcp-method", Some(method.clone())),
        ("mcp-name", named),
    ];
    for (header, expected) in expected {
        if let Some(expected) = expected
            && header_text(headers, header)?.as_deref() != Some(expected.as_str())
        {
            return Err(format!("the header `{header}` does not say what the body says"));
        }
    }
    Ok(())
}

/// Checks that the headers repeat those arguments that the tool's definition also wants in headers. Fails with a
/// message that names the header.
pub fn check_arguments(frame: &Frame, headers: &HeaderMap, wanted: &[InHeader]) -> Result<(), String> {
    let params = frame.part(&frame.params).unwrap_or_default();
    let arguments = pick(params, ["arguments"]).ok().and_then(|[arguments]| arguments);
    let arguments = arguments.and_then(|arguments| serde_json::from_str::<Value>(arguments.get()).ok());
    let arguments = arguments.unwrap_or_default();
    for wanted in wanted {
        let found = wanted.path.iter().try_fold(&arguments, |at, name| at.get(name));
        let expected = found.and_then(written);
        let shown = header_text(headers, wanted.name.as_str())?;
        let is_number = found.is_some_and(Value::is_number);
        let is_same = match (&shown, &expected) {
            (Some(shown), Some(expected)) if is_number => shown.parse::<f64>() == expected.parse::<f64>(),
            (shown, expected) => shown == expected,
        };
        if !is_same {
            return Err(format!(
                "the header `{}` does not say what the body says",
                wanted.name
            ));
        }
    }
    Ok(())
}

/// Returns the text of a header, decoded if it is base64; `None` if there is no such header. Fails if it is not
/// readable text.
fn header_text(headers: &HeaderMap, name: &str) -> Result<Option<String>, String> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let bad = || format!("the header `{name}` cannot be read");
    let text = value.to_str().map_err(|_| bad())?;
    let encoded = text
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Ok(Some(text.to_owned())),
        Some(encoded) => {
            let bytes = decode(encoded).ok_or_else(bad)?;
            String::from_utf8(bytes).map(Some).map_err(|_| bad())
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len());
    let (mut held, mut bits) = (0_u32, 0_u32);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_says_something_else_is_found() {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let text =
            format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"caf\u00e9","_meta":{meta}}}}}"#);
        let frame = Frame::read(text.into()).unwrap();
        let good = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?Y2Fmw6k=?="),
        ];
        let with = |all: &[(&'static str, &'static str)]| -> HeaderMap {
            let parsed = all
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            parsed.collect()
        };
        assert_eq!(check(&frame, &with(&good)), Ok(()));
        for missing in 0..3 {
            let mut some = good.to_vec();
            some.remove(missing);
            assert!(
                check(&frame, &with(&some)).is_err(),
                "without {:?}",
                good[missing]
            );
        }
        for (at, bad) in [
            (0, "2025-11-25"),
            (1, "tools/list"),
            (2, "cafe"),
            (2, "=?base64?Y2Fmw6k?="),
            (2, "=?base64?!!!!?="),
        ] {
            let mut other = good.to_vec();
            other[at].1 = bad;
            assert!(check(&frame, &with(&other)).is_err(), "{bad}");
        }
    }
}
