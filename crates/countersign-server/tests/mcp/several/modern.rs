//! Clients of the protocol's later kind, in front of several servers.

use serde_json::{Value, json};

use super::{got, names, place, start};
use crate::client::{approval, text, until};
use crate::place::Place;

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
    // One that has to be greeted: the client is told to greet.
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
    // One that dies: its tools are gone, and the other goes on.
    client.ask("tools/call", call("mail__crash", json!({})));
    assert_eq!(tag(&client.hear("notifications/tools/list_changed")), listen);
    let listed = client.request("tools/list", json!({"_meta": meta}));
    assert_eq!(names(&listed, "tools").len(), 8);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": listen}});
    client.send(&cancel.to_string());
    until("it is cancelled", || {
        got(&place, "news", "notifications/cancelled").len() == 1
    });
    // What belongs to a subscription that is over belongs to nobody.
    assert_eq!(
        client.request("ping", json!({"_meta": meta}))["result"],
        json!({})
    );
}

fn two_eras() -> Place {
    place(&[("mail", "modern"), ("news", "")])
}
