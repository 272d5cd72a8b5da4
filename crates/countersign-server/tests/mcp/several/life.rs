//! Servers that come late, die, or come back.

use std::time::Duration;

use serde_json::json;

use super::{got, greeted, names, place, two};
use crate::client::{approval, pending, text, until};

#[test]
fn one_server_that_dies_takes_nothing_with_it() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "100ms"]);
    let held = approval(&client.call("news__send_email", json!({"to": "n"})));
    let gone = approval(&client.call("mail__send_email", json!({"to": "m"})));
    let slow = client.begin("mail__slow", json!({}));
    until("it is there", || got(&place, "mail", "\"slow\"").len() == 1);
    let crash = client.begin("mail__crash", json!({}));
    for call in [slow, crash] {
        let answer = client.answer(call);
        let message = answer["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(
            message.contains("the server `mail` ended before it answered"),
            "{message}"
        );
    }
    for list in ["tools", "prompts", "resources"] {
        client.hear(&format!("notifications/{list}/list_changed"));
    }
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert!(
        listed.len() == 8 && listed.iter().all(|name| !name.starts_with("mail")),
        "{listed:?}"
    );
    let answer = client.call("mail__read", json!({}));
    assert_eq!(answer["result"]["isError"], true);
    assert!(
        text(&answer).contains("the server `mail` is not there: it has ended"),
        "{answer}"
    );
    // Ours need no server, not even the first.
    let task = client.request("tasks/get", json!({"taskId": format!("countersign:{gone}")}));
    assert_eq!(task["result"]["status"], "working", "{task}");
    // What was held for the other one runs; what was held for this one was not sent, and says so.
    place.good(&["approve", &held]);
    let waited = client.call("countersign_wait", json!({"approval": held}));
    until("it has run", || got(&place, "news", "send_email").len() == 1);
    assert!(
        text(&waited).contains("news send_email") || text(&waited).contains("running"),
        "{waited}"
    );
    place.good(&["approve", &gone]);
    until("it has ended", || {
        place.json(&["show", &gone])["calls"][0]["state"] == "failed"
    });
    assert!(got(&place, "mail", "send_email").is_empty());
    let (code, stderr) = client.close();
    assert_eq!(code, 0);
    assert!(
        stderr.contains("the server `mail` is left out: it has ended"),
        "{stderr}"
    );
}

#[test]
fn servers_that_do_not_come_up_are_left_out() {
    let place = place(&[("mail", "refuses"), ("news", "")]);
    let servers = std::fs::read_to_string(place.path().join("servers.toml")).unwrap();
    place.write("servers.toml", format!("{servers}[servers.absent]\ncommand = [\"./not-there\"]\n[servers.nobody]\nurl = \"http://127.0.0.1:1/mcp\"\n"));
    let mut client = greeted(&place, &[]);
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert_eq!(listed.len(), 8, "{listed:?}");
    for (tool, reason) in [
        ("mail__read", "not this version"),
        ("absent__x", "cannot start `./not-there`"),
        ("nobody__x", "127.0.0.1"),
    ] {
        let answer = client.call(tool, json!({}));
        assert!(text(&answer).contains(reason), "{tool}: {answer}");
    }
    let (_, stderr) = client.close();
    assert!(stderr.contains("the server `absent` is left out"), "{stderr}");
    place.write(
        "servers.toml",
        "[servers.a]\ncommand = [\"./not-there\"]\n[servers.b]\ncommand = [\"./nor-this\"]\n",
    );
    let left = place.run(&["mcp", "--servers", "servers.toml"]);
    assert_eq!(left.code, 1);
    assert!(
        left.stderr
            .contains("none of the servers can be used: `a`: cannot start"),
        "{left:?}"
    );
}

#[test]
fn x32_what_was_left_open_is_taken_up_whoever_stands_beside_it() {
    let place = two();
    let servers = std::fs::read_to_string(place.path().join("servers.toml")).unwrap();
    place.write(
        "servers.toml",
        servers.replace("\ncommand", "\nresume = true\ncommand"),
    );
    let mut client = greeted(&place, &["--lease", "1s"]);
    client.begin("mail__send_email", json!({"to": "x"}));
    let id = pending(&place);
    client.kill();
    // Another server more: nothing changes for this one.
    let servers = std::fs::read_to_string(place.path().join("servers.toml")).unwrap();
    place.write(
        "servers.toml",
        format!("{servers}[servers.absent]\ncommand = [\"./not-there\"]\n"),
    );
    let mut client = greeted(&place, &["--hold", "100ms", "--lease", "1s"]);
    assert_eq!(approval(&client.call("mail__send_email", json!({"to": "x"}))), id);
    place.good(&["approve", &id]);
    until("it has run", || got(&place, "mail", "send_email").len() == 1);
    client.kill();
    // A server of the same name that is started otherwise is another one.
    let mut client = greeted(&place, &["--lease", "1s"]);
    client.begin("mail__send_email", json!({"to": "y"}));
    let id = pending(&place);
    client.kill();
    place.write(
        "servers.toml",
        servers.replace("\"mail.journal\"", "\"other.journal\""),
    );
    let _client = greeted(&place, &["--lease", "1s"]);
    place.good(&["approve", &id]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(got(&place, "other", "send_email").is_empty());
}

#[test]
fn a_slow_server_joins_later_and_when_the_last_is_gone_so_are_we() {
    let place = place(&[("mail", "late"), ("news", "")]);
    let mut client = greeted(&place, &[]);
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert_eq!(listed.len(), 8, "the others do not wait: {listed:?}");
    let early = client.call("mail__read", json!({}));
    assert!(
        text(&early).contains("has not answered a greeting yet"),
        "{early}"
    );
    client.hear("notifications/tools/list_changed");
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert_eq!(listed.len(), 15, "{listed:?}");
    assert_eq!(text(&client.call("mail__read", json!({}))), "mail read {}");
    for tool in ["mail__crash", "news__crash"] {
        assert!(client.call(tool, json!({}))["error"].is_object());
    }
    let (code, stderr) = client.ended();
    assert_eq!(code, 1, "{stderr}");
}
