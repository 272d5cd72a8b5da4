//! Symbolic links in the arguments of calls that run on this machine: shown, compared with `places`, and looked at
//! again.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::{Client, approval, assert_not_sent, journal, pending, text};
use crate::http::Running;
use crate::test_folder::TestFolder;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
const POLICY: &str = r#"
[tools."peer/read"]
effect = "read"
places = ["path"]

[tools."peer/large"]
effect = "read"

[tools."peer/slow"]
effect = "read"
deny = "paths.path.exists(path, path.endsWith('/id_rsa'))"

[tools."peer/write"]
effect = "write"

[tools.Read]
effect = "read"
places = ["file_path"]
"#;

/// A folder with a key, a link to the key, and a link to an ordinary file.
fn folder() -> (TestFolder, PathBuf) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("keys")).unwrap();
    place.write("keys/id_rsa", "key");
    place.write("plain.txt", "text");
    symlink("keys/id_rsa", root.join("notes.txt")).unwrap();
    symlink("plain.txt", root.join("other.txt")).unwrap();
    (place, root)
}

fn notes(place: &TestFolder, id: &str) -> String {
    place.json(&["show", id])["calls"][0]["notes"].to_string()
}

#[test]
fn x81_the_gateway_follows_links_to_sensitive_places() {
    let (place, root) = folder();
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    let absolute = root.join("notes.txt").display().to_string();
    let (url, encoded) = (
        format!("file://{absolute}"),
        format!("FILE://localhost{absolute}?x"),
    );
    for path in [
        "notes.txt",
        "./keys/../notes.txt",
        &absolute,
        &url,
        &encoded,
        "file:notes.txt",
        "note%73.txt",
    ] {
        let id = approval(&client.call("read", json!({ "path": path })));
        let notes = notes(&place, &id);
        let target = root.join("keys/id_rsa").display().to_string();
        assert!(notes.contains("leads to") && notes.contains(&target), "{notes}");
        assert!(
            notes.contains("`path` leads through a link to a sensitive place"),
            "{notes}"
        );
        place.good(&["deny", &id]);
    }
    for path in ["plain.txt", "other.txt", "nothing.txt"] {
        let answer = client.call("read", json!({ "path": path }));
        assert!(text(&answer).starts_with("read "), "{path}: {answer}");
    }
    // A condition can ask where a path leads.
    for (path, is_forbidden) in [("notes.txt", true), ("keys/id_rsa", true), ("other.txt", false)] {
        let answer = client.call("slow", json!({ "path": path }));
        assert_eq!(
            answer.to_string().contains("the policy forbids"),
            is_forbidden,
            "{path}: {answer}"
        );
    }
    // A tool without `places` passes whatever it names.
    let answer = client.call("large", json!({ "path": "notes.txt" }));
    assert!(text(&answer).starts_with("xx"), "large");
}

/// Servers that are given folders begin relative paths there, not in the folder they run in.
#[test]
fn x81_relative_paths_are_followed_from_the_folders_of_the_servers_command() {
    let (place, root) = folder();
    std::fs::create_dir(root.join("data")).unwrap();
    symlink("../keys/id_rsa", root.join("data/inner.txt")).unwrap();
    let data = root.join("data").display().to_string();
    let words = [
        "mcp", "--name", "peer", "--hold", "50ms", "--", "python3", PEER, "journal", &data,
    ];
    let mut client = Client::spawn(place.command(&words));
    client.greet(json!({}));
    let answer = client.call("read", json!({ "path": "inner.txt" }));
    let expected = "Held because `path` leads through a link to a sensitive place: `id_rsa*`";
    assert!(text(&answer).contains(expected), "{answer}");
    let id = approval(&answer);
    assert!(notes(&place, &id).contains("leads to"), "{}", notes(&place, &id));
    let answer = client.call("read", json!({ "path": "plain.txt" }));
    assert!(text(&answer).starts_with("read "), "{answer}");
}

#[test]
fn x81_with_several_servers_links_are_followed_too() {
    let (place, _) = folder();
    let servers = format!(
        "[servers.peer]\ncommand = [\"python3\", \"{PEER}\", \"journal\"]\n\
         [servers.other]\ncommand = [\"python3\", \"{PEER}\", \"journal-2\"]\n"
    );
    place.write("servers.toml", servers);
    let file = place.path().join("servers.toml").display().to_string();
    let mut client = Client::spawn(place.command(&["mcp", "--servers", &file, "--hold", "50ms"]));
    client.greet(json!({}));
    let id = approval(&client.call("peer__read", json!({ "path": "notes.txt" })));
    assert!(notes(&place, &id).contains("leads to"), "{}", notes(&place, &id));
    let answer = client.call("peer__read", json!({ "path": "other.txt" }));
    assert!(text(&answer).starts_with("read "), "{answer}");
}

