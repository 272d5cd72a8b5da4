//! Descriptions of outcomes: batches with failed calls, and passed calls.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::terminal::Terminal;
use crate::test_folder::{Left, TestFolder};

#[test]
fn a_mixed_batch_says_how_many_were_approved_and_what_failed() {
    let place = TestFolder::new();
    place.write(
        "batch.jsonl",
        "{\"tool\":\"create_contact\",\"arguments\":{\"name\":\"a\",\"email\":\"e\"}}\n\
         {\"tool\":\"delete_contact\",\"arguments\":{\"id\":1}}\n\
         {\"tool\":\"quick\",\"arguments\":{}}\n",
    );
    let policy = crate::test_folder::POLICY.replace("ttl = \"1s\"", "ttl = \"5m\"");
    place.write("countersign.toml", policy);
    let id = place.propose(&["--calls", "batch.jsonl"]);
    place.good(&["approve", &id, "--only", "1,3"]);
    let waiting = place.good(&["show", &id]);
    assert!(waiting.contains("2 of 3 approved by ana"), "{waiting}");
    assert!(waiting.contains("2 not started yet"), "{waiting}");
    place.script("tool", "[ \"$COUNTERSIGN_TOOL\" = create_contact ] && echo '{}'");
    assert_eq!(place.run(&["wait", &id, "--exec", "./tool"]).code, 7);
    let shown = place.good(&["show", &id]);
    let first = shown.lines().next().unwrap();
    assert!(
        first.contains("2 of 3 approved by ana") && first.ends_with(", 1 failed"),
        "{shown}"
    );
    let listed = place.good(&["list", "--all"]);
    assert!(listed.contains("2 of 3 approved, 1 failed"), "{listed}");
}

/// Policy that lets small payments pass.
const PAY: &str = "[tools.pay]\neffect = \"external\"\nhold = \"args.amount >= 100.0\"\n";

#[test]
fn a_passed_call_says_why_and_not_how_the_policy_is_written() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", PAY);
    place.script("tool", "echo '{}'");
    place.good(&["propose", "pay", r#"{"amount":5.0}"#, "--exec", "./tool"]);
    let listed = place.json(&["list", "--all"]);
    let passed = &listed["approvals"][0];
    assert_eq!(passed["status"], "passed");
    let because = "the policy asks about `pay` only under a condition, and this call did not meet it";
    assert_eq!(passed["passedBecause"], because);
    let id = passed["id"].as_str().unwrap();
    let shown = place.good(&["show", id, "--events"]);
    let line = format!("by the policy, nobody was asked: {because}");
    assert!(shown.contains(&line), "{shown}");
    for text in [&shown, &passed.to_string()] {
        assert!(!text.contains("args.amount"), "{text}");
    }
    // The state is shown in color.
    let colored = place.good(&["list", "--all", "--color", "always"]);
    assert!(colored.contains("\u{1b}[36mpassed"), "{colored:?}");
}

/// Wrapped lines of our own text have no gutter; only foreign text has one.
#[test]
fn our_own_words_have_no_gutter() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", PAY);
    place.script("tool", "echo '{}'");
    place.good(&["propose", "pay", r#"{"amount":5.0}"#, "--exec", "./tool"]);
    let listed = place.json(&["list", "--all"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    let line = format!("--color=never show {id}");
    let terminal = Terminal::sized(&place, (60, 40), &line, &[]);
    let screen = terminal.shows("ended ");
    let rows: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let at = rows
        .iter()
        .position(|row| row.contains("by the policy, nobody was"));
    let at = at.unwrap_or_else(|| panic!("{screen}"));
    let sentence: Vec<&str> = rows[at + 1..]
        .iter()
        .take_while(|row| !row.contains("id  "))
        .copied()
        .collect();
    assert!(sentence.len() > 1, "{screen}");
    assert!(sentence.iter().all(|row| !row.contains('│')), "{screen}");
}

/// The start message of an unconfigured service says what each tool does, and the tools do that.
#[test]
fn the_greeting_of_a_tryout_is_true() {
    let place = TestFolder::without_policy();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--color", "never"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<String> = Vec::new();
    while !said.last().is_some_and(|line| line.contains("Ctrl-C stops")) {
        said.push(lines.next().unwrap().unwrap());
    }
    let echoes = said
        .iter()
        .find_map(|line| line.trim().strip_prefix("These only echo their arguments: "));
    assert_eq!(echoes, Some("export_report, refund."), "{said:?}");
    assert!(
        said.iter().any(|line| line.contains("Any other tool is held")),
        "{said:?}"
    );
    // A listed tool echoes its arguments; any other is left to the program that proposed it.
    let url = said[0]
        .split_whitespace()
        .last()
        .unwrap()
        .trim_end_matches("/approvals");
    let token = place.good(&["token", "create", "--agent", "demo", "--scope", "propose,wait"]);
    let propose = |tool: &str, arguments: &str| {
        let mut command = place.command(&["--json", "propose", tool, arguments]);
        command
            .env("COUNTERSIGN_SERVER", url)
            .env("COUNTERSIGN_TOKEN", token.trim());
        let left = Left::of(command.output().unwrap());
        serde_json::from_str::<serde_json::Value>(&left.stdout).unwrap_or_else(|_| panic!("{left:?}"))
    };
    let echoed = propose("refund", r#"{"amount":5.0,"currency":"EUR","order":"7"}"#);
    assert!(
        echoed["calls"][0]["result"].as_str().unwrap().contains("5.0"),
        "{echoed}"
    );
    let held = propose("send_mail", r#"{"to":"ana"}"#);
    let id = held["approval"]["id"].as_str().unwrap();
    place.good(&["approve", id]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(place.json(&["show", id])["calls"][0]["state"], "released");
    child.kill().unwrap();
    child.wait().unwrap();
}
