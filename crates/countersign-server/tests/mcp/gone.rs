//! X91: a gateway whose store is gone ends, and tells the clients that wait.

use serde_json::json;

use crate::client::{Client, pending, until};
use crate::hold::place;
use crate::http::{Running, call, greet};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

#[test]
fn x91_a_gateway_whose_store_is_gone_answers_and_ends() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let held = client.begin("write", json!({"line": "x"}));
    pending(&place);
    let file = place.path().join("countersign.db");
    std::fs::rename(&file, place.path().join("away")).unwrap();
    let answer = client.answer(held);
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("not known"),
        "{answer}"
    );
    let (code, said) = client.ended();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("was moved to"), "{said}");
    let command = said.split('`').find(|part| part.starts_with("mv -n")).unwrap();
    let moved = std::process::Command::new("sh")
        .args(["-c", command])
        .status()
        .unwrap();
    assert!(moved.success() && file.exists(), "{said}");
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
}

#[test]
fn x91_a_gateway_over_http_whose_store_is_gone_ends() {
    let place = place();
    let mut gateway = Running::gateway(&place, &["--no-token", "--", "python3", PEER, "journal"]);
    let session = greet(&gateway.address, &[]);
    let headers = [("mcp-session-id", session.as_str())];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&gateway.address, &headers, "write", json!({"line": "x"})));
        pending(&place);
        std::fs::remove_file(place.path().join("countersign.db-wal")).unwrap();
        let answer = waiting.join().unwrap();
        assert!(answer["error"]["message"].is_string(), "{answer}");
    });
    until("the gateway ends", || gateway.child.try_wait().unwrap().is_some());
    assert_eq!(gateway.child.wait().unwrap().code(), Some(1));
    // Nothing is lost: what the log held was put back.
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
}
