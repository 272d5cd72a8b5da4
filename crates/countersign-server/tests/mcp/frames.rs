//! Framing: no server splits one message from the gateway into two, and a message that cannot be parsed strictly is not
//! forwarded.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, LONG, text};
use crate::generator::LINE_ENDS;
use crate::hold::place;
use crate::http::{Came, Running, greet, post};
use crate::test_folder::TestFolder;

const SPLITTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/splitter.py");

/// A complete tool call that was not approved.
const HIDDEN: &str = r#"{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"write","arguments":{"line":"hidden"}}}"#;

/// Returns messages that contain a complete tool call for a reader that ends lines at `end`.
fn hiding(end: &str) -> Vec<String> {
    let ping = |params: String| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#);
    let quoted = serde_json::to_string(HIDDEN).unwrap();
    vec![
        ping(format!(r#"{{"x":{end}{HIDDEN}{end}}}"#)),
        ping(format!(r#"{{"x":[{end}{HIDDEN}{end}]}}"#)),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":{end}{HIDDEN}{end}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{end}{HIDDEN}{end}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":{end}{HIDDEN}{end}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}{end}{HIDDEN}"#),
        ping(format!(r#"{{"x":"{end}{HIDDEN}{end}"}}"#)),
        ping(format!(
            r#"{{"x":{}}}"#,
            quoted.replacen('"', &format!("\"{end}"), 1)
        )),
    ]
}

fn calls(place: &TestFolder) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("journal")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Requests the tool list and waits for it, so that everything before it was read.
fn settle(client: &mut Client) {
    let id = client.ask("tools/list", json!({}));
    let give_up = Instant::now() + LONG;
    while let Some(line) = client.line(give_up) {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        if message["id"] == id {
            return;
        }
    }
    panic!("no answer");
}

#[test]
fn x73_no_line_end_splits_a_message_for_a_server_on_standard_input() {
    for mode in ["text", "splitlines"] {
        let place = TestFolder::without_policy();
        let server = ["python3", SPLITTER, "journal", mode];
        let mut client = Client::start(&place, &["--name", "s"], &server);
        client.greet(json!({}));
        for end in LINE_ENDS {
            for message in hiding(end) {
                client.send(&message);
            }
            settle(&mut client);
            // Text after a line feed is a separate message on standard input.
            let calls = calls(&place);
            assert!(calls.is_empty(), "{mode}, {end:?}: {calls:?}");
        }
        drop(client);
    }
}

/// Posts exactly these bytes.
pub fn post_bytes(address: &str, headers: &[(&str, &str)], body: &[u8]) -> Came {
    post_for(address, headers, body, LONG)
        .unwrap_or_else(|| panic!("no answer to {:?}", String::from_utf8_lossy(body)))
}

/// Posts exactly these bytes; returns `None` if there is no response in time.
pub fn post_for(address: &str, headers: &[(&str, &str)], body: &[u8], within: Duration) -> Option<Came> {
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\nconnection: close\r\n\
         accept: application/json, text/event-stream\r\n",
        body.len()
    );
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(within)).unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).ok()?;
    let whole = String::from_utf8_lossy(&whole).into_owned();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    Some(Came {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        session: None,
        body: body.to_owned(),
    })
}

#[test]
fn x73_no_line_end_splits_a_message_that_came_over_http() {
    let place = TestFolder::without_policy();
    let gateway = Running::gateway(
        &place,
        &["--no-token", "--hold", "1s", "--", "python3", SPLITTER, "journal"],
    );
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    for end in LINE_ENDS {
        for message in hiding(end) {
            post_bytes(&gateway.address, &with, message.as_bytes());
            let calls = calls(&place);
            assert!(calls.is_empty(), "{end:?}: {message:?}: {calls:?}");
        }
    }
}

#[test]
fn x74_honest_pretty_printed_messages_over_http_are_answered() {
    let place = TestFolder::without_policy();
    let gateway = Running::gateway(
        &place,
        &["--no-token", "--", "python3", SPLITTER, "journal", "text"],
    );
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    for (id, end) in ["\n", "\r\n", "\r"].into_iter().enumerate() {
        let message =
            json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": {"a": [1, "x y"], "b": {}}});
        let pretty = serde_json::to_string_pretty(&message).unwrap().replace('\n', end);
        let began = Instant::now();
        let came = post_bytes(&gateway.address, &with, format!("{pretty}{end}").as_bytes());
        assert_eq!(came.answer()["result"]["got"], message["params"], "{end:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{end:?}");
    }
}

#[test]
fn x73_characters_that_end_lines_stay_what_they_are_inside_strings() {
    let place = TestFolder::without_policy();
    let mut client = Client::start(&place, &["--name", "s"], &["python3", SPLITTER, "journal"]);
    client.greet(json!({}));
    let text = "a\u{85}b\u{2028}c\u{2029}d\r\n\u{b}\u{c}\u{1c}\u{1d}\u{1e}é";
    let answer = client.request("ping", json!({ text: text }));
    assert_eq!(answer["result"]["got"], json!({ text: text }));
}

#[test]
fn x75_a_call_without_an_id_is_refused() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", "[tools.\"s/read\"]\neffect = \"read\"\n");
    let mut client = Client::start(&place, &["--name", "s"], &["python3", SPLITTER, "journal"]);
    client.greet(json!({}));
    for tool in ["read", "write"] {
        let params = json!({"name": tool, "arguments": {}});
        client.send(&json!({"jsonrpc": "2.0", "method": "tools/call", "params": params}).to_string());
        let answer: Value = serde_json::from_str(&client.line(Instant::now() + LONG).unwrap()).unwrap();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
    for method in [
        "tools/list",
        "resources/read",
        "ping",
        "tasks/cancel",
        "Tools/Call",
    ] {
        client.send(&json!({"jsonrpc": "2.0", "method": method, "params": {}}).to_string());
        let answer: Value = serde_json::from_str(&client.line(Instant::now() + LONG).unwrap()).unwrap();
        assert_eq!(answer["error"]["code"], -32600, "{method}: {answer}");
    }
    settle(&mut client);
    assert!(calls(&place).is_empty());
}

/// Parameters of calls whose tool name is not a string, or whose arguments are not an object.
const NO_CALLS: [&str; 12] = [
    r#"{"name":7,"arguments":{}}"#,
    r#"{"name":null,"arguments":{}}"#,
    r#"{"name":true,"arguments":{}}"#,
    r#"{"name":{"name":"write"},"arguments":{}}"#,
    r#"{"name":["write"],"arguments":{}}"#,
    r#"{"arguments":{"line":"x"}}"#,
    "{}",
    r#"{"name":"write","arguments":[]}"#,
    r#"{"name":"write","arguments":"{}"}"#,
    r#"{"name":"write","arguments":1}"#,
    r#"{"name":"write","arguments":null}"#,
    r#"{"name":"read","arguments":false}"#,
];

#[test]
fn a_call_without_a_name_or_with_odd_arguments_is_refused_and_not_stored() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "100ms"]);
    for (id, params) in (100..).zip(NO_CALLS) {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        client.send(&line);
        let answer = client.answer(id);
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    client.send(r#"{"jsonrpc":"2.0","id":200,"method":"tools/call"}"#);
    assert_eq!(client.answer(200)["error"]["code"], -32602);
    // A call without arguments is valid.
    client.send(r#"{"jsonrpc":"2.0","id":201,"method":"tools/call","params":{"name":"read"}}"#);
    assert_eq!(text(&client.answer(201)), "read null");
    // The same over HTTP.
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    let gateway = Running::gateway(
        &place,
        &["--no-token", "--hold", "100ms", "--", "python3", peer, "journal"],
    );
    let session = greet(&gateway.address, &[]);
    for params in NO_CALLS {
        let params: Value = serde_json::from_str(params).unwrap();
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let answer = post(&gateway.address, &[("mcp-session-id", &session)], &message).answer();
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    assert_eq!(place.json(&["list", "--all"])["approvals"], json!([]));
    let journal = std::fs::read_to_string(place.path().join("journal")).unwrap();
    assert_eq!(journal.lines().count(), 1, "{journal}");
}
