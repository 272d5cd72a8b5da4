//! Tests a served agent on two nodes: a talk with a card on one and the decision on the other continues exactly once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_http_client::events::{Event, EventReader};
use serde_json::{Value, json};

use crate::served::Served;
use crate::test_folder::{TestFolder, database};

const MARIA: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";

/// Sends one HTTP request and returns the body of the response.
fn ask(served: &Served<'_>, token: &str, method: &str, path: &str, body: &str) -> String {
    let address = served.address();
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        served.url.trim_start_matches("http://"),
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => without_chunks(body),
        false => body.to_owned(),
    }
}

fn without_chunks(mut body: &str) -> String {
    let mut whole = Vec::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        whole.extend_from_slice(&rest.as_bytes()[..size]);
        body = rest.get(size + 2..).unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    String::from_utf8(whole).unwrap()
}

/// Sends a message in the session and returns the resulting events.
fn say(served: &Served<'_>, token: &str, mut body: Value) -> Vec<(String, Value)> {
    body["session"] = json!("s");
    let told = ask(
        served,
        token,
        "POST",
        "/v1/agents/crm/messages",
        &body.to_string(),
    );
    let mut events = EventReader::new(told.len());
    events.push(told.as_bytes());
    let read = |event: Event| {
        let name = String::from_utf8(event.name?.into()).unwrap();
        Some((name, serde_json::from_slice(&event.data?).unwrap()))
    };
    std::iter::from_fn(|| events.next_event().unwrap())
        .filter_map(read)
        .collect()
}

#[track_caller]
fn event<'e>(events: &'e [(String, Value)], name: &str) -> &'e Value {
    let found = events.iter().find(|(event, _)| event == name);
    &found.unwrap_or_else(|| panic!("no `{name}` in {events:?}")).1
}

/// Returns the messages of role `channel` in the session, as this node reports them.
fn said(served: &Served<'_>, token: &str) -> Vec<String> {
    let session = ask(served, token, "GET", "/v1/agents/crm/sessions/s", "");
    let session: Value = serde_json::from_str(&session).unwrap();
    let messages = session["messages"].as_array().unwrap().iter();
    let channel = messages.filter(|message| message["role"] == "channel");
    channel
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

fn check_two_nodes(store: &str, data: &Path) {
    let (mut here, mut there) = (TestFolder::without_policy(), TestFolder::without_policy());
    let config = format!(
        "[agents.crm]\nworld = \"crm\"\ndata = \"{}\"\nmodel = \"script\"\n",
        data.display()
    );
    for place in [&mut here, &mut there] {
        place.write("countersign.toml", "");
        place.write("countersign-serve.toml", &config);
        place.keep_in(store);
    }
    let (one, other) = (Served::start(&here), Served::start(&there));
    let (ana, decider) = (one.token(&["--person", "ana", "--scope", "chat"]), one.person());
    // Held at one node, decided at the other: the talk continues on whichever was quicker.
    let events = say(&one, &ana, json!({ "text": MARIA }));
    let id = event(&events, "held")["approval"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    other.good(&decider, &["approve", &id]);
    let begun = Instant::now();
    while said(&one, &ana).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never went on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let done = "Done! Create contact Maria Garcia, maria@acme.com, Acme Corp";
    assert_eq!(said(&one, &ana), [done]);
    assert_eq!(said(&other, &ana), [done]);
    // Held at one node, answered by a reply at the other.
    let events = say(
        &one,
        &ana,
        json!({ "text": "Create a contact for Ana Diaz at Acme Corp, a@b.c" }),
    );
    let card = event(&events, "held")["card"].clone();
    let events = say(&other, &ana, json!({ "text": "yes", "after": card }));
    assert_eq!(
        event(&events, "decided")["approval"]["status"],
        "approved",
        "{events:?}"
    );
    event(&events, "done");
    // Held at one node, decided by a button at the other.
    let events = say(
        &other,
        &ana,
        json!({ "text": "Create contacts for Bo, Cy and Di" }),
    );
    let approve = event(&events, "held")["prompt"]["approve"].clone();
    let events = say(&one, &ana, json!({ "button": approve, "calls": [1, 3] }));
    event(&events, "done");
    // Longer than a node waits before it continues another's talk: nothing is said or done twice.
    std::thread::sleep(Duration::from_secs(4));
    let told = said(&other, &ana);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(
        told[2],
        "Done! Create contact Bo\nLeft out: Create contact Cy\nDone! Create contact Di"
    );
    let events = say(&other, &ana, json!({ "text": "show me my contacts" }));
    let texts = events.iter().filter(|(event, _)| event == "text");
    let listed: String = texts.map(|(_, data)| data["text"].as_str().unwrap()).collect();
    for (name, times) in [
        ("Maria Garcia", 1),
        ("Ana Diaz", 1),
        ("- Bo", 1),
        ("- Cy", 0),
        ("- Di", 1),
    ] {
        assert_eq!(listed.matches(name).count(), times, "{name}: {listed}");
    }
}

#[test]
fn a8_d8_a_talk_on_two_nodes_over_one_sqlite_goes_on_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    check_two_nodes(&store.display().to_string(), &folder.path().join("crm.db"));
}

#[test]
fn a8_d8_a_talk_on_two_nodes_over_one_postgresql_goes_on_once() {
    let folder = tempfile::tempdir().unwrap();
    check_two_nodes(&database("two_talks"), &folder.path().join("crm.db"));
}
