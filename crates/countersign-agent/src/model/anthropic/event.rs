//! Stream events of the Messages API, limited to the fields that are used.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Type of an event. The rest is parsed once the type is known, so that arguments are kept as written.
#[derive(Deserialize)]
pub(super) struct EventType {
    pub(super) r#type: String,
}

#[derive(Deserialize)]
pub(super) struct MessageStart {
    pub(super) message: StartedMessage,
}

/// An answer that is not streamed.
#[derive(Deserialize)]
pub(super) struct WholeMessage {
    pub(super) content: Vec<Block>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
pub(super) struct BlockStart {
    pub(super) index: u64,
    pub(super) content_block: Block,
}

#[derive(Deserialize)]
pub(super) struct BlockDelta {
    pub(super) index: u64,
    pub(super) delta: Delta,
}

#[derive(Deserialize)]
pub(super) struct BlockStop {
    pub(super) index: u64,
}

#[derive(Deserialize)]
pub(super) struct MessageDelta {
    pub(super) delta: MessageEnd,
    pub(super) usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
pub(super) struct ErrorEvent {
    pub(super) error: ErrorDetail,
}

#[derive(Deserialize)]
pub(super) struct StartedMessage {
    pub(super) usage: Option<TokenUsage>,
}

#[derive(Default, Deserialize)]
pub(super) struct TokenUsage {
    pub(super) input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Block {
    pub(super) r#type: String,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) text: Option<String>,
    pub(super) input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct Delta {
    pub(super) r#type: String,
    pub(super) text: Option<String>,
    pub(super) partial_json: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct MessageEnd {
    pub(super) stop_reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ErrorDetail {
    pub(super) r#type: String,
    pub(super) message: String,
}
