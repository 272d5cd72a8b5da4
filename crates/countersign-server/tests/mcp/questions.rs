//! A server that sends a request to its client while an approved call runs, behind the gateway over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{approval, pending, text, until};
use crate::http::{Running, post, suite};
use crate::peers::{node, peers};
use crate::test_folder::TestFolder;

/// Initialises a session as a client that supports elicitation, and returns its id.
fn greet(gateway: &Running) -> String {
    let info = json!({"name": "http", "version": "1"});
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info});
    let came = post(
        &gateway.address,
        &[],
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    );
    let session = came.session.unwrap();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(&gateway.address, &[("mcp-session-id", &session)], &initialized);
    session
}

fn message() -> Value {
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Which sheep?"}});
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
}

/// Starts a call and returns its messages as they arrive.
fn begin(gateway: &Running, session: &str) -> impl Iterator<Item = Value> + use<> {
    let body = message().to_string();
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.set_read_timeout(Some(crate::client::LONG)).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\nmcp-session-id: {session}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\r\n",
        gateway.address,
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
}

/// Checks a server's request with a client that waits for the call, and with one that does not.
fn check(options: &[&str]) {
    let place = TestFolder::without_policy();
    let mut all = vec!["--no-token", "--hold", "20s"];
    all.extend_from_slice(options);
    let gateway = Running::gateway(&place, &all);
    let session = greet(&gateway);
    let mut messages = begin(&gateway, &session);
    place.good(&["approve", &pending(&place)]);
    let question = messages
        .find(|message| message["method"] == "elicitation/create")
        .unwrap();
    assert_eq!(question["params"]["message"], "Which sheep?");
    let result = json!({"action": "accept", "content": {"response": "Dolly"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    post(&gateway.address, &[("mcp-session-id", &session)], &answer);
    let told = messages.find(|message| message["id"] == 5).unwrap();
    assert!(text(&told).contains("Dolly"), "{told}");
    drop(gateway);

    all[2] = "200ms";
    let gateway = Running::gateway(&place, &all);
    let session = greet(&gateway);
    let with = [("mcp-session-id", session.as_str())];
    let id = approval(&post(&gateway.address, &with, &message()).answer());
    place.good(&["approve", &id]);
    until("the server was told that nobody is there", || {
        place.json(&["show", &id])["calls"][0]["state"] == "succeeded"
    });
    let told = post(&gateway.address, &with, &message()).answer();
    assert!(text(&told).contains("not answered: "), "{told}");
}

#[test]
fn behind_an_address_who_waits_is_asked_and_else_nobody() {
    let server = suite();
    check(&["--url", &format!("http://{}/mcp", server.address)]);
}

#[test]
fn behind_a_command_who_waits_is_asked_and_else_nobody() {
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peers/suite/server.mjs");
    let folder = peers().join("node").display().to_string();
    check(&["--", &node(), server, &folder, "stdio"]);
}
