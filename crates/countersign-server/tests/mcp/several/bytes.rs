//! Forwarded messages differ only in the name, and lists are complete.

use serde_json::json;

use super::{got, greeted, names, raw_line, start, two};
use crate::client::until;
use crate::relay::Random;

#[test]
fn b3_what_passes_is_changed_in_its_name_only() {
    let place = two();
    let mut client = start(&place, &[]);
    let params = r#"{"clientInfo":{"name":"raw","version":"1"},"x":12345678901234567890123, "capabilities":{},"protocolVersion":"2025-11-25"}"#;
    client.send(&format!(
        r#"{{"method":"initialize","params":{params},"id":1,"jsonrpc":"2.0"}}"#
    ));
    let greeting = raw_line(&mut client, "protocolVersion");
    assert!(
        greeting.contains("# mail\\n\\nI am mail.\\n\\n# news\\n\\nI am news."),
        "{greeting}"
    );
    let initialized = r#"{"params":{"y":1e2},"jsonrpc":"2.0", "method":"notifications/initialized"}"#;
    client.send(initialized);
    for server in ["mail", "news"] {
        until("it is greeted", || {
            got(&place, server, "initialized") == [initialized]
        });
        let initialize = &got(&place, server, "\"initialize\"")[0];
        assert!(initialize.contains(params), "{initialize}");
    }
    // To a server: calls that pass, prompts, resources and cancellations.
    let frames = [
        (
            r#"{"x":1e2,"params":{"arguments":{"b": 1.0,"a":12345678901234567890123},"_meta":{"t":"\u0061"}, "name" : "N" ,"new":[]},"id":"c1", "method":"tools/call","jsonrpc":"2.0"}"#,
            "read",
        ),
        (
            r#"{"jsonrpc":"2.0","id":9007199254740991,"method":"prompts/get","params":{"name":"N","arguments":{"k":"v"},"z":{}}}"#,
            "greet",
        ),
        (
            r#"{"jsonrpc":"2.0","id":-9007199254740991,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"N"},"argument":{"name":"N"}}}"#,
            "greet",
        ),
    ];
    for (frame, name) in frames {
        let with = |name: &str| frame.replacen("\"N\"", &format!("\"{name}\""), 1);
        client.send(&with(&format!("mail__{name}")));
        until("it arrives", || got(&place, "mail", &with(name)).len() == 1);
    }
    for frame in [
        r#"{"jsonrpc":"2.0","id":"r1","method":"resources/read","params":{"uri":"mail:\/\/own","_meta":{"q":1e2}}}"#,
        r#"{"jsonrpc":"2.0","id":"r2","method":"resources/subscribe","params":{"uri":"mail://t/17"}}"#,
    ] {
        client.send(frame);
        until("it arrives", || got(&place, "mail", frame).len() == 1);
        raw_line(&mut client, "\"from\": \"mail\"");
    }
    client.send(r#"{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"mail__slow"}}"#);
    let cancel = r#"{"params":{"requestId":"\u0073", "reason":"r"},"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
    client.send(cancel);
    until("it arrives", || got(&place, "mail", cancel).len() == 1);
    assert!(
        got(&place, "news", "\"params\"")
            .iter()
            .all(|line| line.contains("initialize") || line.contains("/list"))
    );
    // From a server: notifications unchanged, and definitions except for the name.
    for said in [
        r#"{"params":{"level":"info", "data":12345678901234567890123,"logger":"\u0061"},"method":"notifications/message","jsonrpc":"2.0"}"#,
        r#"{"method":"notifications/resources/updated","params":{"uri":"mail:\/\/own"},"x":1e2}"#,
        r#"{"jsonrpc":"2.0", "method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0", "method":"notifications/x/unknown","params":{"a": 1.0}}"#,
    ] {
        client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "mail__say", "arguments": {"line": said}}}).to_string());
        assert_eq!(raw_line(&mut client, "\"notifications/"), said);
        raw_line(&mut client, "\"id\": 7");
    }
    client.send(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{}}"#);
    let list = raw_line(&mut client, "\"id\":8");
    for (server, tool) in [("mail", "steps"), ("news", "send_email")] {
        let definition = format!(
            r#"{{"x-new":12345678901234567890123, "name" : "{server}__{tool}" ,"inputSchema":{{"type":"object"}}, "of":"{server}"}}"#
        );
        assert!(list.contains(&definition), "{list}");
    }
}

