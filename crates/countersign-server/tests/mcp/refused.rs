//! A tool list that the gateway refuses withdraws the definitions of the list before it.

use serde_json::json;

use crate::client::{Client, approval, text};
use crate::test_folder::TestFolder;

pub const MOODY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/moody.py");
/// Moods of the test server `moody.py` in which it sends a tool list that the gateway refuses.
const MOODS: [&str; 6] = [
    "garbage",
    "two results",
    "no list",
    "unreadable tool",
    "our name",
    "our voice",
];

/// Creates a folder with these servers and a policy that pins their tools; `read` passes.
fn pinned(servers: &[&str]) -> TestFolder {
    let place = TestFolder::without_policy();
    for name in servers {
        std::fs::create_dir_all(place.path().join(name)).unwrap();
        place.write(&format!("{name}/mood"), "good");
    }
    let entry = |name: &&str| format!("[servers.{name}]\ncommand = [\"python3\", \"{MOODY}\", \"{name}\"]\n");
    place.write("servers.toml", servers.iter().map(entry).collect::<String>());
    let file = place.path().join("servers.toml").display().to_string();
    let init = [
        "policy",
        "init",
        "--servers",
        &file,
        "--output",
        "countersign.toml",
    ];
    place.good(&init);
    let mut policy = std::fs::read_to_string(place.path().join("countersign.toml")).unwrap();
    assert_eq!(policy.matches("definition = ").count(), 2 * servers.len());
    for name in servers {
        let head = |effect: &str| format!("[tools.\"{name}/read\"]\neffect = \"{effect}\"");
        policy = policy.replace(&head("destructive"), &head("read"));
    }
    place.write("countersign.toml", policy);
    place
}

/// Returns the number of tool calls that a server received.
fn calls(place: &TestFolder, server: &str) -> usize {
    let lines = std::fs::read_to_string(place.path().join(server).join("lines")).unwrap();
    lines.matches("\"tools/call\"").count()
}

#[test]
fn x79_x30_a_refused_list_withdraws_the_definitions_before_it() {
    for mood in MOODS {
        let place = pinned(&["m"]);
        let mut client = Client::start(
            &place,
            &["--name", "m", "--hold", "50ms"],
            &["python3", MOODY, "m"],
        );
        client.greet(json!({}));
        let list = client.request("tools/list", json!({}));
        assert!(list["result"]["tools"].is_array(), "{list}");
        assert_eq!(text(&client.call("read", json!({"n": 1}))), "done");
        place.write("m/mood", mood);
        let list = client.request("tools/list", json!({}));
        assert!(list["error"].is_object(), "{mood}: {list}");
        // The pinned tool is unknown now, so a person is asked.
        let answer = client.call("read", json!({"n": 2}));
        let id = approval(&answer);
        assert!(place.good(&["show", &id]).contains("definition"), "{mood}");
        assert_eq!(calls(&place, "m"), 1, "{mood}");
        // A good list restores it.
        place.write("m/mood", "good");
        let list = client.request("tools/list", json!({}));
        assert!(list["result"]["tools"].is_array(), "{mood}: {list}");
        assert_eq!(text(&client.call("read", json!({"n": 3}))), "done", "{mood}");
        assert_eq!(calls(&place, "m"), 2, "{mood}");
    }
}

#[test]
fn x79_x30_with_several_servers_too_a_refused_list_withdraws_the_definitions_before_it() {
    for mood in MOODS {
        let place = pinned(&["m", "n"]);
        let file = place.path().join("servers.toml").display().to_string();
        let mut client = Client::spawn(place.command(&["mcp", "--servers", &file, "--hold", "50ms"]));
        client.greet(json!({}));
        let list = client.request("tools/list", json!({})).to_string();
        assert!(list.contains("m__read") && list.contains("n__read"), "{list}");
        assert_eq!(text(&client.call("m__read", json!({"n": 1}))), "done");
        place.write("m/mood", mood);
        let list = client.request("tools/list", json!({})).to_string();
        assert!(
            !list.contains("m__read") && list.contains("n__read"),
            "{mood}: {list}"
        );
        // Refused, or held: in no case does it reach the server.
        let answer = client.call("m__read", json!({"n": 2}));
        assert_ne!(text(&answer), "done", "{mood}: {answer}");
        assert_eq!(calls(&place, "m"), 1, "{mood}");
        // The other server is not affected.
        assert_eq!(text(&client.call("n__read", json!({"n": 2}))), "done", "{mood}");
        place.write("m/mood", "good");
        let list = client.request("tools/list", json!({})).to_string();
        assert!(list.contains("m__read"), "{mood}: {list}");
        assert_eq!(text(&client.call("m__read", json!({"n": 3}))), "done", "{mood}");
    }
}
