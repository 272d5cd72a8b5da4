//! Clients of protocol version 2026-07-28 over HTTP: their request headers, and the server process that they share.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{approval, text, until};
use crate::hold::place;
use crate::http::{Came, Running, post, suite};
use crate::modern::meta;
use crate::peers::{gateway, node, peers};
use crate::test_folder::TestFolder;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

/// Calls a tool; `more` adds or replaces headers.
fn call(gateway: &Running, id: &Value, tool: &str, arguments: &Value, more: &[(&str, &str)]) -> Came {
    let mut headers = vec![
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    headers.retain(|(name, _)| !more.iter().any(|(other, _)| name == other));
    headers.extend_from_slice(more);
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta(&json!({}))});
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    post(&gateway.address, &headers, &message)
}

#[test]
fn a_held_call_runs_with_the_headers_its_tool_asks_for() {
    let server = suite();
    let place = TestFolder::without_policy();
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--hold", "200ms", "--url", &url]);
    let region = |region: &str| json!({"region": region});
    let held = |arguments: &Value, shown: &str| {
        call(
            &gateway,
            &json!(1),
            "test_x_mcp_header",
            arguments,
            &[("mcp-param-region", shown)],
        )
        .answer()
    };
    let id = approval(&held(&region("eu"), "eu"));
    place.good(&["approve", &id]);
    let mut answer = Value::Null;
    until("it has run", || {
        answer = held(&region("eu"), "eu");
        answer["result"]["structuredContent"]["status"] != "running"
    });
    assert_eq!(text(&answer), "region=eu", "{answer}");
    // After an edit, the parameter headers are those of the edited arguments.
    let id = approval(&held(&region("caf\u{e9}"), "=?base64?Y2Fmw6k=?="));
    place.write("edited.json", r#"{"region":"us"}"#);
    place.good(&["approve", &id, "--edit", "1=@edited.json"]);
    until("it has run", || {
        answer = held(&region("caf\u{e9}"), "=?base64?Y2Fmw6k=?=");
        answer["result"]["structuredContent"]["status"] != "running"
    });
    assert_eq!(text(&answer), "region=us", "{answer}");
    // The server does not see a held call, so the gateway checks its headers.
    let came = call(
        &gateway,
        &json!(1),
        "test_simple_text",
        &json!({}),
        &[("mcp-name", "greet")],
    );
    assert_eq!(
        (came.status, &came.answer()["error"]["code"]),
        (400, &json!(-32020))
    );
    assert_eq!(place.json(&["list"])["approvals"], json!([]));
}

#[test]
fn equal_ids_of_clients_that_share_a_process_do_not_meet() {
    let place = place();
    let gateway = Running::gateway(
        &place,
        &["--no-token", "--hold", "5s", "--", "python3", PEER, "journal"],
    );
    let ask = |tool: &str, n: u64| call(&gateway, &json!(7), tool, &json!({"n": n}), &[]).answer();
    // The first call starts the process.
    ask("read", 0);
    std::thread::scope(|scope| {
        // Two calls of one second each, and reads between them, all with the same id.
        let held: Vec<_> = (1..=2).map(|n| scope.spawn(move || ask("slow", n))).collect();
        until("both wait", || {
            place.json(&["list"])["approvals"].as_array().unwrap().len() == 2
        });
        for waiting in place.json(&["list"])["approvals"].as_array().unwrap() {
            place.good(&["approve", waiting["id"].as_str().unwrap()]);
        }
        let reads: Vec<_> = (10..30)
            .map(|n| scope.spawn(move || (n, ask("read", n))))
            .collect();
        for read in reads {
            let (n, answer) = read.join().unwrap();
            assert_eq!(text(&answer), format!("read {{\"n\": {n}}}"));
            assert_eq!(answer["id"], 7);
        }
        for (n, held) in (1..).zip(held) {
            let answer = held.join().unwrap();
            assert_eq!(
                (text(&answer), &answer["id"]),
                (format!("slow {{\"n\": {n}}}").as_str(), &json!(7))
            );
        }
    });
}

#[test]
fn in_front_of_a_command_the_gateway_checks_what_headers_say() {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.\"peer/test_x_mcp_header\"]\neffect = \"read\"\n",
    );
    let node = node();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peers/suite/server.mjs");
    let folder = peers().join("node").display().to_string();
    let gateway = Running::gateway(&place, &["--no-token", "--", &node, server, &folder, "stdio"]);
    let check = |more: &[(&str, &str)], status: u16, code: Value| {
        let came = call(
            &gateway,
            &json!(3),
            "test_x_mcp_header",
            &json!({"region": "eu"}),
            more,
        );
        let answer = came.answer();
        assert_eq!(
            (came.status, &answer["error"]["code"]),
            (status, &code),
            "{more:?}: {answer}"
        );
        assert_eq!(answer["id"], 3, "{answer}");
    };
    check(&[("mcp-param-region", "eu")], 200, Value::Null);
    check(&[("mcp-param-region", "=?base64?ZXU=?=")], 200, Value::Null);
    let mismatch = json!(-32020);
    check(&[], 400, mismatch.clone());
    check(&[("mcp-param-region", "us")], 400, mismatch.clone());
    check(&[("mcp-param-region", "=?base64?!?=")], 400, mismatch.clone());
    check(
        &[("mcp-param-region", "eu"), ("mcp-method", "tools/list")],
        400,
        mismatch.clone(),
    );
    check(
        &[("mcp-param-region", "eu"), ("mcp-name", "greet")],
        400,
        mismatch.clone(),
    );
    check(
        &[("mcp-param-region", "eu"), ("mcp-protocol-version", "2025-11-25")],
        400,
        mismatch,
    );
    // An unknown method gets 404, and a request without its version and capabilities gets 400.
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "ping")];
    let message = |params: Value| json!({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": params});
    assert_eq!(
        post(
            &gateway.address,
            &headers,
            &message(json!({"_meta": meta(&json!({}))}))
        )
        .status,
        404
    );
    let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    for params in [json!({}), version] {
        let came = post(&gateway.address, &headers, &message(params));
        assert_eq!(
            (came.status, &came.answer()["error"]["code"]),
            (400, &json!(-32602))
        );
    }
}

#[test]
fn a_typescript_client_talks_to_a_server_at_an_address_through_standard_input() {
    let server = suite();
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.\"peer/test_x_mcp_header\"]\neffect = \"read\"\n",
    );
    let url = format!("http://{}/mcp", server.address);
    let gateway = gateway(&place, &["--name", "peer", "--url", &url]);
    let calls = json!([["test_x_mcp_header", {"region": "eu"}]]);
    for mode in ["auto", "legacy"] {
        let mut client: Command = crate::peers::typescript(mode, &gateway, &calls);
        let left = client.output().unwrap();
        let said = String::from_utf8_lossy(&left.stdout).into_owned();
        assert!(
            said.contains("region=eu"),
            "{mode}: {said} {}",
            String::from_utf8_lossy(&left.stderr)
        );
    }
}
