//! Fuzzes MCP frames, with the generator of the gateway's tests and with any bytes: an accepted frame is one line for
//! every reader, and keeps its meaning.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mcp::frame::Frame;
use serde_json::Value;

/// Only the frame parser: the whole gateway would take minutes to compile and is not needed.
#[allow(dead_code)]
#[path = "../../crates/countersign-server/src/mcp"]
mod mcp {
    pub mod bad;
    pub mod frame;
    pub mod one_line;
}

#[path = "../../crates/countersign-server/tests/mcp/generator.rs"]
mod generator;

const CALL: &str = r#"{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"w","arguments":{}}}"#;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut numbers = bytes.chunks(8).map(|chunk| {
        let mut number = [0; 8];
        number[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(number)
    });
    let mut frames = generator::Frames::new(move || numbers.next().unwrap_or_default());
    check(&frames.frame(CALL));
});

fn read(bytes: &[u8]) -> Option<Frame> {
    Frame::read(Bytes::copy_from_slice(bytes)).ok()
}

fn check(bytes: &[u8]) {
    let Some(frame) = read(bytes) else {
        return;
    };
    let text = std::str::from_utf8(&frame.line).expect("UTF-8");
    assert!(generator::LINE_ENDS.iter().all(|end| !text.contains(end)));
    let again = read(&frame.line).expect("it was read before");
    assert_eq!((&again.line, &again.kind), (&frame.line, &frame.kind));
    // Lone surrogates and numbers out of range are kept as written; serde_json rejects those.
    let (before, after) = (serde_json::from_slice::<Value>(bytes), serde_json::from_slice::<Value>(&frame.line));
    if let (Ok(before), Ok(after)) = (before, after) {
        assert_eq!(before, after);
    }
}
