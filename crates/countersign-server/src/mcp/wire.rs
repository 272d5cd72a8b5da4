//! The messages we write ourselves.

use bytes::Bytes;

use super::frame::{Id, quote};

/// The message could not be read.
pub const PARSE_ERROR: i32 = -32700;
/// The message is no request we take.
pub const INVALID_REQUEST: i32 = -32600;
/// There is no such method, or nobody to ask.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// Its parameters are not what the method takes.
pub const INVALID_PARAMS: i32 = -32602;
/// Something here failed.
pub const INTERNAL: i32 = -32603;

/// The client lacks something that the request takes.
pub const MISSING_CAPABILITY: i32 = -32021;

/// An answer; `id` and `result` are JSON.
pub fn result(id: &str, result: &str) -> Bytes {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into()
}

/// An answer that was kept as bytes.
pub fn kept_result(id: &str, result: &[u8]) -> Bytes {
    kept(id, "result", result)
}

/// An error that was kept as bytes.
pub fn kept_error(id: &str, error: &[u8]) -> Bytes {
    kept(id, "error", error)
}

fn kept(id: &str, member: &str, value: &[u8]) -> Bytes {
    let mut frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":").into_bytes();
    frame.reserve(value.len() + 2);
    frame.extend_from_slice(value);
    frame.extend_from_slice(b"}\n");
    frame.into()
}

/// An error.
pub fn error(id: Option<&str>, code: i32, message: &str) -> Bytes {
    let id = id.unwrap_or("null");
    let message = quote(message);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}\n")
        .into()
}

/// The client does not say that it can do what this takes.
pub fn missing_capability(id: &str, extension: &str) -> Bytes {
    let message = quote(&format!("this takes a client that declares `{extension}`"));
    let data = format!(
        "{{\"requiredCapabilities\":{{\"extensions\":{{{}:{{}}}}}}}}",
        quote(extension)
    );
    let error = format!("{{\"code\":{MISSING_CAPABILITY},\"message\":{message},\"data\":{data}}}");
    kept_error(id, error.as_bytes())
}

/// A request of ours; `params` is JSON.
pub fn request(id: &Id, method: &str, params: &str) -> Bytes {
    let (id, method) = (id.as_json(), quote(method));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n").into()
}

/// A notification of ours; `params` is JSON.
pub fn notification(method: &str, params: &str) -> Bytes {
    let method = quote(method);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}\n").into()
}

/// How far something has come; `token` is JSON.
pub fn progress(token: &str, count: u64, message: &str) -> Bytes {
    let message = quote(message);
    let params = format!("{{\"progressToken\":{token},\"progress\":{count},\"message\":{message}}}");
    notification("notifications/progress", &params)
}
