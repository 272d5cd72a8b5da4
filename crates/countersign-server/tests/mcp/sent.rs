//! Members that a server gets with an approved call: those that the person saw, and the protocol's own.

use serde_json::{Value, json};

use crate::client::{Client, approval, text, until};
use crate::refused::MOODY;
use crate::test_folder::TestFolder;

const POLICY: &str = "[tools.\"m/write\"]\neffect = \"write\"\n";
/// Arguments in a form that no serializer would produce.
const ARGUMENTS: &str = r#"{"b" : 1.50,  "a":"\u00e9"}"#;

fn started() -> (TestFolder, Client) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place.write("mood", "good");
    let options = ["--name", "m", "--hold", "50ms", "--ask-client", "never"];
    let mut client = Client::start(&place, &options, &["python3", MOODY, "."]);
    client.greet(json!({}));
    (place, client)
}

/// Sends a call of `write` with these members beside its name and arguments.
fn call(client: &mut Client, id: u64, beside: &str) -> Value {
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write","arguments":{ARGUMENTS}{beside}}},"extra":"FOREIGN-0"}}"#
    ));
    client.answer(id)
}

/// Returns the tool calls that the server received, byte for byte.
fn received(place: &TestFolder) -> Vec<String> {
    let lines = std::fs::read_to_string(place.path().join("lines")).unwrap();
    let calls = lines.lines().filter(|line| line.contains("\"tools/call\""));
    calls.map(str::to_owned).collect()
}

#[test]
fn i3_only_what_was_shown_and_the_protocols_own_members_are_sent() {
    let (place, mut client) = started();
    let foreign = concat!(
        r#","_meta":{"progressToken":"p7","io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/FOREIGN-7":"t8","x/FOREIGN-1":"a","plain":"FOREIGN-2"}"#,
        r#","FOREIGN-3":{"path":"/etc"},"options":{"force":"FOREIGN-4"}"#
    );
    let id = approval(&call(&mut client, 70, foreign));
    let card = place.good(&["show", &id]);
    assert!(!card.contains("FOREIGN"), "{card}");
    // After the card was shown, the same call comes with other members.
    let swapped = r#","_meta":{"progressToken":"p9","io.modelcontextprotocol/swapped":"FOREIGN-8","x/swapped":"FOREIGN-5"},"swapped":"FOREIGN-6""#;
    assert_eq!(approval(&call(&mut client, 71, swapped)), id);
    place.good(&["approve", &id]);
    until("it was sent", || !received(&place).is_empty());
    until("it has ended", || {
        place.json(&["show", &id])["calls"][0]["state"] == "succeeded"
    });
    assert!(text(&call(&mut client, 72, "")).contains("done"));
    let sent = received(&place);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(
        sent[0].contains(&format!("\"arguments\":{ARGUMENTS}")),
        "{}",
        sent[0]
    );
    assert!(
        !sent[0].contains("FOREIGN") && !sent[0].contains("swapped"),
        "{}",
        sent[0]
    );
    let message: Value = serde_json::from_str(&sent[0]).unwrap();
    let names = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(&message), ["id", "jsonrpc", "method", "params"]);
    let params = &message["params"];
    let others = names(params).into_iter().filter(|name| name != "_meta");
    assert_eq!(others.collect::<Vec<_>>(), ["arguments", "name"], "{message}");
    let meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
    for name in names(&meta) {
        let is_protocols = ["progressToken", "io.modelcontextprotocol/logLevel"].contains(&name.as_str());
        assert!(is_protocols, "{message}");
    }
    client.close();
}
