//! Several servers over HTTP, on the client's side and on the servers' side.

use serde_json::{Value, json};

use super::{got, place};
use crate::client::{Client, approval, pending, text, until};
use crate::http::{Came, Running, call, everything, greet, post};

fn tools(listed: &Value) -> Vec<&str> {
    let tools = listed["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Posts a message in another thread.
pub fn beside(address: &str, headers: &[(&str, &str)], message: &Value) -> std::thread::JoinHandle<Came> {
    let (address, message) = (address.to_owned(), message.clone());
    let headers: Vec<(String, String)> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    std::thread::spawn(move || {
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        post(&address, &headers, &message)
    })
}

#[test]
fn clients_that_call_get_all_servers_each_for_itself() {
    let place = place(&[("mail", ""), ("news", "")]);
    let options = [
        "mcp",
        "--listen",
        "127.0.0.1:0",
        "--servers",
        "servers.toml",
        "--hold",
        "400ms",
    ];
    let gateway = Running::start(place.command(&options));
    let token = place.good(&["token", "create", "--agent", "crm", "--scope", "propose,wait"]);
    let bearer = format!("Bearer {}", token.trim());
    let session = greet(&gateway.address, &[("authorization", &bearer)]);
    let with = [
        ("authorization", bearer.as_str()),
        ("mcp-session-id", session.as_str()),
    ];
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    let listed = post(&gateway.address, &with, &list).answer();
    assert_eq!(tools(&listed).len(), 15);
    for server in ["mail", "news"] {
        let read = call(
            &gateway.address,
            &with,
            &format!("{server}__read"),
            json!({"n": 1}),
        );
        assert_eq!(text(&read), format!("{server} read {{\"n\": 1}}"));
    }
    let held = call(&gateway.address, &with, "news__send_email", json!({"to": "x"}));
    let id = approval(&held);
    let card = place.json(&["show", &id]);
    assert_eq!(
        (&card["agentName"], &card["calls"][0]["tool"]),
        (&json!("crm"), &json!("news/send_email"))
    );
    place.good(&["approve", &id]);
    until("it has run", || got(&place, "news", "send_email").len() == 1);
    let answer = call(
        &gateway.address,
        &with,
        "countersign_wait",
        json!({"approval": id}),
    );
    assert!(text(&answer).starts_with("news send_email"), "{answer}");
    assert!(got(&place, "mail", "send_email").is_empty());
    // A server's request arrives on the stream of the call, and the answer goes to that server.
    let params = json!({"name": "mail__ask", "arguments": {}});
    let ask = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params});
    let asking = beside(&gateway.address, &with, &ask);
    until("it has asked", || got(&place, "mail", "\"ask\"").len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let answer = json!({"jsonrpc": "2.0", "id": "mail:1", "result": {"ok": true}});
    assert_eq!(post(&gateway.address, &with, &answer).status, 202);
    let came = asking.join().unwrap();
    assert!(came.body.contains("\"mail:1\""), "{}", came.body);
    assert!(text(&came.answer()).contains("\"ok\":true"), "{}", came.body);
    // Two requests with one id: the second is refused, and the first gets its own answer.
    let params = json!({"name": "mail__slow", "arguments": {}});
    let slow = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
    let waiting = beside(&gateway.address, &with, &slow);
    until("it is there", || got(&place, "mail", "\"slow\"").len() == 1);
    assert_eq!(post(&gateway.address, &with, &slow).status, 409);
    assert_eq!(text(&waiting.join().unwrap().answer()), "mail slow {}");
    assert_eq!(got(&place, "mail", "\"slow\"").len(), 1);
    // If a server dies, its caller gets an error, and the session continues.
    let crash = call(&gateway.address, &with, "mail__crash", json!({}));
    assert!(
        crash["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ended before it answered"),
        "{crash}"
    );
    let read = call(&gateway.address, &with, "news__read", json!({}));
    assert_eq!(text(&read), "news read {}");
    // The server's tools become available again.
    until("it was started again", || {
        let read = call(&gateway.address, &with, "mail__read", json!({}));
        read["result"]["content"][0]["text"] == "mail read {}"
    });
}

#[test]
fn a_server_at_an_address_beside_one_that_is_started() {
    let server = everything();
    let place = place(&[("mail", "")]);
    let file = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let url = format!("[servers.every]\nurl = \"http://{}/mcp\"\n", server.address);
    place.write("servers.toml", file("servers.toml") + &url);
    place.write(
        "countersign.toml",
        file("countersign.toml")
            + "[tools.\"every/echo\"]\neffect = \"read\"\n[tools.\"every/get-sum\"]\neffect = \"write\"\n",
    );
    let mut client = Client::spawn(place.command(&["mcp", "--servers", "servers.toml"]));
    client.greet(json!({}));
    let listed = client.request("tools/list", json!({}));
    assert!(
        tools(&listed).contains(&"every__echo") && tools(&listed).contains(&"mail__read"),
        "{listed}"
    );
    assert_eq!(
        text(&client.call("every__echo", json!({"message": "hi"}))),
        "Echo: hi"
    );
    assert_eq!(text(&client.call("mail__read", json!({}))), "mail read {}");
    let sum = client.begin("every__get-sum", json!({"a": 2, "b": 3}));
    place.good(&["approve", &pending(&place)]);
    assert!(text(&client.answer(sum)).contains('5'));
    let prompts = client.request("prompts/list", json!({}));
    let prompts = prompts["result"]["prompts"].as_array().unwrap();
    assert!(
        prompts
            .iter()
            .any(|prompt| prompt["name"] == "every__simple-prompt"),
        "{prompts:?}"
    );
    let read = client.request("resources/read", json!({"uri": "demo://resource/dynamic/text/1"}));
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    // Servers of both kinds for clients of both kinds, with one policy.
    let options = [
        "mcp",
        "--listen",
        "127.0.0.1:0",
        "--servers",
        "servers.toml",
        "--no-token",
    ];
    let gateway = Running::start(place.command(&options));
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    let echo = call(&gateway.address, &with, "every__echo", json!({"message": "hi"}));
    assert_eq!(text(&echo), "Echo: hi");
    assert_eq!(
        text(&call(&gateway.address, &with, "mail__read", json!({}))),
        "mail read {}"
    );
    let written = place.good(&["policy", "init", "--servers", "servers.toml"]);
    assert!(
        written.contains("[tools.\"every/echo\"]") && written.contains("[tools.\"mail/read\"]"),
        "{written}"
    );
    assert_eq!(client.close().0, 0);
}
