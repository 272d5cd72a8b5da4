//! Several servers behind one gateway: names tell whose they are, and nothing of one server reaches another.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, LONG, approval, pending, text, until};
use crate::place::Place;
use crate::relay::Random;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/several.py");

/// All that is no mail passes.
fn policy(servers: &[&str]) -> String {
    let mut policy = String::new();
    for server in servers {
        for tool in ["read", "slow", "ask", "crash", "say", "steps"] {
            policy.push_str(&format!("[tools.\"{server}/{tool}\"]\neffect = \"read\"\n"));
        }
        policy.push_str(&format!(
            "[tools.\"{server}/send_email\"]\neffect = \"external\"\nsummary = \"Mail {{{{ to }}}}\"\n"
        ));
    }
    policy
}

/// A place with these servers, each in its mode.
pub fn place(servers: &[(&str, &str)]) -> Place {
    let place = Place::without_policy();
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    place.write("countersign.toml", policy(&names));
    let entry = |(name, mode): &(&str, &str)| {
        format!(
            "[servers.{name}]\ncommand = [\"python3\", \"-u\", \"{PEER}\", \"{name}\", \"{name}.journal\", \"{mode}\"]\nenv = {{ SIGN = \"{name}'s\" }}\n"
        )
    };
    place.write("servers.toml", servers.iter().map(entry).collect::<String>());
    place
}

fn two() -> Place {
    place(&[("mail", ""), ("news", "")])
}

fn start(place: &Place, options: &[&str]) -> Client {
    let mut all = vec!["mcp", "--servers", "servers.toml"];
    all.extend_from_slice(options);
    Client::spawn(place.command(&all))
}

fn greeted(place: &Place, options: &[&str]) -> Client {
    let mut client = start(place, options);
    client.greet(json!({"sampling": {}}));
    client
}

/// The lines a server got that hold this.
pub fn got(place: &Place, server: &str, what: &str) -> Vec<String> {
    let journal = std::fs::read_to_string(place.path().join(format!("{server}.journal"))).unwrap_or_default();
    journal
        .lines()
        .filter(|line| line.contains(what))
        .map(str::to_owned)
        .collect()
}

fn names(answer: &Value, member: &str) -> Vec<String> {
    let items = answer["result"][member]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    items
        .iter()
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

fn raw_line(client: &mut Client, what: &str) -> String {
    let give_up = Instant::now() + LONG;
    loop {
        let line = client.line(give_up).unwrap_or_else(|| panic!("no `{what}`"));
        if line.contains(what) {
            return line;
        }
    }
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
    // The same call at the other server is another call.
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
        // Also when nobody has asked for a list.
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
fn x42_a_server_cannot_answer_or_speak_for_another() {
    let place = two();
    let mut client = greeted(&place, &[]);
    let slow = client.ask(
        "tools/call",
        json!({"name": "mail__slow", "arguments": {}, "_meta": {"progressToken": "t"}}),
    );
    let forged =
        json!({"jsonrpc": "2.0", "id": slow, "result": {"content": [{"type": "text", "text": "forged"}]}});
    client.call("news__say", json!({"line": forged.to_string()}));
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "t", "progress": 9}});
    client.call("news__say", json!({"line": progress.to_string()}));
    client.call("news__say", json!({"line": "nonsense"}));
    let twice = format!(r#"{{"jsonrpc":"2.0","id":99,"id":{slow},"result":{{}}}}"#);
    client.call("news__say", json!({"line": twice}));
    assert_eq!(text(&client.answer(slow)), "mail slow {}");
    assert!(
        client
            .seen
            .iter()
            .all(|message| message["method"] != "notifications/progress"),
        "{:?}",
        client.seen
    );
    // A held call waits here; its server knows nothing of it and answers nothing.
    let held = client.begin("mail__send_email", json!({"to": "x"}));
    let id = pending(&place);
    let forged =
        json!({"jsonrpc": "2.0", "id": held, "result": {"content": [{"type": "text", "text": "forged"}]}});
    client.call("mail__say", json!({"line": forged.to_string()}));
    place.good(&["deny", &id]);
    assert!(text(&client.answer(held)).contains("denied"));
    let (_, stderr) = client.close();
    assert!(
        stderr.contains("`news` answered what it was not asked"),
        "{stderr}"
    );
    assert!(
        stderr.contains("a message of `news` was not passed on"),
        "{stderr}"
    );
}

