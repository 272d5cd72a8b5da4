//! Lists of messages, which the protocol once allowed.

use bytes::Bytes;

use super::{Back, Relay};
use crate::mcp::frame::{Frame, Kind};
use crate::mcp::wire;

impl Relay {
    /// One with a tool call in it is not taken apart.
    pub(super) async fn batch(&self, frame: Frame, back: &Back) -> Option<Bytes> {
        let messages: Vec<&serde_json::value::RawValue> =
            serde_json::from_slice(&frame.bytes).unwrap_or_default();
        let is_harmless = |message: &&serde_json::value::RawValue| {
            let message = Frame::read(Bytes::copy_from_slice(message.get().as_bytes()));
            message.is_ok_and(|message| match message.kind {
                Kind::Request { method, .. } | Kind::Notification { method } => {
                    !method.eq_ignore_ascii_case("tools/call")
                }
                Kind::Response { .. } => true,
                Kind::Batch => false,
            })
        };
        if !messages.is_empty() && messages.iter().all(is_harmless) {
            return Some(frame.bytes);
        }
        let problem = "the gateway takes no batch with tool calls in it; send them one by one";
        let _ = back.send(wire::error(None, wire::INVALID_REQUEST, problem)).await;
        None
    }
}
