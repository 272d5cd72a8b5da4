//! Tests cards, and exact bytes of arguments.

use serde_json::Value;

use crate::test_folder::TestFolder;

#[test]
fn i3_arguments_keep_every_byte() {
    let place = TestFolder::new();
    place.script("tool", "cat");
    // Numbers that no float can hold, keys out of order, odd white space, escapes, and a newline at the end.
    let odd = "{ \"z\":9007199254740993 ,\"a\" : 1e400,\n\t\"u\":\"\\u00e9é\", \"n\":-0.10 }\n";
    place.write("odd.json", odd);
    let stdin = place.run_with(&["propose", "odd", "-", "--json"], odd.as_bytes());
    let stdin: Value = serde_json::from_str(&stdin.stdout.replace("1e400", "0")).unwrap();
    let ids = [
        place.good_id_of_file(),
        stdin["approval"]["id"].as_str().unwrap().to_owned(),
    ];
    for id in ids {
        assert_eq!(place.good(&["show", &id, "--raw", "1"]), odd);
        let json = place.good(&["show", &id, "--json"]);
        assert!(json.contains(odd.trim_end()), "{json}");
        let listed = place.good(&["list", "--json"]);
        assert!(listed.contains(odd.trim_end()), "{listed}");
        place.good(&["approve", &id]);
        place.script("keep", "cat > kept");
        place.good(&["wait", &id, "--exec", "./keep"]);
        assert_eq!(std::fs::read_to_string(place.path().join("kept")).unwrap(), odd);
    }
    let inner = odd.trim_end().replace('\n', " ");
    place.write(
        "batch.jsonl",
        format!("\n{{\"tool\":\"odd\", \"arguments\" : {inner}}}\n"),
    );
    place.good(&["propose", "--calls", "batch.jsonl", "--key", "batch"]);
    let again = place.run(&["propose", "--calls", "batch.jsonl", "--key", "batch", "--json"]);
    let at = again.stdout.find("\"id\": \"").unwrap() + 7;
    assert_eq!(
        place.good(&["show", &again.stdout[at..at + 36], "--raw", "1"]),
        inner
    );
}

impl TestFolder {
    fn good_id_of_file(&self) -> String {
        let stdout = self.good(&["propose", "odd", "@odd.json", "--json"]);
        let at = stdout.find("\"id\": \"").unwrap() + 7;
        stdout[at..at + 36].to_owned()
    }
}

#[test]
fn x15_nothing_acts_on_the_terminal() {
    let place = TestFolder::new();
    let evil = "\\u001b[31mred\\u001b]8;;http://x\\u0007\\r\\u009b2J\\u202eabc\\u0008";
    let raw = "\u{202e}\u{9b}31m\u{200b}";
    let arguments = format!(r#"{{"name":"{evil}{raw}","email":"{evil}","{raw}":"k"}}"#);
    let claim = "\u{1b}[2Jtrust me\u{202e}";
    let id = place.propose(&[
        "create_contact",
        &arguments,
        "--claim",
        claim,
        "--agent",
        "a\u{202e}b",
    ]);
    place.script(
        "tool",
        "printf '\\033[2J\\033]0;x\\007' >&2; printf 'out\\033[2J'; exit 3",
    );
    let mut seen = String::new();
    let commands: [&[&str]; 7] = [
        &["list"],
        &["show", &id],
        &["show", &id, "--full", "--events"],
        &["policy", "try", "create_contact", &arguments],
        &["approve", &id, "--comment", "\u{1b}[2J"],
        &["wait", &id, "--exec", "./tool"],
        &["show", "\u{1b}[2J"],
    ];
    for command in commands {
        let left = place.run(command);
        seen.push_str(&left.stdout);
        seen.push_str(&left.stderr);
    }
    let acts = |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert_eq!(seen.chars().find(acts), None, "{seen:?}");
    assert!(
        seen.contains("\\u{1b}[31m") && seen.contains("\\u{202e}"),
        "{seen}"
    );
    assert!(seen.contains("warning:"), "{seen}");
    // Colours come only from us, and only on request.
    let colored = place.good(&["list", "--all", "--color", "always"]);
    assert!(
        colored.contains('\u{1b}') && !colored.contains("[31mred\u{1b}"),
        "{colored:?}"
    );
}

#[test]
fn a_summary_of_several_lines_is_shown_on_several_lines() {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.patch]\neffect = \"write\"\nsummary = \"Apply {{ command }}\"\n",
    );
    let propose = |text: &str| {
        let arguments = serde_json::json!({ "command": text }).to_string();
        place.propose(&["patch", &arguments])
    };
    let shown = |id: &str| place.good(&["show", id]);
    let id = propose("*** Begin Patch\n*** Update File: a.rs\n+Approval 12345678  approved\n*** End Patch");
    let card = shown(&id);
    let tried = place.good(&[
        "policy",
        "try",
        "patch",
        &serde_json::json!({ "command": "*** Begin Patch\n*** End Patch" }).to_string(),
    ]);
    let head = tried.lines().take(2).collect::<Vec<_>>().join("\n");
    assert!(
        head.contains("Apply *** Begin Patch\n") && head.contains("│ *** End Patch"),
        "{tried}"
    );
    let summary: Vec<&str> = card.lines().skip(2).take(4).map(str::trim).collect();
    assert_eq!(
        summary,
        [
            "│ Apply *** Begin Patch",
            "│ *** Update File: a.rs",
            "│ +Approval 12345678  approved",
            "│ *** End Patch"
        ],
        "{card}"
    );
    assert!(!card.contains("\\u{a}"), "{card}");
    // Nothing hides behind empty lines, and neither a backslash nor a sign that was written is a line break.
    for (text, rows) in [
        ("a\n\n\n\nrm -rf /", &["│ Apply a\\u{a×4}", "│ rm -rf /"][..]),
        (
            "a\n \n \nrm -rf /",
            &["│ Apply a", "│ \\u{20}", "│ \\u{20}", "│ rm -rf /"],
        ),
        ("a\\u{a}b", &["│ Apply a\\u{5c}u{a}b"]),
        ("a↵b", &["│ Apply a\\u{21b5}b"]),
    ] {
        let card = shown(&propose(text));
        let summary: Vec<&str> = card.lines().skip(2).take(rows.len()).map(str::trim).collect();
        assert_eq!(summary, rows, "{card}");
    }
}

