//! The API of a running service, from an operator's first request to the effect at a tool.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::gone::{recording_tool, request};
use crate::served::Served;
use crate::test_folder::{TestFolder, check_bad};

const POLICY: &str = "[tools.pay]\neffect = \"external\"\nsummary = \"Pay {{ n }}\"\n";

/// Sends a request that must succeed and returns its body.
#[track_caller]
fn good(served: &Served<'_>, token: &str, method_and_path: &str, body: Value) -> Value {
    let (status, answer) = request(&served.address(), token, method_and_path, "", &body.to_string()).unwrap();
    assert!(
        (200..300).contains(&status),
        "{method_and_path}: {status} {answer}"
    );
    answer
}

/// A person who was added over HTTP answers a card in a chat; the agent gets the result with the flag.
#[test]
fn e4_c1_people_chats_and_the_flag_on_a_running_service() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    let (port, effects) = recording_tool();
    place.write(
        "countersign-serve.toml",
        format!(
            "private_targets = [\"127.0.0.1:{port}\"]\nallowed_origins = [\"https://app.example\"]\n\
             [tools.pay]\nurl = \"http://127.0.0.1:{port}/\"\nkey_env = \"PAY_KEY\"\n"
        ),
    );
    let served = Served::start(&place);
    let admin = served.token(&["--name", "ops", "--scope", "admin"]);
    let adapter = served.token(&["--name", "telegram", "--scope", "reply"]);
    let agent = served.agent();
    let propose = |arguments: Value| {
        let body = json!({ "calls": [{ "tool": "pay", "arguments": arguments }], "channel": "chat" });
        good(&served, &agent, "POST /v1/calls", body)
    };
    let held = propose(json!({ "n": 7 }));
    assert_eq!(held["calls"][0]["requiresConfirmation"], true, "{held}");
    let card = good(&served, &adapter, "GET /v1/channels/chat/pending", Value::Null);
    let shown = json!({ "messageId": "card", "digest": card["pending"]["digest"] });
    good(&served, &adapter, "POST /v1/channels/chat/shown", shown);
    let say = |id: &str| {
        let body = json!({ "text": "yes", "sender": "telegram:7", "messageId": id, "after": "card" });
        good(&served, &adapter, "POST /v1/channels/chat/replies", body)
    };
    let unknown = say("m1");
    assert!(
        unknown["say"].as_str().unwrap().contains("telegram:7"),
        "{unknown}"
    );
    assert_eq!(*effects.lock().unwrap(), [0; 0]);
    good(&served, &admin, "POST /v1/people", json!({ "name": "zoe" }));
    good(
        &served,
        &admin,
        "POST /v1/people/zoe/senders",
        json!({ "sender": "telegram:7" }),
    );
    let link = good(&served, &admin, "POST /v1/people/zoe/sign-in-link", Value::Null);
    assert!(link["url"].as_str().unwrap().starts_with(&served.url), "{link}");
    let known = say("m2");
    assert_eq!(known["happened"], "approved", "{known}");
    assert_eq!(known["approval"]["decidedBy"], "zoe");
    let told = propose(json!({ "n": 7, "confirmed": true }));
    assert_eq!(
        (&told["calls"][0]["ruling"], &told["calls"][0]["status"]),
        (&json!("confirmed"), &json!("succeeded")),
        "{told}"
    );
    assert_eq!(*effects.lock().unwrap(), [7], "once");
    // Leave for a tool runs nothing.
    let ana = served.person();
    let leave = json!({ "toolName": "pay", "description": "May I?", "riskLevel": "low" });
    let leave = good(&served, &agent, "POST /v1/approvals?view=simple", leave);
    let path = format!(
        "POST /v1/approvals/{}?view=simple&waitFor=finished",
        leave["id"].as_str().unwrap()
    );
    let decided = good(&served, &ana, &path, json!({ "approved": true }));
    assert_eq!(decided["status"], "approved");
    let (status, _) = request(
        &served.address(),
        &ana,
        "GET /v1/approvals",
        "origin: https://app.example\r\nsec-fetch-site: cross-site\r\n",
        "",
    )
    .unwrap();
    assert_eq!(status, 200);
    let (status, _) = request(
        &served.address(),
        &ana,
        "GET /v1/approvals",
        "origin: https://evil.example\r\n",
        "",
    )
    .unwrap();
    assert_eq!(status, 403);
    assert_eq!(*effects.lock().unwrap(), [7]);
}

/// A proxy that refuses every tunnel, and the targets that it was asked for.
fn refusing_proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let seen = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            seen.lock().unwrap().push(line.trim().to_owned());
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
        }
    });
    (port, asked)
}

#[test]
fn x43_tools_are_reached_through_the_proxy_and_the_address_filter_holds() {
    let place = TestFolder::without_policy();
    let policy = ["far", "near", "private"].map(|tool| format!("[tools.{tool}]\neffect = \"external\"\n"));
    place.write("countersign.toml", policy.concat());
    let (port, effects) = recording_tool();
    let (proxy, asked) = refusing_proxy();
    let tool = |name: &str, url: &str| format!("[tools.{name}]\nurl = \"{url}\"\nkey_env = \"PAY_KEY\"\n");
    let config = [
        format!("private_targets = [\"127.0.0.1:{port}\", \"pay.example:443\"]\n"),
        tool("far", "https://pay.example/run"),
        tool("near", &format!("http://127.0.0.1:{port}/")),
        tool("private", "https://10.1.2.3/run"),
    ];
    place.write("countersign-serve.toml", config.concat());
    let proxy = format!("http://127.0.0.1:{proxy}");
    let served = Served::start_in(&place, &[("HTTPS_PROXY", &proxy), ("NO_PROXY", "other.example")]);
    let (agent, ana) = (served.agent(), served.person());
    for (tool, words) in [("far", "502"), ("near", ""), ("private", "10.1.2.3")] {
        let body = json!({ "calls": [{ "tool": tool, "arguments": { "n": 7 } }] });
        let held = good(&served, &agent, "POST /v1/calls", body);
        let id = held["approval"]["id"].as_str().unwrap();
        let path = format!("POST /v1/approvals/{id}?waitFor=finished");
        let decided = good(&served, &ana, &path, json!({ "approved": true }));
        let call = &decided["calls"][0];
        let state = if words.is_empty() { "succeeded" } else { "failed" };
        assert_eq!(call["state"], state, "{tool}: {call}");
        assert!(call["result"].to_string().contains(words), "{tool}: {call}");
    }
    // The named target goes through the proxy; the service's own machine and the forbidden address do not.
    assert_eq!(*asked.lock().unwrap(), ["CONNECT pay.example:443 HTTP/1.1"]);
    assert_eq!(*effects.lock().unwrap(), [7]);
}

#[test]
fn x27_an_origin_that_is_none_stops_the_service() {
    let place = TestFolder::new();
    for odd in ["*", "https://app.example/", "null"] {
        place.write(
            "countersign-serve.toml",
            format!("allowed_origins = [\"{odd}\"]\n"),
        );
        check_bad(
            &place,
            &["serve", "--listen", "127.0.0.1:0"],
            1,
            &format!("`allowed_origins`: `{odd}` is not an origin"),
        );
    }
}
