//! A hostile server in front of which clients have to be safe: nothing that the gateway cannot read strictly reaches them.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, LONG, journal, pending, text};
use crate::http::Running;
use crate::peers::{drive, python, typescript};
use crate::place::Place;

const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/hostile.py");
const POLICY: &str =
    "[tools.\"h/say\"]\neffect = \"read\"\n\n[tools.\"h/write\"]\neffect = \"write\"\nrisk = \"low\"\n";
/// How many lists the hostile server knows.
const LISTS: usize = 16;

fn place() -> Place {
    let place = Place::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start(place: &Place, capabilities: Value) -> Client {
    let mut client = Client::start(place, &["--name", "h"], &["python3", HOSTILE, "journal"]);
    client.greet(capabilities);
    client
}

/// Has the server say these bytes, and gives all that the client hears until that call is answered.
fn say(client: &mut Client, said: &[u8]) -> Vec<String> {
    let id = client.begin("say", json!({"hex": hex(said)}));
    let mut heard = Vec::new();
    while let Some(line) = client.line(Instant::now() + LONG) {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        if message["id"] == id {
            return heard;
        }
        heard.push(line);
    }
    panic!("no answer");
}

#[test]
fn x76_no_server_asks_in_our_name() {
    let place = place();
    let mut client = start(&place, json!({"elicitation": {}}));
    client.begin("write", json!({"line": "x"}));
    let question = client.hear("elicitation/create");
    let id = question["id"].as_str().unwrap().to_owned();
    assert!(id.len() > "countersign:".len() + 30, "{id}");
    let asks = r#""method":"elicitation/create","params":{"message":"cats?","requestedSchema":{}}}"#;
    for own in [id.as_str(), "countersign:ask:1", "countersign:1"] {
        for said in [
            format!(r#"{{"jsonrpc":"2.0","id":"zz","id":"{own}",{asks}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"{own}","id":"zz",{asks}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"\u0063{}",{asks}"#, &own[1..]),
            format!(r#"{{"jsonrpc":"2.0","ID":"zz","id":"{own}",{asks}"#),
            format!(r#"[{{"jsonrpc":"2.0","id":"{own}",{asks}]"#),
            format!("{{\"jsonrpc\":\"2.0\",\"x\":\"\u{ff}\",\"id\":\"{own}\",{asks}")
                .replace('\u{ff}', "\u{2028}"),
        ] {
            let heard = say(&mut client, said.as_bytes());
            assert!(
                heard.iter().all(|line| !line.contains("cats")),
                "{said}: {heard:?}"
            );
        }
    }
    // An answer under an id that was never given out is nobody's, however sure of itself.
    std::thread::sleep(Duration::from_millis(1100));
    for guess in ["countersign:ask:1", "countersign:1", "countersign:ask:2"] {
        let result = json!({"action": "accept", "content": {"decision": "allow"}});
        client.send(&json!({"jsonrpc": "2.0", "id": guess, "result": result}).to_string());
    }
    assert!(say(&mut client, b"{}").is_empty());
    let id = pending(&place);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "held");
    assert!(
        journal(&place)
            .iter()
            .all(|arguments| !arguments.contains("line"))
    );
}

#[test]
fn x79_the_client_sees_the_list_that_was_read() {
    let place = place();
    let mut client = start(&place, json!({}));
    let mut answered = 0;
    for number in 0..LISTS {
        let id = client.ask("tools/list", json!({}));
        let answer = client.answer(id);
        let text = answer.to_string();
        assert!(!text.contains("poisoned"), "{number}: {text}");
        answered += usize::from(text.contains("honest"));
        assert!(
            text.contains("honest") || answer["error"].is_object(),
            "{number}: {text}"
        );
        assert!(!format!("{:?}", client.seen).contains("poisoned"), "{number}");
        client.seen.clear();
    }
    assert_eq!(answered, 3, "those with an honest answer behind the other");
}

/// Answers that two readers read differently, and some that nobody reads.
const BAD_ANSWERS: [&[u8]; 9] = [
    b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"leaked\xff\"}]}}",
    br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"result":{"content":[{"type":"text","text":"leaked"}]}}"#,
    br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[{"type":"text","text":"leaked"}]}}"#,
    br#"{"jsonrpc":"2.0","id":"zz","id":ID,"result":{"content":[{"type":"text","text":"leaked"}]}}"#,
    br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"leaked"}],"x":NaN}}"#,
    br#"[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"leaked"}]}}]"#,
    br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"leaked"}]}} trailing"#,
    b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"leaked\"}]}}",
    br#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"leaked"}]}"#,
];

/// Approves a call that is answered badly: it is unknown at once, and the client hears that, and nothing else.
#[track_caller]
fn ends_unknown(place: &Place, client: &mut Client, arguments: Value) {
    let shown = arguments.to_string();
    let call = client.begin("write", arguments);
    let id = pending(place);
    let began = Instant::now();
    place.good(&["approve", &id]);
    let answer = client.answer(call);
    assert!(began.elapsed() < Duration::from_secs(10), "{shown}");
    let told: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(told["status"], "unknown", "{shown}: {answer}");
    let heard = format!("{answer} {:?}", client.seen);
    assert!(!heard.contains("leaked"), "{shown}: {heard}");
    client.seen.clear();
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "unknown");
}

