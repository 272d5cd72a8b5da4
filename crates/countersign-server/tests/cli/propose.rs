//! Tests `propose`: accepted input, and error messages for bad input.

use crate::test_folder::{Left, TestFolder, check_bad};

#[test]
fn x21_bad_input_is_named_and_nothing_is_written() {
    let place = TestFolder::new();
    let id = place.contact();
    let batch = vec![r#"{"tool":"search","arguments":{}}"#; 101].join("\n");
    place.write("long.jsonl", batch);
    place.write(
        "broken.jsonl",
        "{\"tool\":\"search\",\"arguments\":{}}\n{\"tool\":\"x\",\"arguments\":[]}\n",
    );
    place.write("unknown.jsonl", r#"{"tool":"x","args":{}}"#);
    place.write(
        "foreign.db",
        "this is not a database at all, just a text that somebody wrote",
    );
    place.write("bad.toml", "[tools.x]\neffect = \"write\"\nrisc = \"low\"\n");
    place.write("cel.toml", "[tools.x]\neffect = \"write\"\nhold = \"args.a >\"\n");
    place.write(
        "template.toml",
        "[tools.x]\neffect = \"write\"\nsummary = \"{{ a\"\n",
    );
    let foreign = place.path().join("foreign.db").display().to_string();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["propose", "x", "{"], 1, "ends too early"),
        (&["propose", "x", "[1]"], 1, "not a JSON object"),
        (&["propose", "x", r#"{"a":1,"\u0061":2}"#], 1, "occurs twice"),
        (
            &["propose", "x", "@nowhere.json"],
            1,
            "cannot read `nowhere.json`",
        ),
        (&["propose", "x", "{}", "--definition", "12"], 2, "64 hex digits"),
        (
            &["propose", "x", "{}", "--secret-env", "NOT_SET"],
            1,
            "`NOT_SET` is not set",
        ),
        (&["propose", "x", "{}", "--exec", "./nowhere"], 1, "not found"),
        (&["propose", "--calls", "long.jsonl"], 1, "this one has 101"),
        (&["propose", "--calls", "broken.jsonl"], 1, "broken.jsonl:2: "),
        (
            &["propose", "--calls", "unknown.jsonl"],
            1,
            "unknown field `args`",
        ),
        (
            &["propose", "x", "{}", "--policy", "nowhere.toml"],
            1,
            "cannot read the policy",
        ),
        (
            &["propose", "x", "{}", "--policy", "bad.toml"],
            1,
            "bad.toml:3:1: ",
        ),
        (&["propose", "x", "{}", "--policy", "cel.toml"], 1, "cel.toml:3:"),
        (
            &["propose", "x", "{}", "--policy", "template.toml"],
            1,
            "template.toml:3:",
        ),
        (
            &["propose", "x", "{}", "--store", &foreign],
            1,
            "not an SQLite database",
        ),
        (
            &["propose", "x", "{}", "--store", "no/such/folder.db"],
            1,
            "there is no folder",
        ),
        (
            &["list", "--store", "postgres://nobody@127.0.0.1:1/x"],
            1,
            "cannot be reached",
        ),
        (
            &["list", "--store", "nowhere.db"],
            1,
            "there is no store at `nowhere.db`",
        ),
        (&["show", "ffff0000"], 1, "there is no approval `ffff0000`"),
        (&["show", "abc"], 1, "is not the id of an approval"),
        (&["show", &id, "--raw", "2"], 1, "has no call 2"),
        (&["approve", &id, "--edit", "1={"], 1, "ends too early"),
        (&["approve", &id, "--edit", "x"], 2, "must name a call"),
        (&["approve", &id, "--only", "7"], 2, "has no call 7"),
        (&["approve", &id, "--digest", "12"], 2, "12 to 64 hex digits"),
        (&["undo", &id], 4, "cannot be undone"),
        (&["reconcile", &id, "--failed"], 4, "is held"),
        (&["wait", &id, "--exec", "./nowhere"], 1, "not found"),
        (&["list", "--as", ""], 0, ""),
        (&["approve", &id, "--as", ""], 1, "must not be empty"),
    ];
    for (arguments, code, message) in cases.iter().filter(|(_, code, _)| *code != 0) {
        check_bad(&place, arguments, *code, message);
    }
    let foreign = std::fs::read_to_string(place.path().join("foreign.db")).unwrap();
    assert!(foreign.starts_with("this is not"), "a foreign file is left alone");
}

#[test]
fn unclear_ids_are_not_guessed() {
    let place = TestFolder::new();
    let (first, second) = (place.contact(), place.contact());
    let common: String = first
        .chars()
        .zip(second.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    check_bad(&place, &["approve", &common], 1, "matches 2 approvals");
    place.good(&["approve", &first]);
    // A pending approval is not preferred to a decided one; the message names both by distinct parts of their ids.
    for command in ["show", "deny", "wait", "withdraw", "undo"] {
        let left = place.run(&[command, &common]);
        assert_eq!(left.code, 1, "{left:?}");
        for id in [&first, &second] {
            assert!(left.stderr.contains(&id[28..]), "{command}: {left:?}");
        }
    }
    // The part of an id that the list shows works everywhere, even for approvals that are over; half of it works, too.
    let listed = place.good(&["list", "--all"]);
    for id in [&first, &second] {
        assert!(listed.contains(&id[28..]), "{listed}");
        assert_eq!(place.json(&["show", &id[28..]])["id"], id.as_str());
        assert_eq!(place.json(&["show", &id[30..]])["id"], id.as_str());
    }
    let after = place.json(&["list", "--all", "--after", &second[28..]]);
    assert_eq!(after["approvals"][0]["id"], first.as_str());
    place.good(&["deny", &second[28..]]);
}

#[test]
fn a2_without_a_policy_everything_is_held_and_said_so() {
    let place = TestFolder::without_policy();
    let left = place.run(&["propose", "search", "{}"]);
    assert_eq!(left.code, 0);
    assert!(
        left.stderr.contains("there is no policy: every call is held"),
        "{left:?}"
    );
    assert!(left.stdout.contains("held"), "{left:?}");
}

#[test]
fn a1_reads_pass_and_the_forbidden_are_not_asked() {
    let place = TestFolder::new();
    place.script("tool", "echo found");
    assert!(place.good(&["propose", "search", "{}"]).contains("pass"));
    assert!(
        place
            .good(&["propose", "search", "{}", "--exec", "./tool"])
            .contains("found")
    );
    let left = place.run(&["propose", "refund", r#"{"amount":5000}"#]);
    assert_eq!(left.code, 3);
    assert!(left.stdout.contains("forbidden"), "{left:?}");
    assert_eq!(
        place.good(&["list", "--all"]),
        "Nothing was ever proposed here.\n"
    );
}

#[test]
fn an_unknown_person_is_asked_for_a_name() {
    let place = TestFolder::new();
    let id = place.contact();
    let shown = place.json(&["show", &id]);
    let digest = shown["digest"].as_str().unwrap();
    let nameless = || {
        let mut command = place.command(&["approve", &id, "--digest", digest]);
        command.env_remove("USER").env_remove("LOGNAME");
        command
    };
    // Without a PATH, the account's name cannot be looked up.
    let left = Left::of(nameless().env("PATH", "").output().unwrap());
    assert_eq!(left.code, 1);
    assert!(left.stderr.contains("--as NAME"), "{left:?}");
    let left = Left::of(nameless().output().unwrap());
    assert_eq!(left.code, 0, "the system knows the account: {left:?}");
}
