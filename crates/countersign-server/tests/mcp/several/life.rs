//! Servers that start late, die or are restarted.

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
    // The gateway's own tasks work without any server.
    let task = client.request("tasks/get", json!({"taskId": format!("countersign:{held}")}));
    assert_eq!(task["result"]["status"], "working", "{task}");
    // The call held for the other server runs; the one held for the dead server is withdrawn.
    place.good(&["approve", &held]);
    let waited = client.call("countersign_wait", json!({"approval": held}));
    until("it has run", || got(&place, "news", "send_email").len() == 1);
    assert!(
        text(&waited).contains("news send_email") || text(&waited).contains("running"),
        "{waited}"
    );
    until("it is withdrawn", || {
        place.json(&["show", &gone])["status"] == "withdrawn"
    });
    assert_eq!(place.run(&["approve", &gone]).code, 4);
    assert!(got(&place, "mail", "send_email").is_empty());
    let (code, stderr) = client.close();
    assert_eq!(code, 0);
    assert!(
        stderr.contains("the server `mail` is left out: it has ended"),
        "{stderr}"
    );
}

/// Waits until the list contains all tools of both servers and the gateway's own.
fn wait_for_all(client: &mut crate::client::Client) {
    until("it is back", || {
        names(&client.request("tools/list", json!({})), "tools").len() == 15
    });
}

#[test]
fn x80_one_of_several_servers_that_ended_is_started_again() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "100ms"]);
    let starts = || got(&place, "mail", "\"initialize\"").len();
    assert_eq!(text(&client.call("mail__read", json!({}))), "mail read {}");
    for round in 1..=3 {
        let crash = client.begin("mail__crash", json!({"round": round}));
        assert!(client.answer(crash)["error"].is_object());
        // The other server is not affected.
        assert_eq!(text(&client.call("news__read", json!({}))), "news read {}");
        // The client is notified when the tools disappear and when they return.
        client.hear("notifications/tools/list_changed");
        client.hear("notifications/tools/list_changed");
        wait_for_all(&mut client);
        let told = client.call("mail__read", json!({}));
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("was started again"), "{told}");
        assert_eq!(text(&client.call("mail__read", json!({}))), "mail read {}");
        assert_eq!(starts(), round + 1);
        // The call during which the server died went to only one process.
        let crashes = got(&place, "mail", &format!("\"round\":{round}"));
        assert_eq!(crashes.len(), 1, "{crashes:?}");
    }
    assert_eq!(got(&place, "news", "\"initialize\"").len(), 1);
    let held = approval(&client.call("mail__send_email", json!({"to": "m"})));
    place.good(&["approve", &held]);
    until("it has run", || got(&place, "mail", "send_email").len() == 1);
    let (code, stderr) = client.close();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        stderr.matches("the server `mail` was started again").count(),
        3,
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
    // Adding another server changes nothing for this one.
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
    // A server with the same name but a different command is a different server.
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
    drop(client);
    // Servers that exit before they are ready are not restarted.
    let servers = "[servers.a]\ncommand = [\"sh\", \"-c\", \"exit 3\"]\n[servers.b]\ncommand = [\"sh\", \"-c\", \"read l\"]\n";
    place.write("servers.toml", servers);
    let mut client = super::start(&place, &[]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert!(client.request("initialize", params)["error"].is_object());
    let (code, stderr) = client.ended();
    assert_eq!(code, 1, "{stderr}");
}