#[test]
fn a_thousand_messages_of_any_kind_pass_byte_for_byte_but_for_the_name() {
    let place = two();
    let mut client = greeted(&place, &[]);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut expected = [Vec::new(), Vec::new()];
    for number in 0..1000 {
        let server = random.space().len() % 2;
        let (space, before, behind) = (random.space(), random.value(4), random.value(4));
        let frame = format!(
            r#"{{{space}"x":{before},"params":{{"y":{behind},{space}"name"{space}:"NAME","z":{before}}}, "id":"{number}"{space},"method":"prompts/get"}}"#
        );
        client.send(&frame.replace("NAME", &format!("{}__greet", ["mail", "news"][server])));
        expected[server].push(frame.replace("NAME", "greet"));
    }
    for (server, expected) in ["mail", "news"].iter().zip(&expected) {
        until("all have arrived", || {
            got(&place, server, "prompts/get").len() == expected.len()
        });
        assert_eq!(&got(&place, server, "prompts/get"), expected);
    }
    for _ in 0..200 {
        let said = format!(
            r#"{{"params":{},{}"method":"notifications/x"}}"#,
            random.object(5),
            random.space()
        );
        client.ask(
            "tools/call",
            json!({"name": "news__say", "arguments": {"line": said}}),
        );
        assert_eq!(raw_line(&mut client, "notifications/x\""), said);
    }
}

#[test]
fn lists_are_whole_and_resources_go_to_who_offers_them() {
    let place = two();
    let mut client = greeted(&place, &[]);
    let prompts = client.request("prompts/list", json!({}));
    assert_eq!(names(&prompts, "prompts"), ["mail__greet", "news__greet"]);
    let resources = client.request("resources/list", json!({}));
    assert_eq!(
        resources["result"]["resources"].as_array().unwrap().len(),
        6,
        "all pages of both"
    );
    let templates = client.request("resources/templates/list", json!({}));
    assert_eq!(
        templates["result"]["resourceTemplates"].as_array().unwrap().len(),
        2
    );
    let get = client.request("prompts/get", json!({"name": "news__greet"}));
    assert_eq!(get["result"]["from"], "news");
    for (uri, server) in [
        ("mail://own", "mail"),
        ("news://third", "news"),
        ("news://t/1", "news"),
    ] {
        let read = client.request("resources/read", json!({"uri": uri}));
        assert_eq!(read["result"]["from"], server, "{uri}: {read}");
    }
    let both = client.request("resources/read", json!({"uri": "both://x"}));
    let message = both["error"]["message"].as_str().unwrap();
    assert!(message.contains("offered by `mail` and `news`"), "{message}");
    let none = client.request("resources/read", json!({"uri": "mail://t/1/2"}));
    assert!(
        none["error"]["message"]
            .as_str()
            .unwrap()
            .contains("none of the servers"),
        "{none}"
    );
    let complete = json!({"ref": {"type": "ref/resource", "uri": "mail://t/{id}"}, "argument": {"name": "id", "value": ""}});
    assert_eq!(
        client.request("completion/complete", complete)["result"]["from"],
        "mail"
    );
    assert_eq!(
        client.request("logging/setLevel", json!({"level": "info"}))["result"],
        json!({})
    );
    for server in ["mail", "news"] {
        assert_eq!(got(&place, server, "logging/setLevel").len(), 1);
    }
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    // A message that names no server is not forwarded.
    for (method, params) in [
        ("x/unknown", json!({})),
        ("tasks/get", json!({"taskId": "1"})),
        ("tools/list", json!({"cursor": "2"})),
    ] {
        let answer = client.request(method, params);
        assert!(
            answer["error"]["message"].is_string() || answer["result"]["from"].is_string(),
            "{answer}"
        );
    }
    assert!(got(&place, "mail", "x/unknown").is_empty());
    client.send("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]");
    assert!(raw_line(&mut client, "error").contains("one by one"));
}