#[test]
fn x81_a_card_of_the_gateway_names_the_folder_and_the_links() {
    let (place, root) = folder();
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    let id = approval(&client.call("write", json!({ "path": "other.txt" })));
    let shown = place.json(&["show", &id]);
    let call = &shown["calls"][0];
    assert_eq!(
        call["workingFolder"]["path"],
        root.display().to_string(),
        "{shown}"
    );
    let target = root.join("plain.txt").display().to_string();
    assert_eq!(call["workingFolder"]["links"][0]["target"], target, "{shown}");
    // The same call, while the link leads elsewhere, is another question.
    std::fs::remove_file(root.join("other.txt")).unwrap();
    symlink("keys/id_rsa", root.join("other.txt")).unwrap();
    let other = approval(&client.call("write", json!({ "path": "other.txt" })));
    assert_ne!(id, other);
}

#[test]
fn x81_a_link_that_was_replaced_after_the_card_stops_the_call() {
    let (place, root) = folder();
    let mut client = Client::peer(&place, &["--hold", "20s"]);
    let begun = client.begin("write", json!({ "path": "other.txt" }));
    let id = pending(&place);
    std::fs::remove_file(root.join("other.txt")).unwrap();
    symlink("keys/id_rsa", root.join("other.txt")).unwrap();
    place.good(&["approve", &id]);
    let answer = client.answer(begun);
    assert_not_sent(&answer);
    assert!(answer.to_string().contains("the place has changed"), "{answer}");
    for target in ["keys/id_rsa", "plain.txt"] {
        let target = format!("`{}`", root.join(target).display());
        assert!(answer.to_string().contains(&target), "{target}: {answer}");
    }
    // A person edits the path to one that leads through a link which the card did not show.
    let begun = client.begin("write", json!({ "path": "plain.txt" }));
    place.write("edited.json", r#"{"path":"notes.txt"}"#);
    place.good(&["approve", &pending(&place), "--edit", "1=@edited.json"]);
    let answer = client.answer(begun);
    assert_not_sent(&answer);
    assert!(
        answer.to_string().contains("a link that the card did not show"),
        "{answer}"
    );
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn x81_permission_prompts_follow_links() {
    let (place, root) = folder();
    let mut client = Client::peer(&place, &["--permission-prompt", "--hold", "50ms"]);
    let ask = |client: &mut Client, path: &str| {
        let input = json!({"tool_name": "Read", "input": {"file_path": path}});
        client.begin("countersign_approve", input)
    };
    let behavior = |answer: &Value| {
        let told: Value = serde_json::from_str(text(answer)).unwrap();
        told["behavior"].as_str().unwrap().to_owned()
    };
    let asked = ask(&mut client, "plain.txt");
    assert_eq!(behavior(&client.answer(asked)), "allow");
    let asked = ask(&mut client, "notes.txt");
    let id = pending(&place);
    assert!(notes(&place, &id).contains("leads to"), "{}", notes(&place, &id));
    std::fs::remove_file(root.join("notes.txt")).unwrap();
    symlink("/etc/shadow", root.join("notes.txt")).unwrap();
    place.good(&["approve", &id]);
    let answer = client.answer(asked);
    assert_eq!(behavior(&answer), "deny");
    assert!(text(&answer).contains("the place has changed"), "{answer}");
}

#[test]
fn x81_links_here_mean_nothing_to_a_server_elsewhere() {
    let (place, _) = folder();
    let elsewhere = TestFolder::without_policy();
    elsewhere.write("countersign.toml", "[tools.\"peer/read\"]\neffect = \"read\"\n");
    let served = Running::gateway(&elsewhere, &["--no-token", "--", "python3", PEER, "journal"]);
    let url = format!("http://{}/mcp", served.address);
    let mut client =
        Client::spawn(place.command(&["mcp", "--name", "peer", "--hold", "50ms", "--url", &url]));
    client.greet(json!({}));
    let answer = client.call("read", json!({ "path": "notes.txt" }));
    assert!(text(&answer).starts_with("read "), "{answer}");
    let id = approval(&client.call("read", json!({ "path": "keys/id_rsa" })));
    assert!(!notes(&place, &id).contains("folder"), "{}", notes(&place, &id));
}