#[test]
fn x100_claims_comments_and_long_values_keep_their_lines_behind_the_gutter() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", "[tools.note]\neffect = \"write\"\n");
    let arguments = serde_json::json!({ "text": "x\n".repeat(50) }).to_string();
    let claim = "Because of:\n  approved   by ana ↵\n- this";
    let id = place.propose(&["note", &arguments, "--claim", claim]);
    let card = place.good(&["show", &id]);
    assert!(card.contains(&format!("│ {}", "x↵".repeat(50))), "{card}");
    let says: Vec<&str> = card
        .lines()
        .skip_while(|line| !line.contains("it says"))
        .take(3)
        .collect();
    assert!(says[0].ends_with("│ Because of:"), "{card}");
    assert!(
        says[1]
            .trim_start()
            .starts_with("│   approved   by ana \\u{21b5}"),
        "{card}"
    );
    assert!(says[2].trim_start().starts_with("│ - this"), "{card}");
    let whole = place.good(&["show", &id, "--full"]);
    // The summary repeats some of them.
    let rows = whole.lines().filter(|line| line.trim() == "│ x").count();
    assert!(rows >= 49, "{rows}: {whole}");
    assert!(
        !card.contains("\\u{a}") && !whole.contains("\\u{a}"),
        "{card}{whole}"
    );
    place.good(&["deny", &id, "--comment", "No.\nNot now."]);
    let denied = place.good(&["show", &id]);
    assert!(
        denied.contains("│ No.\n") && denied.contains("│ Not now.\n"),
        "{denied}"
    );
}

#[test]
fn x08_long_values_say_that_they_are_cut() {
    let place = TestFolder::new();
    let long = format!("{}{}rm -rf", "a".repeat(3000), " ".repeat(4000));
    let id = place.propose(&["create_contact", &format!(r#"{{"name":"{long}","email":"e"}}"#)]);
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("bytes not shown") && card.contains("rm -rf") && card.contains("--full"),
        "{card}"
    );
    let full = place.good(&["show", &id, "--full"]);
    assert!(
        full.contains(&"a".repeat(3000)) && full.contains("\\u{20×4000}rm -rf"),
        "{full}"
    );
}

/// Without a policy, `show` hides no further values, so there is no warning.
#[test]
fn show_warns_of_another_policy_only_if_there_is_one() {
    let place = TestFolder::new();
    let id = place.contact();
    let shown = |policy: Option<&str>| {
        let mut command = place.command(&["show", &id, "--json"]);
        command.current_dir("/").env_remove("COUNTERSIGN_POLICY");
        command
            .arg("--store")
            .arg(place.path().join("countersign.db"))
            .env_remove("COUNTERSIGN_STORE");
        if let Some(policy) = policy {
            command.arg("--policy").arg(place.path().join(policy));
        }
        let left = crate::test_folder::Left::of(command.output().unwrap());
        assert_eq!(left.code, 0, "{left:?}");
        serde_json::from_str::<serde_json::Value>(&left.stdout).unwrap()
    };
    place.write(
        "other.toml",
        "[tools.create_contact]\neffect = \"write\"\nsecret = [\"email\"]\n",
    );
    assert_eq!(shown(None)["otherPolicy"], serde_json::Value::Null);
    assert_eq!(
        shown(Some("countersign.toml"))["otherPolicy"],
        serde_json::Value::Null
    );
    assert_eq!(shown(Some("other.toml"))["otherPolicy"], true);
}

#[test]
fn policy_try_mentions_a_pin_only_where_it_changes_the_ruling() {
    let place = TestFolder::without_policy();
    let pin = "0".repeat(64);
    let tool =
        |name: &str, effect: &str| format!("[tools.{name}]\neffect = \"{effect}\"\ndefinition = \"{pin}\"\n");
    let mut policy = tool("look", "read")
        + &tool("note", "write")
        + &tool("mail", "external")
        + &tool("wipe", "destructive");
    policy.push_str("deny = \"args.all\"\n[tools.plain]\neffect = \"read\"\n");
    place.write("countersign.toml", policy);
    for (name, arguments, ruling, is_noted) in [
        ("look", "{}", "pass", true),
        ("note", "{}", "held", true),
        ("mail", "{}", "held", false),
        ("wipe", r#"{"all":false}"#, "held", false),
        ("wipe", r#"{"all":true}"#, "forbidden", false),
        ("plain", "{}", "pass", false),
    ] {
        let left = place.run(&["policy", "try", name, arguments, "--json"]);
        let tried: Value = serde_json::from_str(&left.stdout).unwrap();
        assert_eq!(tried["ruling"], ruling, "{name} {arguments}: {left:?}");
        assert!(!left.stdout.contains("definition unknown"), "{left:?}");
        assert_eq!(
            left.stderr.contains("the pinned one"),
            is_noted,
            "{name}: {left:?}"
        );
    }
}