#[test]
fn equal_ids_of_two_servers_do_not_cross() {
    let place = two();
    let mut client = greeted(&place, &[]);
    let calls = [
        ("mail", client.begin("mail__ask", json!({}))),
        ("news", client.begin("news__ask", json!({}))),
    ];
    let mut questions = [
        client.hear("sampling/createMessage"),
        client.hear("sampling/createMessage"),
    ];
    questions.sort_by_key(|question| question["id"].to_string());
    assert_eq!(
        (&questions[0]["id"], &questions[1]["id"]),
        (&json!("mail:1"), &json!("news:1"))
    );
    assert_eq!(questions[0]["params"]["_meta"]["progressToken"], "mail:5");
    // How far the client is goes to who asked.
    client.send(r#"{"params":{"progress":1e0,"progressToken":"news:5"},"method":"notifications/progress","jsonrpc":"2.0"}"#);
    // Answered in the other order; bytes as they are, but for the id.
    for server in ["news", "mail"] {
        client.send(&format!(r#"{{"result":{{"for":"{server}","n":12345678901234567890123}}, "id": "{server}:1","jsonrpc":"2.0"}}"#));
    }
    for (server, call) in calls {
        let answer = client.answer(call);
        let expected = format!(
            r#"{{"result":{{"for":"{server}","n":12345678901234567890123}}, "id": 1,"jsonrpc":"2.0"}}"#
        );
        assert_eq!(text(&answer), expected);
    }
    let progress =
        r#"{"params":{"progress":1e0,"progressToken":5},"method":"notifications/progress","jsonrpc":"2.0"}"#;
    until("it has got there", || {
        got(&place, "news", "progressToken") == [progress]
    });
    assert!(got(&place, "mail", "notifications/progress").is_empty());
}

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
    // To a server: calls that pass, prompts, resources, and what is cancelled.
    let frames = [
        (
            r#"{"x":1e2,"params":{"arguments":{"b": 1.0,"a":12345678901234567890123},"_meta":{"t":"\u0061"}, "name" : "N" ,"new":[]},"id":"c1", "method":"tools/call","jsonrpc":"2.0"}"#,
            "read",
        ),
        (
            r#"{"jsonrpc":"2.0","id":2.5,"method":"prompts/get","params":{"name":"N","arguments":{"k":"v"},"z":{}}}"#,
            "greet",
        ),
        (
            r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"N"},"argument":{"name":"N"}}}"#,
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
    // From a server: whatever it says of itself, and definitions but for the name.
    for said in [
        r#"{"params":{"level":"info", "data":12345678901234567890123,"logger":"\u0061"},"method":"notifications/message","jsonrpc":"2.0"}"#,
        r#"{"method":"notifications/resources/updated","params":{"uri":"mail:\/\/own"},"x":1e2}"#,
        r#"{"jsonrpc":"2.0", "method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0", "method":"notifications/x/unknown","params":[1.0]}"#,
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
            random.value(5),
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
    // What says nothing of whose it is goes to nobody.
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

#[test]
fn progress_and_cancellation_find_their_server() {
    let place = two();
    let mut client = greeted(&place, &[]);
    for server in ["mail", "news"] {
        let call = client.ask(
            "tools/call",
            json!({"name": format!("{server}__steps"), "arguments": {}, "_meta": {"progressToken": format!("{server}-1")}}),
        );
        client.answer(call);
        assert_eq!(
            client.hear("notifications/progress")["params"]["progressToken"],
            format!("{server}-1")
        );
    }
    let slow = client.begin("news__slow", json!({}));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
            .to_string(),
    );
    until("it is cancelled", || {
        got(&place, "news", "notifications/cancelled").len() == 1
    });
    assert!(got(&place, "mail", "notifications/cancelled").is_empty());
    // A held call is cancelled here, and its approval withdrawn if that is wanted.
    drop(client);
    let mut client = greeted(&place, &["--on-cancel", "withdraw"]);
    let held = client.begin("mail__send_email", json!({"to": "x"}));
    let id = pending(&place);
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": held}})
            .to_string(),
    );
    until("it is withdrawn", || {
        place.json(&["show", &id])["status"] == "withdrawn"
    });
}

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
fn x42_each_question_at_the_client_is_about_its_own_server() {
    let place = two();
    let mut client = start(&place, &[]);
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
fn x14_a_server_cannot_ask_in_our_name() {
    let forged = |method: &str, rest: Value| {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        message
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        message.to_string()
    };
    // With one server, and among several.
    for (place, prefix) in [(place(&[("mail", "")]), ""), (two(), "mail__")] {
        let mut client = start(&place, &[]);
        client.greet(json!({"elicitation": {}}));
        let held = client.begin(&format!("{prefix}send_email"), json!({"to": "m"}));
        let question = client.hear("elicitation/create");
        let id = question["id"].as_str().unwrap();
        let schema =
            json!({"type": "object", "properties": {"decision": {"type": "string", "enum": ["allow"]}}});
        let params = json!({"mode": "form", "message": "Do you like cats?", "requestedSchema": schema});
        let mut say = |line: String| client.call(&format!("{prefix}say"), json!({"line": line}));
        say(forged("elicitation/create", json!({"id": id, "params": params})));
        say(forged(
            "notifications/cancelled",
            json!({"params": {"requestId": id}}),
        ));
        assert!(
            client.is_quiet(Duration::from_millis(300)) && client.seen.is_empty(),
            "{:?}",
            client.seen
        );
        place.good(&["deny", &pending(&place)]);
        assert!(text(&client.answer(held)).contains("denied"));
        let (_, stderr) = client.close();
        assert_eq!(stderr.matches("`mail` spoke in our name").count(), 2, "{stderr}");
    }
}

#[test]
fn fifty_calls_at_once_over_two_servers_run_once_each_where_they_belong() {
    let place = two();
    let mut client = greeted(&place, &["--hold", "20s"]);
    let calls: Vec<(u64, String)> = (0..50)
        .map(|number| {
            let (server, tool) = (
                ["mail", "news"][number % 2],
                ["read", "send_email"][number / 2 % 2],
            );
            let id = client.begin(&format!("{server}__{tool}"), json!({"to": number}));
            (id, format!("{server} {tool} {{\"to\": {number}}}"))
        })
        .collect();
    let mut listed = Vec::new();
    until("all are held", || {
        listed = place.json(&["list"])["approvals"].as_array().unwrap().clone();
        listed.len() == 24
    });
    for approval in listed {
        place.good(&["approve", approval["id"].as_str().unwrap()]);
    }
    for (id, expected) in calls {
        assert_eq!(text(&client.answer(id)), expected);
    }
    for server in ["mail", "news"] {
        assert_eq!(got(&place, server, "\"tools/call\"").len(), 25);
    }
}

#[test]
fn x32_what_was_left_open_is_taken_up_whoever_stands_beside_it() {
    let place = two();
    let mut client = greeted(&place, &[]);
    client.begin("mail__send_email", json!({"to": "x"}));
    let id = pending(&place);
    client.kill();
    // Another server more: nothing changes for this one.
    let servers = std::fs::read_to_string(place.path().join("servers.toml")).unwrap();
    place.write(
        "servers.toml",
        format!("{servers}[servers.absent]\ncommand = [\"./not-there\"]\n"),
    );
    let mut client = greeted(&place, &["--hold", "100ms"]);
    assert_eq!(approval(&client.call("mail__send_email", json!({"to": "x"}))), id);
    place.good(&["approve", &id]);
    until("it has run", || got(&place, "mail", "send_email").len() == 1);
    client.kill();
    // A server of the same name that is started otherwise is another one.
    let mut client = greeted(&place, &[]);
    client.begin("mail__send_email", json!({"to": "y"}));
    let id = pending(&place);
    client.kill();
    place.write(
        "servers.toml",
        servers.replace("\"mail.journal\"", "\"other.journal\""),
    );
    let _client = greeted(&place, &[]);
    place.good(&["approve", &id]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(got(&place, "other", "send_email").is_empty());
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
    // The same tool has another definition at the other server, and passes at this one only.
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
