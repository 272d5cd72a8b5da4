//! The events of a stream, as far as they are read.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Which event it is. The rest is read once that is known, so that arguments can be kept as they are written.
#[derive(Deserialize)]
pub(super) struct Sent {
    pub(super) r#type: String,
}

#[derive(Deserialize)]
pub(super) struct MessageStart {
    pub(super) message: Started,
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
    pub(super) delta: Ended,
    pub(super) usage: Option<Used>,
}

#[derive(Deserialize)]
pub(super) struct Failure {
    pub(super) error: Wrong,
}

#[derive(Deserialize)]
pub(super) struct Started {
    pub(super) usage: Option<Used>,
}

#[derive(Default, Deserialize)]
pub(super) struct Used {
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
pub(super) struct Ended {
    pub(super) stop_reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Wrong {
    pub(super) r#type: String,
    pub(super) message: String,
}
