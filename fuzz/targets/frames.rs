//! Hostile MCP frames, made from the same generator as in the gateway's tests, and any bytes besides: what passes the door is
//! one line for every reader, and means the same.

#![no_main]

use countersign_server::read_message;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

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

fn check(bytes: &[u8]) {
    let Some(line) = read_message(bytes) else {
        return;
    };
    let text = std::str::from_utf8(&line).expect("UTF-8");
    assert!(generator::LINE_ENDS.iter().all(|end| !text.contains(end)));
    assert_eq!(read_message(&line).as_deref(), Some(line.as_slice()));
    // Halves of surrogate pairs and numbers out of range are kept as written, and serde_json does not read them.
    if let (Ok(before), Ok(after)) = (serde_json::from_slice::<Value>(bytes), serde_json::from_slice::<Value>(&line)) {
        assert_eq!(before, after);
    }
}
