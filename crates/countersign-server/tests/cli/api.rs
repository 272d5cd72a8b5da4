//! The API of a running service, from an operator's first request to the effect at a tool.

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
