//! Prefixes say which server a tool belongs to; ambiguous names are refused.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::{got, greeted, names, place, start, two};
use crate::client::{approval, pending, text, until};

#[test]
fn a18_what_one_server_answered_is_known_of_anothers_call() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "100ms"]);
    client.call("news__read", json!({"env": "SIGN"}));
    let held = client.call("mail__send_email", json!({"to": "news's", "cc": "ana@acme.com"}));
    let card = place.json(&["show", &approval(&held)]);
    let leaves = card["calls"][0]["provenance"]["leaves"].as_array().unwrap();
    let mark = |name: &str| {
        let leaf = leaves.iter().find(|leaf| leaf["pointer"] == name).unwrap();
        leaf["mark"].clone()
    };
    assert_eq!(mark("/to"), "tool:news/read", "{card}");
    assert_eq!(mark("/cc"), "unknown", "{card}");
}

#[test]
fn x42_two_servers_with_one_tool_name_stay_apart() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "100ms"]);
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert_eq!(listed.len(), 15, "{listed:?}");
    assert_eq!(
        (listed[0].as_str(), listed[7].as_str()),
        ("mail__send_email", "news__send_email")
    );
    assert_eq!(listed[14], "countersign_wait");

    let raw = r#"{"to" : "caf\u00e9", "n":12345678901234567890123, "x":1e2}"#;
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{{"name":"news__send_email","arguments":{raw}}}}}"#
    ));
    let id = pending(&place);
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("news/send_email") && !card.contains("mail/send_email"),
        "{card}"
    );
    place.good(&["approve", &id]);
    until("it has run", || got(&place, "news", "\"tools/call\"").len() == 1);
    let ran = &got(&place, "news", "\"tools/call\"")[0];
    assert!(
        ran.contains(&format!(
            "\"params\":{{\"name\":\"send_email\",\"arguments\":{raw}}}"
        )),
        "{ran}"
    );
    let waited = client.call("countersign_wait", json!({"approval": id}));
    assert!(text(&waited).starts_with("news send_email"), "{waited}");
    assert_eq!(got(&place, "news", "\"tools/call\"").len(), 1, "once");
    assert_eq!(got(&place, "mail", "\"tools/call\""), [""; 0], "not at the other");

    for server in ["mail", "news"] {
        let env = client.call(&format!("{server}__read"), json!({"env": "SIGN"}));
        assert_eq!(
            text(&env),
            format!("{server} read {{\"env\": \"{server}'s\"}}"),
            "each has its own"
        );
    }
    // The same call to the other server is a different call.
    let other = approval(&client.call("mail__send_email", json!({"to": "x"})));
    assert_ne!(other, id);
    place.good(&["deny", &other]);
    for unknown in [
        "send_email",
        "mail__countersign_wait",
        "post__send_email",
        "mail/send_email",
        "MAIL__read",
    ] {
        let answer = client.call(unknown, json!({}));
        let message = answer["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains("there is no tool"), "{unknown}: {message}");
    }
    assert_eq!(client.close().0, 0);
}

#[test]
fn x42_a_server_whose_tools_collide_is_refused_and_the_others_go_on() {
    for (mode, reason) in [
        ("twice", "it lists two tools `read`"),
        (
            "own",
            "it lists a tool `countersign_wait`, which is the gateway's own",
        ),
    ] {
        let place = place(&[("mail", mode), ("news", "")]);
        let mut client = greeted(&place, &[]);
        // The tool is refused even before the client asks for a list.
        let answer = client.call("mail__read", json!({}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).contains(reason), "{answer}");
        let listed = names(&client.request("tools/list", json!({})), "tools");
        assert_eq!(listed.len(), 8, "{listed:?}");
        assert!(listed.iter().all(|name| !name.starts_with("mail")), "{listed:?}");
        assert_eq!(text(&client.call("news__read", json!({}))), "news read {}");
        assert_eq!(got(&place, "mail", "\"tools/call\""), [""; 0]);
        let (_, stderr) = client.close();
        assert!(
            stderr.contains(&format!("no tool of `mail` is offered: {reason}")),
            "{stderr}"
        );
        let left = place.run(&["policy", "init", "--servers", "servers.toml"]);
        assert!(
            left.code == 1 && left.stderr.contains(reason) && left.stdout.is_empty(),
            "{left:?}"
        );
    }
}

#[test]
fn x42_a_tool_that_is_listed_twice_stops_held_calls_of_its_server() {
    let place = place(&[("mail", "doubles"), ("news", "")]);
    let mut client = greeted(&place, &["--hold", "20s"]);
    let held = client.begin("mail__send_email", json!({"to": "x"}));
    let id = crate::client::pending(&place);
    client.call("mail__slow", json!({}));
    place.good(&["approve", &id]);
    let answer = client.answer(held);
    crate::client::assert_not_sent(&answer);
    assert!(
        answer.to_string().contains("it lists two tools `slow`"),
        "{answer}"
    );
    assert_eq!(got(&place, "mail", "send_email"), [""; 0]);
}

#[test]
fn x42_a_held_call_of_a_tool_that_a_single_server_lists_twice_is_not_sent() {
    let place = place(&[("mail", "twice")]);
    place.write("countersign.toml", "[tools.\"mail/slow\"]\neffect = \"write\"\n");
    let mut client = greeted(&place, &["--hold", "20s"]);
    let held = client.begin("read", json!({}));
    place.good(&["approve", &crate::client::pending(&place)]);
    let answer = client.answer(held);
    crate::client::assert_not_sent(&answer);
    assert!(
        answer.to_string().contains("it lists two tools `read`"),
        "{answer}"
    );
    assert_eq!(got(&place, "mail", "\"tools/call\""), [""; 0]);
    // The other tools can be told apart.
    let held = client.begin("slow", json!({}));
    place.good(&["approve", &crate::client::pending(&place)]);
    assert_eq!(text(&client.answer(held)), "mail slow {}");
}

