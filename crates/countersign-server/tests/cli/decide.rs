//! Tests `approve` and `deny`, and refusals.

use std::time::Duration;

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{MARIA, TestFolder};

#[test]
fn b7_each_refusal_says_what_is_so() {
    let place = TestFolder::new();
    let id = place.contact();
    place.good(&["approve", &id, "--as", "bob"]);
    let left = place.run(&["approve", &id]);
    assert_eq!(left.code, 4);
    assert!(
        left.stderr.contains("was already approved by `bob` at 20"),
        "{left:?}"
    );
    assert!(
        left.stderr
            .contains("hint: see what came of it with `countersign show"),
        "{left:?}"
    );
    let left = place.run(&["deny", &id, "--json"]);
    let error: Value = serde_json::from_str(&left.stderr).unwrap();
    assert_eq!(
        (left.code, error["error"]["code"].as_str()),
        (4, Some("already_decided"))
    );

    let id = place.propose(&["quick", "{}"]);
    std::thread::sleep(Duration::from_millis(1100));
    let left = place.run(&["approve", &id]);
    assert_eq!(left.code, 4);
    assert!(left.stderr.contains("expired at"), "{left:?}");

    let first = place.propose(&["create_contact", MARIA, "--channel", "c"]);
    let second = place.propose(&["create_contact", MARIA, "--channel", "c"]);
    let left = place.run(&["approve", &first]);
    assert_eq!(left.code, 4);
    assert!(left.stderr.contains("superseded"), "{left:?}");
    place.good(&["withdraw", &second]);
    let left = place.run(&["approve", &second]);
    assert!(left.code == 4 && left.stderr.contains("withdrawn"), "{left:?}");

    let id = place.propose(&["refund", r#"{"amount":5}"#]);
    let left = place.run(&["approve", &id]);
    assert!(
        left.code == 4 && left.stderr.contains("may not decide"),
        "{left:?}"
    );
    assert!(left.stderr.contains("finance"), "says who may: {left:?}");
    let left = place.run(&["approve", &id, "--group", "finance", "--digest", "000000000000"]);
    assert!(left.code == 4 && left.stderr.contains("another card"), "{left:?}");
    let digest = place.json(&["show", &id])["digest"].as_str().unwrap()[..12].to_owned();
    let approve = ["approve", &id, "--group", "finance", "--digest", &digest];
    // X34: a refund is critical, so the person who asked for it cannot approve it.
    let left = place.run(&approve);
    assert!(
        left.code == 4 && left.stderr.contains("somebody else has to approve it"),
        "{left:?}"
    );
    place.good(&[&approve[..], &["--as", "bob"]].concat());
}

#[test]
fn a16_part_of_a_batch_and_an_edit() {
    let place = TestFolder::new();
    let lines: Vec<String> = (1..=3)
        .map(|n| format!(r#"{{"tool":"create_contact","arguments":{{"name":"N{n}","email":"n{n}@x.org"}}}}"#))
        .collect();
    place.write("batch.jsonl", lines.join("\n"));
    place.script("tool", "cat");
    let id = place.propose(&["--calls", "batch.jsonl"]);
    let edit = r#"3={"name":"Three","email":"3@x.org"}"#;
    let answer = place.json(&["approve", &id, "--only", "1,3", "--edit", edit]);
    assert_eq!(answer["calls"][1]["state"], "refused");
    let answer = place.json(&["wait", &id, "--exec", "./tool"]);
    let states: Vec<_> = (0..3)
        .map(|at| answer["calls"][at]["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["succeeded", "refused", "succeeded"]);
    assert_eq!(answer["calls"][2]["edited"], true);
    assert_eq!(answer["calls"][2]["result"]["name"], "Three");
    let id = place.contact();
    place.write("edit.json", r#"{"name":"From a file","email":"f@x.org"}"#);
    let answer = place.json(&["approve", &id, "--edit", "1=@edit.json"]);
    assert_eq!(answer["description"], "Create contact From a file, f@x.org");
}

/// An id does not prove what was seen: without a terminal, `approve` requires the card's digest.
#[test]
fn x56_approving_takes_the_digest_of_a_card_that_was_shown_whole() {
    let place = TestFolder::new();
    let long = format!(r#"{{"name":"Maria","email":"{}; rm -rf /"}}"#, "x".repeat(1100));
    let id = place.propose(&["create_contact", &long]);
    let bare = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        crate::test_folder::Left::of(command.stdin(std::process::Stdio::null()).output().unwrap())
    };
    let digest = place.json(&["show", &id])["digest"].as_str().unwrap().to_owned();
    for arguments in [
        &["approve", &id][..],
        &["approve", &id, "--only", "1"],
        &["--json", "approve", &id],
    ] {
        let left = bare(arguments);
        assert_eq!(left.code, 2, "{left:?}");
        assert!(
            left.stderr
                .contains("without a terminal needs the digest of its card"),
            "{left:?}"
        );
        // The command that approves is told only together with the whole card.
        let command = format!("--digest {}", &digest[..12]);
        let is_shown = left.stdout.contains("; rm -rf /");
        assert_eq!(left.stderr.contains(&command), is_shown, "{left:?}");
        assert_eq!(is_shown, arguments[0] != "--json", "{left:?}");
    }
    assert_eq!(place.json(&["show", &id])["status"], "pending");
    // A card with a shortened value does not reveal the digest; the full one does.
    let short = place.good(&["show", &id]);
    assert!(
        !short.contains(&digest[..12]) && short.contains("--full"),
        "{short}"
    );
    let whole = place.good(&["show", &id, "--full"]);
    assert!(whole.contains("; rm -rf /"), "{whole}");
    assert!(whole.contains(&format!("--digest {}", &digest[..12])), "{whole}");
    // The suggested command works as it stands.
    let left = bare(&["approve", &id]);
    let hint = left
        .stderr
        .split('`')
        .find(|part| part.starts_with("countersign approve"));
    let words: Vec<&str> = hint
        .unwrap_or_else(|| panic!("{left:?}"))
        .split(' ')
        .skip(1)
        .collect();
    let left = bare(&words);
    assert_eq!(left.code, 0, "{left:?}");
    // Denying requires no digest.
    let id = place.contact();
    assert_eq!(bare(&["deny", &id]).code, 0);
}

/// The duration of a cool-down comes from the proposer's policy, even if the decider has none or another one.
#[test]
fn x99_a_no_without_the_policy_at_hand_lasts_as_long_as_the_policy_says() {
    let place = TestFolder::without_policy();
    place.write(
        "p.toml",
        "[agents]\ncool_down = \"3s\"\n[tools.x]\neffect = \"write\"\n",
    );
    let propose = || place.run(&["--json", "--policy", "p.toml", "propose", "x", r#"{"a":1}"#]);
    let first: serde_json::Value = serde_json::from_str(&propose().stdout).unwrap();
    let id = first["approval"]["id"].as_str().unwrap();
    place.good(&["deny", id]);
    let again = propose();
    assert!(
        again.code == 4 && again.stderr.contains("denied a short while ago"),
        "{again:?}"
    );
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(propose().code, 0, "the cool-down of the policy is over");
}

/// Without the policy it is unknown whether edited arguments are forbidden, and who may approve them.
#[test]
fn x44_an_edit_needs_a_policy_that_knows_the_tool() {
    let place = TestFolder::without_policy();
    place.write(
        "p.toml",
        "[tools.pay]\neffect = \"external\"\ndeny = \"args.amount > 100.0\"\n",
    );
    let propose = [
        "--json",
        "--policy",
        "p.toml",
        "propose",
        "pay",
        r#"{"amount":5.0}"#,
    ];
    let held: serde_json::Value = serde_json::from_str(&place.run(&propose).stdout).unwrap();
    let id = held["approval"]["id"].as_str().unwrap();
    let refused = place.run(&["approve", id, "--edit", r#"1={"amount":5000.0}"#]);
    assert!(
        refused.code != 0 && refused.stderr.contains("does not list the tool"),
        "{refused:?}"
    );
    assert!(
        refused.stderr.contains("--policy") && !refused.stderr.contains("correct the arguments"),
        "{refused:?}"
    );
    let forbidden = place.run(&[
        "--policy",
        "p.toml",
        "approve",
        id,
        "--edit",
        r#"1={"amount":5000.0}"#,
    ]);
    assert!(forbidden.code != 0, "{forbidden:?}");
    assert_eq!(place.json(&["show", id])["status"], "pending");
    place.good(&[
        "--policy",
        "p.toml",
        "approve",
        id,
        "--edit",
        r#"1={"amount":6.0}"#,
    ]);
}

/// `approve` on a store beside a running service reports what became of the call, and a second one does not invite
/// anybody to run it again.
#[test]
fn approving_beside_a_service_says_what_came_of_it() {
    let place = TestFolder::new();
    place.write("countersign-serve.toml", "[tools.create_contact]\necho = true\n");
    let service = Served::start(&place);
    let id = service.propose(&service.agent(), &["create_contact", MARIA]);
    let said = place.good(&["approve", &id, "--as", "bob"]);
    assert!(said.contains("succeeded"), "{said}");
    assert!(said.contains("maria@acme.com"), "{said}");
    assert!(!said.contains("released"), "{said}");
    let again = place.run(&["approve", &id, "--as", "bob"]);
    assert_eq!(again.code, 4);
    assert!(again.stderr.contains("already approved by `bob`"), "{again:?}");
    assert!(!again.stderr.contains("propose it again"), "{again:?}");
    // Without a service nobody is waited for.
    service.kill();
    let id = place.contact();
    let began = std::time::Instant::now();
    let said = place.good(&["approve", &id, "--as", "bob", "--json"]);
    assert!(said.contains("released"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
