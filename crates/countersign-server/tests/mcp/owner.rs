//! A held call runs only in the server process that it was proposed to, because a server can have state.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, approval, pending, text, until};
use crate::http::{Running, call, greet};
use crate::peers::{node, package};
use crate::test_folder::TestFolder;

const BROWSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/browser.py");
const POLICY: &str =
    "[tools.\"browser/open\"]\neffect = \"read\"\n[tools.\"browser/click\"]\neffect = \"write\"\n";

fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    let limits = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";
    place.write("countersign.toml", format!("{limits}{POLICY}"));
    place
}

/// Starts a client with its own browser server, and opens this page.
fn browser(place: &TestFolder, options: &[&str], page: &str) -> (Client, u64) {
    let mut all = vec!["--name", "browser"];
    all.extend_from_slice(options);
    let mut client = Client::start(place, &all, &["python3", BROWSER, "clicks"]);
    client.greet(json!({}));
    let opened = answer_json(&client.call("open", json!({"page": page})));
    assert_eq!(opened["page"], page);
    (client, opened["process"].as_u64().unwrap())
}

#[track_caller]
fn answer_json(answer: &Value) -> Value {
    serde_json::from_str(text(answer)).unwrap_or_else(|_| panic!("{answer}"))
}

fn clicks(place: &TestFolder) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path().join("clicks")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// X98: two gateways with different policies for one server do not run on one store, unless that is explicitly allowed.
#[test]
fn x98_a_gateway_with_another_policy_does_not_start_beside_one_that_runs() {
    let place = place();
    let lease = ["--lease", "3s"];
    let (first, _) = browser(&place, &lease, "one");
    place.write(
        "countersign.toml",
        "[tools.\"browser/open\"]\neffect = \"read\"\n",
    );
    let start = |options: &[&str]| {
        let all: Vec<&str> = lease.iter().chain(options).copied().collect();
        Client::start(&place, &all, &["python3", BROWSER, "clicks"])
    };
    let (code, said) = start(&["--name", "browser"]).ended();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("runs on this store with another policy"), "{said}");
    assert!(said.contains("--policy-change"), "{said}");
    // Calls to another server have their own policy,
    let mut other = start(&["--name", "another"]);
    other.greet(json!({}));
    // and `--policy-change` allows it.
    let mut rolling = start(&["--name", "browser", "--policy-change"]);
    rolling.greet(json!({}));
    first.kill();
    other.kill();
    rolling.kill();
    // A gateway that was killed is forgotten when its lease expires.
    place.write("countersign.toml", POLICY);
    browser(&place, &lease, "two");
}

/// Returns the ids of all pending approvals.
fn waiting(place: &TestFolder) -> Vec<String> {
    let listed = place.json(&["list"]);
    let ids = listed["approvals"].as_array().unwrap().iter();
    ids.map(|approval| approval["id"].as_str().unwrap().to_owned())
        .collect()
}

fn state(place: &TestFolder, id: &str) -> Value {
    place.json(&["show", id])["calls"][0]["state"].clone()
}

