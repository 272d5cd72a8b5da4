//! What nobody but the tool may see.

use serde_json::Value;

use crate::place::{Left, MARIA, Place};

#[test]
fn x31_secrets_are_shown_to_nobody_but_the_tool() {
    let place = Place::new();
    let canary = "canary-7f3c";
    let arguments = format!(r#"{{"name":"M","email":"m","api_key":"{canary}"}}"#);
    let id = place.propose(&["create_contact", &arguments]);
    let commands: [&[&str]; 6] = [
        &["list"],
        &["show", &id, "--full", "--events"],
        &["show", &id, "--json", "--events"],
        &["list", "--json"],
        &["approve", &id],
        &["policy", "try", "create_contact", &arguments],
    ];
    for command in commands {
        let left = place.run(command);
        assert!(!format!("{left:?}").contains(canary), "{command:?}: {left:?}");
    }
    let view = place.json(&["show", &id]);
    assert_eq!(view["hidden"], true);
    assert!(view.get("toolArguments").is_none() && view["calls"][0].get("arguments").is_none());
    assert!(place.good(&["show", &id, "--raw", "1"]).contains(canary));
    place.script("tool", &format!("grep -q {canary}"));
    place.good(&["wait", &id, "--exec", "./tool"]);
}

#[test]
fn a15_a_sealed_secret_reaches_the_tool_alone() {
    let place = Place::new();
    let propose = |place: &Place| {
        let mut command = place.command(&[
            "propose",
            "create_contact",
            MARIA,
            "--secret-env",
            "TOKEN",
            "--json",
        ]);
        Left::of(command.env("TOKEN", "canary-9b1d").output().unwrap())
    };
    let left = propose(&place);
    assert_eq!(left.code, 1);
    assert!(left.stderr.contains("no sealing key"), "{left:?}");
    assert!(
        place
            .written()
            .is_none_or(|list| list.contains("\"approvals\": []"))
    );
    let key = place.good(&["key", "generate"]);
    place.write("countersign.key", &key);
    let with_key = |place: &Place, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command
            .env("COUNTERSIGN_SEAL_KEY_FILE", "countersign.key")
            .env("TOKEN", "canary-9b1d");
        Left::of(command.output().unwrap())
    };
    // Everybody can read it: refused.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |bits| {
        std::fs::set_permissions(
            place.path().join("countersign.key"),
            std::fs::Permissions::from_mode(bits),
        )
        .unwrap();
    };
    mode(0o644);
    let propose = [
        "propose",
        "create_contact",
        MARIA,
        "--secret-env",
        "TOKEN",
        "--json",
    ];
    let left = with_key(&place, &propose);
    assert!(
        left.code == 1 && left.stderr.contains("can be read by everybody"),
        "{left:?}"
    );
    mode(0o600);
    let left = with_key(&place, &propose);
    assert_eq!(left.code, 0, "{left:?}");
    assert!(!left.stdout.contains("canary"));
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    let id = answer["approval"]["id"].as_str().unwrap();
    place.good(&["approve", id]);
    place.script(
        "tool",
        "test \"$COUNTERSIGN_SECRET\" = canary-9b1d && test -z \"$COUNTERSIGN_SEAL_KEY\"",
    );
    let left = with_key(&place, &["wait", id, "--exec", "./tool"]);
    assert_eq!(left.code, 0, "{left:?}");
    let database = std::fs::read(place.path().join("countersign.db")).unwrap();
    assert!(
        !database.windows(11).any(|window| window == b"canary-9b1d"),
        "a secret on disk in the clear"
    );
}
