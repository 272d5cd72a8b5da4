//! JSON-RPC messages that the gateway composes itself, as opposed to those it forwards.

use super::frame::{Id, quote};
use super::one_line::OneLine;

/// JSON-RPC code: the message could not be parsed.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC code: the message is not an acceptable request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code: the method does not exist, or no client or server can handle it.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code: invalid parameters.
pub const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC code: an error in the gateway or the server.
pub const INTERNAL: i32 = -32603;

/// MCP code: the client lacks a capability that the request needs.
pub const MISSING_CAPABILITY: i32 = -32021;

/// Returns a response; `id` and `result` are JSON.
pub fn result(id: &str, result: &str) -> OneLine {
    OneLine::new(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
}

/// Returns a response with a result that is already JSON.
pub fn raw_result(id: &str, result: &[u8]) -> OneLine {
    raw_member(id, "result", result)
}

/// Returns an error response with an error object that is already JSON.
pub fn raw_error(id: &str, error: &[u8]) -> OneLine {
    raw_member(id, "error", error)
}

fn raw_member(id: &str, member: &str, value: &[u8]) -> OneLine {
    let mut frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":").into_bytes();
    frame.reserve(value.len() + 2);
    frame.extend_from_slice(value);
    frame.push(b'}');
    OneLine::new(frame)
}

/// Returns an error response; `id` is JSON, or `None` if the request's id is unknown.
pub fn error(id: Option<&str>, code: i32, message: &str) -> OneLine {
    let id = id.unwrap_or("null");
    let message = quote(message);
    OneLine::new(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}"
    ))
}

/// Returns the error for a client that does not declare a required extension.
pub fn missing_capability(id: &str, extension: &str) -> OneLine {
    let message = quote(&format!("this takes a client that declares `{extension}`"));
    let data = format!(
        "{{\"requiredCapabilities\":{{\"extensions\":{{{}:{{}}}}}}}}",
        quote(extension)
    );
    let error = format!("{{\"code\":{MISSING_CAPABILITY},\"message\":{message},\"data\":{data}}}");
    raw_error(id, error.as_bytes())
}

/// Returns a request that the gateway sends; `params` is JSON.
pub fn request(id: &Id, method: &str, params: &str) -> OneLine {
    let (id, method) = (id.as_json(), quote(method));
    OneLine::new(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}"
    ))
}

/// Returns a notification that the gateway sends; `params` is JSON.
pub fn notification(method: &str, params: &str) -> OneLine {
    let method = quote(method);
    OneLine::new(format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}"
    ))
}

/// Returns a progress notification; `token` is JSON.
pub fn progress(token: &str, count: u64, message: &str) -> OneLine {
    let message = quote(message);
    let params = format!("{{\"progressToken\":{token},\"progress\":{count},\"message\":{message}}}");
    notification("notifications/progress", &params)
}
