//! Tests that only the tool sees secrets.

use serde_json::Value;

use crate::test_folder::{Left, MARIA, TestFolder};

#[test]
fn x31_secrets_are_shown_to_nobody_but_the_tool() {
    let place = TestFolder::new();
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
    // The secret is shown only with `--reveal-secrets`.
    let left = place.run(&["show", &id, "--raw", "1"]);
    assert!(
        left.code == 1 && !format!("{left:?}").contains(canary),
        "{left:?}"
    );
    assert!(left.stderr.contains("--reveal-secrets"), "{left:?}");
    let whole = place.good(&["show", &id, "--raw", "1", "--reveal-secrets"]);
    assert_eq!(whole, arguments);
    place.script("tool", &format!("grep -q {canary}"));
    place.good(&["wait", &id, "--exec", "./tool"]);
}

#[test]
fn a15_a_sealed_secret_reaches_the_tool_alone() {
    let place = TestFolder::new();
    let propose = |place: &TestFolder| {
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
    let with_key = |place: &TestFolder, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command
            .env("COUNTERSIGN_SEAL_KEY_FILE", place.path().join("countersign.key"))
            .env("TOKEN", "canary-9b1d");
        Left::of(command.output().unwrap())
    };
    // A key file that everybody can read is refused.
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
        left.code == 1 && left.stderr.contains("is readable by other accounts"),
        "{left:?}"
    );
    mode(0o600);
    let left = with_key(&place, &propose);
    assert_eq!(left.code, 0, "{left:?}");
    assert!(!left.stdout.contains("canary"));
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    let id = answer["approval"]["id"].as_str().unwrap();
    // The card says so, also to who has no key.
    let card = place.good(&["show", id]);
    assert!(card.contains("carries a credential of 11 bytes"), "{card}");
    assert!(!card.contains("canary"), "{card}");
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

/// X98: which arguments are secret is stored with the call, and does not depend on the reader's policy.
#[test]
fn x98_secrets_are_hidden_whatever_policy_looks() {
    let place = TestFolder::new();
    let canary = "canary-5d21";
    let arguments = format!(r#"{{"name":"M","email":"m","api_key":"{canary}"}}"#);
    let id = place.propose(&["create_contact", &arguments]);
    let others = [
        "[tools.other]\neffect = \"read\"\n",
        "[tools.create_contact]\neffect = \"write\"\nsummary = \"Create {{ api_key }}\"\n",
    ];
    for policy in others {
        place.write("countersign.toml", policy);
        let commands: [&[&str]; 5] = [
            &["list"],
            &["list", "--json"],
            &["show", &id, "--full", "--events"],
            &["show", &id, "--json", "--events"],
            &["approve", &id, "--json", "--edit", r#"{"name":1"#],
        ];
        for command in commands {
            let left = place.run(command);
            assert!(!format!("{left:?}").contains(canary), "{command:?}: {left:?}");
        }
        let served = crate::served::Served::start_with(
            &place,
            &["serve", "--listen", "127.0.0.1:0", "--policy-change"],
        );
        let person = served.person();
        for command in [
            &["list", "--json"][..],
            &["show", &id, "--json"],
            &["show", &id, "--full"],
        ] {
            let left = served.run(&person, command);
            assert_eq!(left.code, 0, "{left:?}");
            assert!(!format!("{left:?}").contains(canary), "{command:?}: {left:?}");
        }
        served.kill();
    }
    // Deciding needs no policy, and the tool gets the secret; where the result repeats it, it is hidden.
    place.good(&["approve", &id]);
    place.script("tool", &format!("grep -q {canary} && echo 'used {canary}'"));
    place.good(&["wait", &id, "--exec", "./tool"]);
    let left = place.run(&["show", &id, "--json"]);
    assert!(left.stdout.contains("\"state\": \"succeeded\""), "{left:?}");
    assert!(!left.stdout.contains(canary), "{left:?}");
}

/// X31: exact bytes with a secret are refused at the store as over a server, whatever the policy.
#[test]
fn x31_raw_arguments_with_a_secret_have_to_be_asked_for() {
    let place = TestFolder::new();
    let canary = "canary-5d21";
    let arguments = format!(r#"{{"name":"M","email":"m","api_key":"{canary}"}}"#);
    let id = place.propose(&["create_contact", &arguments]);
    for policy in ["[tools.other]\neffect = \"read\"\n", ""] {
        place.write("countersign.toml", policy);
        for command in [
            &["show", &id, "--raw", "1"][..],
            &["show", &id, "--raw", "1", "--json"],
        ] {
            let left = place.run(command);
            assert!(!format!("{left:?}").contains(canary), "{left:?}");
            assert!(left.code == 1 && left.stderr.contains("secret"), "{left:?}");
        }
    }
    // The option is invalid without `--raw`, and not needed where nothing is secret.
    assert_eq!(place.run(&["show", &id, "--reveal-secrets"]).code, 2);
    let open = place.propose(&["create_contact", MARIA]);
    assert_eq!(place.good(&["show", &open, "--raw", "1"]), MARIA);
}