fn signal(client: &Client, name: &str) {
    let pid = client.child.id().to_string();
    assert!(
        Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn x77_two_gateways_over_one_store_each_run_their_own_calls() {
    let place = place();
    let (mut one, first) = browser(&place, &[], "mail");
    let (mut other, mut second) = browser(&place, &[], "bank");
    for round in 0..100 {
        // The same call in another browser is a different call.
        let both = round % 2 == 0;
        let clicked = one.begin("click", json!({"button": round}));
        if round % 10 == 5 {
            // A gateway that starts while the other one's call is pending does not take it over.
            until("it is pending", || waiting(&place).len() == 1);
            other.kill();
            (other, second) = browser(&place, &[], "bank");
        }
        let beside = both.then(|| other.begin("click", json!({"button": round})));
        let count = if both { 2 } else { 1 };
        let mut ids = Vec::new();
        until("all are pending", || {
            ids = waiting(&place);
            ids.len() == count
        });
        for id in &ids {
            place.good(&["approve", id]);
        }
        let answer = answer_json(&one.answer(clicked));
        assert_eq!(
            (&answer["process"], &answer["page"]),
            (&json!(first), &json!("mail")),
            "round {round}"
        );
        if let Some(beside) = beside {
            let answer = answer_json(&other.answer(beside));
            assert_eq!(
                (&answer["process"], &answer["page"]),
                (&json!(second), &json!("bank")),
                "round {round}"
            );
        }
    }
    assert_eq!(clicks(&place).len(), 150);
}

#[test]
fn x77_real_servers_run_what_was_proposed_to_them() {
    let place = TestFolder::without_policy();
    let limits = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";
    place.write(
        "countersign.toml",
        format!("{limits}[tools.\"every/get-env\"]\neffect = \"write\"\n"),
    );
    let script = package("server-everything/dist/index.js");
    let start = |who: &str| {
        let node = node();
        let arguments = [
            "mcp",
            "--name",
            "every",
            "--pass-env",
            "WHO",
            "--",
            &node,
            &script,
        ];
        let mut command = place.command(&arguments);
        command.env("WHO", who);
        let mut client = Client::spawn(command);
        client.greet(json!({}));
        client
    };
    let (mut one, mut other) = (start("first"), start("second"));
    for round in 0..100 {
        let asked = [one.begin("get-env", json!({})), other.begin("get-env", json!({}))];
        let mut ids = Vec::new();
        until("both are pending", || {
            ids = waiting(&place);
            ids.len() == 2
        });
        if round % 2 == 0 {
            ids.reverse();
        }
        for id in &ids {
            place.good(&["approve", id]);
        }
        let answers = [
            answer_json(&one.answer(asked[0])),
            answer_json(&other.answer(asked[1])),
        ];
        assert_eq!(
            (&answers[0]["WHO"], &answers[1]["WHO"]),
            (&json!("first"), &json!("second"))
        );
    }
}

#[test]
fn x77_what_a_dead_gateway_left_is_ended_and_not_run_elsewhere() {
    let place = place();
    let quick = ["--lease", "1s", "--hold", "100ms"];
    let (mut one, _) = browser(&place, &quick, "mail");
    let undecided = approval(&one.call("click", json!({"button": 1})));
    let approved = approval(&one.call("click", json!({"button": 2})));
    one.kill();
    place.good(&["approve", &approved]);
    let (mut other, process) = browser(&place, &quick, "bank");
    // The same call is a new approval, for this browser.
    let again = approval(&other.call("click", json!({"button": 1})));
    assert_ne!(again, undecided);
    until("it is withdrawn", || {
        place.json(&["show", &undecided])["status"] == "withdrawn"
    });
    until("it has failed", || state(&place, &approved) == "failed");
    let shown = place.good(&["show", &approved]);
    assert!(shown.contains("has ended"), "{shown}");
    assert_eq!(clicks(&place), [json!(null); 0]);
    place.good(&["approve", &again]);
    until("the new one has run", || clicks(&place).len() == 1);
    assert_eq!(clicks(&place)[0]["process"], process);
}

#[test]
fn x77_a_server_that_keeps_nothing_takes_over_once_the_lease_has_lapsed() {
    let place = place();
    let quick = ["--lease", "2s", "--hold", "100ms", "--resume"];
    let (mut one, first) = browser(&place, &quick, "mail");
    let (_other, second) = browser(&place, &quick, "bank");
    // While the first gateway lives, it runs the calls that were proposed to it.
    let id = approval(&one.call("click", json!({"button": 1})));
    place.good(&["approve", &id]);
    until("it has run", || clicks(&place).len() == 1);
    assert_eq!(clicks(&place)[0]["process"], first);
    let id = approval(&one.call("click", json!({"button": 2})));
    one.kill();
    place.good(&["approve", &id]);
    until("it has run", || clicks(&place).len() == 2);
    assert_eq!(clicks(&place)[1]["process"], second);
}

#[test]
fn x77_a_gateway_that_slept_finds_its_calls_ended_or_runs_them_itself() {
    for resume in [false, true] {
        let place = place();
        let mut quick = vec!["--lease", "2s"];
        quick.extend(resume.then_some("--resume"));
        let (mut one, first) = browser(&place, &quick, "mail");
        let (_other, second) = browser(&place, &quick, "bank");
        let clicked = one.begin("click", json!({"button": 1}));
        let id = pending(&place);
        signal(&one, "-STOP");
        std::thread::sleep(Duration::from_millis(2500));
        // Without `resume`, the approval may already be withdrawn.
        place.run(&["approve", &id]);
        match resume {
            true => until("the other has run it", || clicks(&place).len() == 1),
            false => std::thread::sleep(Duration::from_millis(3500)),
        }
        signal(&one, "-CONT");
        let answer = one.answer(clicked);
        let ran = clicks(&place);
        match resume {
            true => {
                assert_eq!(ran.len(), 1, "{answer}");
                assert_eq!(answer_json(&answer)["process"], second);
            }
            false => assert!(ran.iter().all(|click| click["process"] == first), "{answer}"),
        }
        assert!(ran.len() <= 1);
    }
}

#[test]
fn x77_a_gateway_that_is_told_to_end_leaves_no_card_that_cannot_run() {
    let place = place();
    let (mut one, _) = browser(&place, &[], "mail");
    one.begin("click", json!({"button": 1}));
    let id = pending(&place);
    signal(&one, "-TERM");
    one.ended();
    let shown = place.json(&["show", &id]);
    assert_eq!(shown["status"], "withdrawn", "{shown}");
}

#[test]
fn x77_sessions_over_http_do_not_run_the_calls_of_one_another() {
    let place = place();
    let options = [
        "--name",
        "browser",
        "--listen",
        "127.0.0.1:0",
        "--no-token",
        "--hold",
        "100ms",
        "--",
    ];
    let mut arguments = vec!["mcp"];
    arguments.extend_from_slice(&options);
    arguments.extend_from_slice(&["python3", BROWSER, "clicks"]);
    let gateway = Running::start(place.command(&arguments));
    let sessions = [greet(&gateway.address, &[]), greet(&gateway.address, &[])];
    let mut processes = Vec::new();
    for (session, page) in sessions.iter().zip(["mail", "bank"]) {
        let with = [("mcp-session-id", session.as_str())];
        let opened = answer_json(&call(&gateway.address, &with, "open", json!({"page": page})));
        processes.push(opened["process"].clone());
    }
    for round in 0..10 {
        let mut ids = Vec::new();
        for session in &sessions {
            let with = [("mcp-session-id", session.as_str())];
            ids.push(approval(&call(
                &gateway.address,
                &with,
                "click",
                json!({"button": round}),
            )));
        }
        assert_ne!(ids[0], ids[1]);
        for id in ids.iter().rev() {
            place.good(&["approve", id]);
        }
        until("both have run", || clicks(&place).len() == 2 * (round + 1));
        for ((session, process), id) in sessions.iter().zip(&processes).zip(&ids) {
            let with = [("mcp-session-id", session.as_str())];
            let mut answer = Value::Null;
            until("there is a result", || {
                answer = call(
                    &gateway.address,
                    &with,
                    "countersign_wait",
                    json!({"approval": id}),
                );
                text(&answer).contains("process")
            });
            assert_eq!(&answer_json(&answer)["process"], process, "round {round}");
        }
    }
}