#[test]
fn x42_names_of_servers_cannot_be_taken_for_one_another() {
    for (other, reason) in [
        ("Mail", "`Mail` and `mail` could be taken for one another"),
        ("countersign", "is the gateway's own"),
    ] {
        let place = place(&[("mail", ""), (other, "")]);
        for command in [
            ["mcp", "--servers", "servers.toml"].as_slice(),
            &["policy", "init", "--servers", "servers.toml"],
        ] {
            let left = place.run(command);
            assert_eq!(left.code, 1, "{left:?}");
            assert!(
                left.stderr.contains(reason) && left.stderr.contains("hint: "),
                "{left:?}"
            );
            assert_eq!(left.stdout, "");
        }
    }
    let place = two();
    let left = place.run(&["mcp", "--servers", "not-there.toml"]);
    assert!(left.stderr.contains("cannot read the servers"), "{left:?}");
    let left = place.run(&["mcp", "--servers", "servers.toml", "--name", "x"]);
    assert_eq!(left.code, 2, "{left:?}");
}

#[test]
fn x42_each_question_at_the_client_is_about_its_own_server() {
    let place = two();
    let mut client = start(&place, &["--ask-client", "not-destructive"]);
    client.greet(json!({"elicitation": {}}));
    let calls = [
        client.begin("mail__send_email", json!({"to": "m"})),
        client.begin("news__send_email", json!({"to": "n"})),
    ];
    let asked = [
        client.hear("elicitation/create"),
        client.hear("elicitation/create"),
    ];
    assert_ne!(asked[0]["id"], asked[1]["id"]);
    std::thread::sleep(Duration::from_millis(1100));
    for question in asked {
        let message = question["params"]["message"].as_str().unwrap();
        let decision = match message.contains("news/send_email") {
            true => "allow",
            false => "deny",
        };
        assert!(message.contains("/send_email"), "{message}");
        let result = json!({"action": "accept", "content": {"decision": decision}});
        client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    }
    assert!(text(&client.answer(calls[0])).contains("denied"));
    assert_eq!(text(&client.answer(calls[1])), "news send_email {\"to\": \"n\"}");
    assert!(got(&place, "mail", "send_email").is_empty());
}

#[test]
fn one_server_in_a_file_is_one_server() {
    let place = place(&[("mail", "")]);
    let mut client = greeted(&place, &[]);
    let listed = names(&client.request("tools/list", json!({})), "tools");
    assert_eq!(listed, ["send_email", "read"], "the server's own first page");
    assert_eq!(text(&client.call("read", json!({}))), "mail read {}");
    let env = client.call("read", json!({"env": "SIGN"}));
    assert_eq!(text(&env), "mail read {\"env\": \"mail's\"}");
    let call = client.begin("send_email", json!({"to": "x"}));
    assert!(
        place
            .good(&["show", &pending(&place)])
            .contains("mail/send_email")
    );
    place.good(&["approve", &pending(&place)]);
    client.answer(call);
}

#[test]
fn one_policy_pins_the_tools_of_all() {
    let place = two();
    place.good(&[
        "policy",
        "init",
        "--servers",
        "servers.toml",
        "--output",
        "all.toml",
    ]);
    let written = std::fs::read_to_string(place.path().join("all.toml")).unwrap();
    assert!(
        written.starts_with("# The tools of `mail`, `news`, as they list them."),
        "{written}"
    );
    assert_eq!(written.matches("definition = \"").count(), 14, "{written}");
    for tool in ["mail/send_email", "news/send_email"] {
        assert!(
            written.contains(&format!("[tools.\"{tool}\"]\neffect = \"destructive\"")),
            "{written}"
        );
    }
    // The other server defines the same tool differently, so the tool passes only at this one.
    place.write(
        "countersign.toml",
        written.replace(
            "[tools.\"mail/read\"]\neffect = \"destructive\"",
            "[tools.\"mail/read\"]\neffect = \"read\"",
        ),
    );
    let mut client = greeted(&place, &["--hold", "50ms"]);
    assert_eq!(text(&client.call("mail__read", json!({}))), "mail read {}");
    approval(&client.call("news__read", json!({})));
}

#[test]
fn words_of_help_name_the_file() {
    let place = two();
    let left = place.run(&["mcp", "--help"]);
    assert!(left.stdout.contains("--servers <FILE>"), "{left:?}");
    let mut command: Command = place.command(&["mcp", "--servers", "servers.toml", "--", "x"]);
    assert_eq!(
        command.output().unwrap().status.code(),
        Some(2),
        "one or the other"
    );
}

#[test]
fn with_several_servers_too_a_call_has_a_name_and_an_object() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "100ms"]);
    for params in [
        json!({"name": 7, "arguments": {}}),
        json!({"arguments": {}}),
        json!({"name": "mail__send_email", "arguments": []}),
        json!({"name": "mail__send_email", "arguments": null}),
        json!({"name": "mail__read", "arguments": "x"}),
    ] {
        let answer = client.request("tools/call", params.clone());
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    assert_eq!(place.json(&["list", "--all"])["approvals"], json!([]));
    assert!(got(&place, "mail", "tools/call").is_empty());
}
