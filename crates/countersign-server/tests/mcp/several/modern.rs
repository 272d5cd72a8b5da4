//! Clients of protocol version 2026-07-28 in front of several servers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::http::beside;
use super::{got, names, place, start};
use crate::client::{approval, text, until};
use crate::http::{Running, post};
use crate::test_folder::TestFolder;

#[test]
fn clients_that_greet_nobody_are_served_when_all_servers_can() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let place = place(&[("mail", "modern"), ("news", "modern")]);
    let mut client = start(&place, &["--hold", "100ms"]);
    let discovered = client.request("server/discover", json!({"_meta": meta}));
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2026-07-28"]),
        "{discovered}"
    );
    assert_eq!(discovered["result"]["capabilities"]["tools"]["listChanged"], true);
    let listed = client.request("tools/list", json!({"_meta": meta}));
    assert_eq!(names(&listed, "tools").len(), 15);
    assert_eq!(
        (
            &listed["result"]["resultType"],
            &listed["result"]["ttlMs"],
            &listed["result"]["cacheScope"]
        ),
        (&json!("complete"), &json!(5), &json!("public")),
        "{listed}"
    );
    let read = client.request(
        "tools/call",
        json!({"name": "news__read", "arguments": {}, "_meta": meta}),
    );
    assert_eq!(text(&read), "news read {}");
    let held = client.request(
        "tools/call",
        json!({"name": "mail__send_email", "arguments": {"to": "x"}, "_meta": meta}),
    );
    let id = approval(&held);
    assert_eq!(place.json(&["show", &id])["agentName"], "modern");
    place.good(&["approve", &id]);
    until("it has run", || got(&place, "mail", "send_email").len() == 1);
    drop(client);
    // If one server requires initialisation, the client is told to initialise.
    let place = two_eras();
    let mut client = start(&place, &[]);
    let refused = client.request("server/discover", json!({"_meta": meta}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    client.greet(json!({}));
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert!(listed.len() == 8 && listed[0].starts_with("news"), "{listed:?}");
}

#[test]
fn who_listens_hears_of_all_servers() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let tag = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    let place = place(&[("mail", "modern"), ("news", "modern")]);
    let mut client = start(&place, &[]);
    client.request("server/discover", json!({"_meta": meta}));
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["mail://own", "news://own", "both://x"]});
    let listen = client.ask(
        "subscriptions/listen",
        json!({"_meta": meta, "notifications": wanted}),
    );
    let acknowledged = client.hear("notifications/subscriptions/acknowledged");
    assert_eq!(tag(&acknowledged), listen);
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["mail://own", "news://own"]}),
        "each hears of its own, and nobody of what two offer"
    );
    for (server, other) in [("mail", "news"), ("news", "mail")] {
        let got = &got(&place, server, "subscriptions/listen")[0];
        assert!(
            got.contains(&format!("{server}://own")) && !got.contains(&format!("{other}://own")),
            "{got}"
        );
    }
    let said = format!(
        r#"{{"method":"notifications/resources/updated","params":{{"uri":"news:\/\/own","_meta":{{"io.modelcontextprotocol/subscriptionId":{listen}}}}}}}"#
    );
    let call = |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments, "_meta": meta});
    client.request("tools/call", call("news__say", json!({"line": said})));
    assert_eq!(
        client.hear("notifications/resources/updated")["params"]["uri"],
        "news://own"
    );
    // A server dies and is restarted at once: the listener is notified when its tools disappear and when they return.
    client.ask("tools/call", call("mail__crash", json!({})));
    for _ in ["gone", "back"] {
        assert_eq!(tag(&client.hear("notifications/tools/list_changed")), listen);
    }
    let listed = client.request("tools/list", json!({"_meta": meta}));
    assert_eq!(names(&listed, "tools").len(), 15);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": listen}});
    client.send(&cancel.to_string());
    until("it is cancelled", || {
        got(&place, "news", "notifications/cancelled").len() == 1
    });
    // Notifications of an ended subscription are not forwarded.
    assert_eq!(
        client.request("ping", json!({"_meta": meta}))["result"],
        json!({})
    );
}

fn two_eras() -> TestFolder {
    place(&[("mail", "modern"), ("news", "")])
}

/// Returns the headers that a client sends with this message.
fn headers(message: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let headers = [
        ("mcp-protocol-version", Some("2026-07-28".to_owned())),
        ("mcp-method", text(&message["method"])),
        ("mcp-name", text(&message["params"]["name"])),
    ];
    headers
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[test]
fn clients_that_call_without_greeting_hear_of_all_servers_on_their_own_stream() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let place = place(&[("mail", "modern"), ("news", "modern")]);
    let options = [
        "mcp",
        "--listen",
        "127.0.0.1:0",
        "--no-token",
        "--servers",
        "servers.toml",
    ];
    let gateway = Running::start(place.command(&options));
    let message = |id: u64, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    let send = |message: &Value| {
        let headers = headers(message);
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        post(&gateway.address, &headers, message)
    };
    let discovered = send(&message(0, "server/discover", json!({}))).answer();
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2026-07-28"]),
        "{discovered}"
    );
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let listen = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let listening = beside(
        &gateway.address,
        &listen,
        &message(1, "subscriptions/listen", wanted),
    );
    until("both listen", || {
        ["mail", "news"]
            .iter()
            .all(|server| got(&place, server, "subscriptions/listen").len() == 1)
    });
    // Closing the stream ends the subscription.
    let body = message(
        7,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    )
    .to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\ncontent-length: {}\r\n\r\n",
        gateway.address,
        body.len()
    );
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut came = String::new();
    while !came.contains("acknowledged") {
        let mut piece = [0; 512];
        let length = stream.read(&mut piece).unwrap();
        came.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    drop(stream);
    until("it is cancelled", || {
        ["mail", "news"]
            .iter()
            .all(|server| got(&place, server, "notifications/cancelled").len() == 1)
    });
    for (id, server) in [(2, "mail"), (3, "news")] {
        let params = json!({"name": format!("{server}__read"), "arguments": {}});
        let read = send(&message(id, "tools/call", params)).answer();
        assert_eq!(text(&read), format!("{server} read {{}}"));
        let params = json!({"name": format!("{server}__crash"), "arguments": {}});
        let crashed = send(&message(id + 10, "tools/call", params)).answer();
        assert!(crashed["error"].is_object(), "{crashed}");
    }
    // The subscription is renewed at restarted servers.
    until("both listen again", || {
        ["mail", "news"]
            .iter()
            .all(|server| got(&place, server, "subscriptions/listen").len() == 3)
    });
    for (id, server) in [(20, "mail"), (30, "news")] {
        let params = json!({"name": format!("{server}__read"), "arguments": {}});
        let told = send(&message(id, "tools/call", params.clone())).answer();
        assert!(
            told["error"]["message"]
                .as_str()
                .unwrap()
                .contains("started again"),
            "{told}"
        );
        let read = send(&message(id + 1, "tools/call", params)).answer();
        assert_eq!(text(&read), format!("{server} read {{}}"));
    }
    drop(gateway);
    let came = listening.join().unwrap();
    let methods: Vec<&str> = came
        .body
        .lines()
        .filter_map(|line| line.split_once("\"method\":\"")?.1.split('"').next())
        .collect();
    let changed = "notifications/tools/list_changed";
    assert_eq!(
        methods,
        [
            "notifications/subscriptions/acknowledged",
            changed,
            changed,
            changed,
            changed
        ],
        "each came and went: {}",
        came.body
    );
}
