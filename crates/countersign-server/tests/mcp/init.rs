//! A first policy for a server's tools, and what it is worth when the server changes them.

use serde_json::json;

use crate::client::{Client, approval, text};
use crate::place::Place;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

#[test]
fn x30_a_pinned_tool_that_changed_is_held_with_a_warning() {
    let place = Place::without_policy();
    place.good(&[
        "policy",
        "init",
        "--name",
        "peer",
        "--output",
        "countersign.toml",
        "--",
        "python3",
        PEER,
        "journal",
    ]);
    let file = place.path().join("countersign.toml");
    let text_of = |file| std::fs::read_to_string(file).unwrap();
    let written = text_of(&file);
    assert_eq!(written.matches("definition = \"").count(), 8, "{written}");
    assert_eq!(
        written.matches("\neffect = \"destructive\"").count(),
        8,
        "all are held: {written}"
    );
    // A policy somebody has read is not written over.
    let left = place.run(&[
        "policy",
        "init",
        "--output",
        "countersign.toml",
        "--",
        "python3",
        PEER,
        "journal",
    ]);
    assert!(left.code == 1 && left.stderr.contains("cannot write"), "{left:?}");
    assert_eq!(text_of(&file), written);

    // A person decides what may run.
    let change = |tool: &str, text: String| {
        let head = format!("[tools.\"peer/{tool}\"]\neffect = \"destructive\"");
        assert!(text.contains(&head), "{text}");
        text.replace(&head, &format!("[tools.\"peer/{tool}\"]\neffect = \"read\""))
    };
    place.write(
        "countersign.toml",
        change("grow", change("write", change("sneak", written))),
    );
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    assert_eq!(text(&client.call("write", json!({}))), "write {}");
    client.call("grow", json!({}));
    let id = approval(&client.call("write", json!({})));
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("definition changed") && card.contains("destructive"),
        "{card}"
    );
}

#[test]
fn a_server_that_lists_nothing_is_an_error() {
    let place = Place::without_policy();
    for (command, message) in [
        ("exit 3", "ended before it answered"),
        ("echo nonsense; cat >/dev/null & sleep 1; kill $!", "ended"),
    ] {
        let left = place.run(&["policy", "init", "--", "sh", "-c", command]);
        assert_eq!(left.code, 1, "{left:?}");
        assert!(
            left.stderr.contains(message) && left.stderr.contains("hint: "),
            "{left:?}"
        );
        assert_eq!(left.stdout, "");
    }
}