#[test]
fn x82_a_bad_answer_ends_an_approved_call_at_once() {
    let place = place();
    let mut client = start(&place, json!({}));
    for bad in BAD_ANSWERS {
        ends_unknown(&place, &mut client, json!({"hex": hex(bad)}));
    }
    // The session goes on.
    assert!(say(&mut client, b"{}").is_empty());
    let (_, stderr) = client.close();
    let lines = stderr
        .lines()
        .filter(|line| line.contains("was not passed on"))
        .count();
    assert_eq!(lines, BAD_ANSWERS.len() + 1, "{stderr}");
}

#[test]
fn x82_a_bad_answer_over_http_ends_an_approved_call_at_once() {
    let place = place();
    let mut command = Command::new("python3");
    command
        .args([HOSTILE, "journal", "http"])
        .current_dir(place.path());
    let server = Running::start(command);
    let url = format!("http://{}/mcp", server.address);
    let mut client = Client::spawn(place.command(&["mcp", "--name", "h", "--url", &url]));
    client.greet(json!({}));
    for (number, bad) in BAD_ANSWERS.into_iter().enumerate() {
        ends_unknown(&place, &mut client, json!({"hex": hex(bad)}));
        let stream = if number == 0 { "stays" } else { "ends" };
        ends_unknown(&place, &mut client, json!({"hex": hex(bad), "stream": stream}));
    }
}

/// Bad answers to what passes, through a proxy: an error and nothing else.
#[test]
fn x79_x82_a_proxy_passes_no_body_that_it_cannot_read() {
    let place = Place::without_policy();
    place.write(
        "countersign.toml",
        "[tools.\"peer/write\"]\neffect = \"read\"\n[tools.\"peer/say\"]\neffect = \"read\"\n",
    );
    let mut command = Command::new("python3");
    command
        .args([HOSTILE, "journal", "http"])
        .current_dir(place.path());
    let server = Running::start(command);
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--url", &url]);
    let split = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"x\":\r\rdata: {\"jsonrpc\":\"2.0\",\
                  \"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"leaked\"}}\r\r}}";
    let all = BAD_ANSWERS.into_iter().chain([split.as_slice()]);
    for bad in all {
        for stream in [false, true] {
            let arguments = json!({"hex": hex(bad), "stream": stream});
            let params = json!({"name": "write", "arguments": arguments});
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            let came = crate::http::post(&gateway.address, &[], &call);
            // A question in a part of a stream is a message of its own, and is passed on as one.
            let is_split = bad == split && stream;
            assert!(is_split || !came.body.contains("leaked"), "{}", came.body);
            // Those that are left are HTTP's.
            let body = came.body.replace("\r\n", "\n");
            assert!(!body.contains('\r'), "{body:?}");
        }
    }
    for number in 0..LISTS {
        let list = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {}});
        let came = crate::http::post(&gateway.address, &[], &list);
        assert!(
            !came.body.contains("poisoned") && !came.body.contains("cats"),
            "{number}: {}",
            came.body
        );
    }
}

/// What a real client sees and is asked, in front of the hostile server.
fn check_client(name: &str, make: impl Fn(&Value, &Value) -> Command) {
    let place = place();
    let at = |file: &str| place.path().join(file).display().to_string();
    let (store, policy, journal) = (at("countersign.db"), at("countersign.toml"), at("journal"));
    let gateway = json!([
        env!("CARGO_BIN_EXE_countersign"),
        "mcp",
        "--store",
        store,
        "--policy",
        policy,
        "--as",
        "ana",
        "--name",
        "h",
        "--hold",
        "1s",
        "--",
        "python3",
        HOSTILE,
        journal,
    ]);
    let mut calls = vec![json!(["write", {"line": "x"}])];
    calls.extend((0..LISTS).map(|_| json!(["list tools", {}])));
    let lines = drive(&place, make(&gateway, &json!(calls)), None);
    let shown = format!("{lines:?}");
    assert!(
        !shown.contains("poisoned") && !shown.contains("cats"),
        "{name}: {shown}"
    );
    assert!(shown.contains("honest"), "{name}: {shown}");
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    assert!(!text.contains("write"), "{name}: {text}");
}

#[test]
fn x76_x79_python_clients_in_front_of_a_hostile_server() {
    check_client("python 1", |gateway, calls| {
        python("python-legacy", "session+cats", gateway, calls)
    });
    check_client("python 2", |gateway, calls| {
        python("python", "legacy+cats", gateway, calls)
    });
}

#[test]
fn x76_x79_typescript_clients_in_front_of_a_hostile_server() {
    check_client("typescript 1", |gateway, calls| {
        typescript("v1+cats", gateway, calls)
    });
    check_client("typescript 2", |gateway, calls| {
        typescript("legacy+cats", gateway, calls)
    });
}
