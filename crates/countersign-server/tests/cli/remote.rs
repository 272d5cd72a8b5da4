//! Tests the command line against a server: same words, same JSON, same exit codes as with a store.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{MARIA, TestFolder};

/// Checks that a command prints the same with the store and with a server. Output has times in seconds, so a difference
/// may come from a second that passed; then both run again.
#[track_caller]
fn check_same(served: &Served<'_>, token: &str, arguments: &[&str]) {
    let ask = || {
        let mut near = served.place.run(arguments);
        let mut far = served.run(token, arguments);
        for left in [&mut near, &mut far] {
            let lines = left.stdout.lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("\"now\":"));
            left.stdout = lines.collect::<Vec<_>>().join("\n");
        }
        (near, far)
    };
    for _ in 0..10 {
        let (near, far) = ask();
        if (&near.stdout, &near.stderr, near.code) == (&far.stdout, &far.stderr, far.code) {
            assert!(
                !near.stdout.is_empty() || !near.stderr.is_empty(),
                "{arguments:?}"
            );
            return;
        }
    }
    let (near, far) = ask();
    assert_eq!(near.stdout, far.stdout, "{arguments:?}");
    assert_eq!(near.stderr, far.stderr, "{arguments:?}");
    assert_eq!(near.code, far.code, "{arguments:?}");
}

#[test]
fn d2_looking_is_the_same_near_and_far() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    check_same(&served, &person, &["list"]);
    let id = place.contact();
    let odd = r#"{"id":"\u001b]0;x\u0007 раypal \u202e", "long":"LONG"}"#.replace("LONG", &"y".repeat(5_000));
    place.propose(&[
        "delete_contact",
        &odd,
        "--claim",
        "sure\u{1b}[2J",
        "--channel",
        "telegram:42",
    ]);
    place.propose(&[
        "create_contact",
        r#"{"name":"A","email":"a@b.c","api_key":"hunter2"}"#,
    ]);
    place.write(
        "batch.jsonl",
        format!("{{\"tool\":\"create_contact\",\"arguments\":{MARIA}}}\n{{\"tool\":\"x\"}}\n"),
    );
    place.propose(&["--calls", "batch.jsonl"]);
    let decided = place.propose(&["unlisted", " { \"a\" : 1.0 } "]);
    place.good(&["deny", &decided, "--comment", "no\u{7}"]);
    let page: Value = serde_json::from_str(&place.good(&["list", "--all", "--json"])).unwrap();
    for approval in page["approvals"].as_array().unwrap() {
        let id = approval["id"].as_str().unwrap();
        for arguments in [
            ["show", id, "--color=always"],
            ["show", id, "--full"],
            ["show", id, "--json"],
            ["show", id, "--events"],
        ] {
            check_same(&served, &person, &arguments);
        }
    }
    for arguments in [
        vec!["list", "--all", "--color=always"],
        vec!["list", "--all", "--json"],
        vec!["list", "--all", "--limit", "2"],
        vec!["list", "--state", "denied"],
        vec!["list", "--agent", "crm"],
        vec!["list", "--channel", "telegram:42"],
        vec!["list", "--run", "none"],
        vec!["list", "--all", "--after", &id],
        vec!["show", &id[28..]],
        vec!["show", &id, "--raw", "1"],
        vec!["show", &decided, "--raw", "1"],
        vec!["show", &id, "--raw", "2"],
        vec!["show", "ffff"],
        vec!["show", "x"],
        vec!["show", "01a1e1bf-0691-746b-a7d3-4d5f91ac91ae"],
    ] {
        check_same(&served, &person, &arguments);
    }
}

#[test]
fn x31_a_server_gives_no_secrets_to_look_at() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let id = place.propose(&[
        "create_contact",
        r#"{"name":"A","email":"a@b.c","api_key":"hunter2"}"#,
    ]);
    let person = served.person();
    let card = served.good(&person, &["show", &id, "--full"]);
    assert!(card.contains("a@b.c") && card.contains("/api_key"), "{card}");
    let json = served.good(&person, &["show", &id, "--json", "--events"]);
    let left = served.run(&person, &["show", &id, "--raw", "1"]);
    assert_eq!(left.code, 1);
    for text in [card, json, left.stdout, left.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a9_a_whole_life_over_a_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (agent, person) = (served.agent(), served.person());
    let host = served.token(&["--name", "crm-host", "--scope", "read,execute"]);
    let exact = r#"{ "name" : "Maria",  "email":"m@a.c", "n":1.00 }"#;
    let id = served.propose(
        &agent,
        &[
            "create_contact",
            exact,
            "--channel",
            "c",
            "--run",
            "r",
            "--claim",
            "because",
        ],
    );
    let waiting = served
        .command(&agent, &["wait", &id, "--finished"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(served.good(&person, &["show", &id, "--raw", "1"]), exact);
    let outcome = served.good(&person, &["approve", &id, "--comment", "fine", "--key", "k1"]);
    assert!(
        outcome.contains("approved by ana") && outcome.contains("released"),
        "{outcome}"
    );
    let again = served.good(&person, &["approve", &id, "--comment", "fine", "--key", "k1"]);
    assert!(again.contains("approved by ana"), "{again}");
    place.script("tool", "cat > got; printf '{\"id\": 7}'");
    let ran = served.good(&host, &["wait", &id, "--exec", "./tool"]);
    assert!(
        ran.contains("succeeded") && ran.contains("result: │ {\"id\": 7}"),
        "{ran}"
    );
    assert_eq!(std::fs::read_to_string(place.path().join("got")).unwrap(), exact);
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(0));
    let undo = served.good(&agent, &["undo", &id]);
    assert!(undo.contains("Delete contact 7"), "{undo}");
    let next = served.propose(&agent, &["create_contact", MARIA]);
    let gone = served.good(&agent, &["withdraw", &next, "--reason", "other plans"]);
    assert!(gone.contains("withdrawn"), "{gone}");
    let failing = served.propose(&agent, &["create_contact", MARIA]);
    served.good(&person, &["approve", &failing]);
    let left = served.run(&host, &["wait", &failing, "--exec", "false"]);
    assert_eq!(left.code, 7, "{left:?}");
}

#[test]
fn a16_part_of_a_batch_and_an_edit_over_a_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (agent, person) = (served.agent(), served.person());
    place.write(
        "batch.jsonl",
        "{\"tool\":\"a\"}\n{\"tool\":\"b\",\"arguments\":{\"x\":1}}\n{\"tool\":\"c\"}\n",
    );
    let id = served.propose(&agent, &["--calls", "batch.jsonl"]);
    let left = served.run(&person, &["approve", &id, "--only", "1,9"]);
    assert_eq!(left.code, 2, "{left:?}");
    served.good(
        &person,
        &["approve", &id, "--only", "1,2", "--edit", "2={ \"x\" : 2 }"],
    );
    let shown: Value = serde_json::from_str(&place.good(&["show", &id, "--json"])).unwrap();
    let states: Vec<&str> = shown["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["released", "released", "refused"]);
    assert_eq!(place.good(&["show", &id, "--raw", "2"]), "{ \"x\" : 2 }");
}

#[test]
fn b7_refusals_are_the_same_over_a_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (agent, person) = (served.agent(), served.person());
    let refund = served.propose(&agent, &["refund", r#"{"amount":1.0}"#]);
    let pending = served.propose(&agent, &["create_contact", MARIA]);
    let decided = served.propose(&agent, &["create_contact", MARIA]);
    place.good(&["deny", &decided]);
    let withdrawn = served.propose(&agent, &["create_contact", MARIA]);
    place.good(&["withdraw", &withdrawn]);
    let quick = served.propose(&agent, &["quick"]);
    let old = served.propose(&agent, &["create_contact", MARIA, "--channel", "c"]);
    served.propose(&agent, &["create_contact", MARIA, "--channel", "c"]);
    std::thread::sleep(Duration::from_millis(1_100));
    for arguments in [
        ["approve", &refund, "--json"],
        ["approve", &decided, "--json"],
        ["deny", &withdrawn, "--json"],
        ["approve", &quick, "--json"],
        ["approve", &old, "--json"],
        ["approve", &pending, "--digest=000000000000"],
        [
            "approve",
            &pending,
            "--digest=0000000000000000000000000000000000000000000000000000000000000000",
        ],
        ["approve", &pending, "--edit=1={"],
        ["approve", &pending, "--edit=1=[]"],
    ] {
        check_same(&served, &person, &arguments);
    }
    let left = served.run(&agent, &["propose", "refund", r#"{"amount":5000.0}"#]);
    assert_eq!(left.code, 3, "{left:?}");
    let left = served.run(&agent, &["propose", "search"]);
    assert!(
        left.code == 0 && left.stdout.contains("may run at once"),
        "{left:?}"
    );
}

/// Checks that a command fails with this exit code, this message and a hint.
#[track_caller]
fn check_refused(served: &Served<'_>, token: &str, arguments: &[&str], code: i32, message: &str) {
    let left = served.run(token, arguments);
    assert_eq!(left.code, code, "{arguments:?}: {left:?}");
    assert!(
        left.stderr.contains(message) && left.stderr.contains("hint: "),
        "{arguments:?}: {left:?}"
    );
    assert_eq!(left.stdout, "", "{arguments:?}");
}

#[test]
fn x01_tokens_that_open_nothing_are_named() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (agent, person) = (served.agent(), served.person());
    let id = served.propose(&agent, &["create_contact", MARIA]);
    check_refused(
        &served,
        &agent,
        &["approve", &id],
        1,
        "none of the scopes: decide",
    );
    check_refused(
        &served,
        &person,
        &["propose", "x"],
        1,
        "none of the scopes: propose",
    );
    check_refused(
        &served,
        &person,
        &["withdraw", &id],
        1,
        "none of the scopes: propose",
    );
    check_refused(&served, "cst_0000", &["list"], 1, "valid token");
    check_refused(&served, "", &["list"], 1, "not a token");
    let brief = served.token(&["--person", "ana", "--scope", "read,decide", "--expires", "1s"]);
    std::thread::sleep(Duration::from_millis(1_100));
    check_refused(&served, &brief, &["approve", &id], 1, "valid token");
    let mut command = served.command("", &["list"]);
    let left = crate::test_folder::Left::of(command.env_remove("COUNTERSIGN_TOKEN").output().unwrap());
    assert!(
        left.code == 1 && left.stderr.contains("no token is given"),
        "{left:?}"
    );
    for arguments in [
        ["list", "--as", "eve"],
        ["list", "--tenant", "other"],
        ["list", "--store", "x.db"],
        ["propose", "x", "--agent=eve"],
    ] {
        check_refused(&served, &person, &arguments, 2, "");
    }
    check_refused(&served, &person, &["reconcile", &id, "--failed"], 4, "is held");
    let status: Value = serde_json::from_str(&place.good(&["show", &id, "--json"])).unwrap();
    assert_eq!(status["status"], "pending", "nobody decided");
}

#[test]
fn h06_a_token_file_that_everybody_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = TestFolder::new();
    let served = Served::start(&place);
    place.write("token", format!("{}\n", served.person()));
    let file = place.path().join("token");
    let run = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let named = file.display().to_string();
        place.run(&["list", "--server", &served.url, "--token-file", &named])
    };
    let left = run(0o644);
    assert!(
        left.code == 1 && left.stderr.contains("readable by other accounts"),
        "{left:?}"
    );
    assert_eq!(run(0o600).code, 0);
}

#[test]
fn a_server_that_is_gone_is_named() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    let url = served.url.clone();
    served.kill();
    let ask = |url: &str| place.run(&["list", "--server", url, "--token", &person]);
    let left = ask(&url);
    assert!(
        left.code == 1 && left.stderr.contains("cannot be reached"),
        "{left:?}"
    );
    // Another program listens at the address.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in other.incoming().take(1) {
            let mut stream: TcpStream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            use std::io::Write as _;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>");
        }
    });
    let left = ask(&format!("http://{address}"));
    assert!(
        left.code == 1 && left.stderr.contains("not from a Countersign server"),
        "{left:?}"
    );
    let left = ask("http://countersign.example.com");
    assert!(left.code == 1 && left.stderr.contains("unencrypted"), "{left:?}");
    let left = ask("ftp://x");
    assert_eq!(left.code, 2, "{left:?}");
}

#[test]
fn x32_a_wait_outlives_a_restart_of_the_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (agent, address) = (served.agent(), served.address());
    let id = served.propose(&agent, &["create_contact", MARIA]);
    let mut command = served.command(&agent, &["wait", &id, "--timeout", "60s"]);
    let waiting = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    served.kill();
    let again = Served::start_at(&place, &address);
    place.good(&["approve", &id]);
    let begun = Instant::now();
    let left = crate::test_folder::Left::of(waiting.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(left.stdout.contains("approved by ana"), "{left:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    drop(again);
    let timed_out = place.contact();
    let served = Served::start(&place);
    let left = served.run(&served.person(), &["wait", &timed_out, "--timeout", "300ms"]);
    assert!(
        left.code == 6 && left.stderr.contains("still pending after"),
        "{left:?}"
    );
}

#[test]
fn a_tool_that_is_not_there_yet_can_have_a_fixed_answer() {
    let place = TestFolder::new();
    place.write(
        "countersign-serve.toml",
        "[tools.create_contact]\nanswer = \"done\"\n",
    );
    let served = Served::start(&place);
    let (agent, ana) = (served.agent(), served.person());
    let id = served.propose(&agent, &["create_contact", r#"{"name":"Maria"}"#]);
    served.good(&ana, &["approve", &id]);
    let left = served.good(&agent, &["--json", "wait", &id, "--finished", "--timeout", "30s"]);
    let shown: serde_json::Value = serde_json::from_str(&left).unwrap();
    let call = &shown["calls"][0];
    assert_eq!(
        (&call["state"], &call["result"]),
        (&"succeeded".into(), &"done".into())
    );
}

/// The connection is lost right after a decision was sent. The decision may or may not arrive, but nothing is left half
/// done.
#[test]
fn a8_a_decider_who_goes_away_at_once_leaves_nothing_half_done() {
    use std::io::Write as _;
    let place = TestFolder::new();
    let config = "[tools.create_contact]\nanswer = '{\"id\":1}'\n";
    place.write("countersign-serve.toml", config);
    let served = Served::start(&place);
    let (agent, person) = (served.agent(), served.person());
    let body = r#"{"approved":true}"#;
    let mut decided = 0;
    for _ in 0..10 {
        let id = served.propose(&agent, &["create_contact", MARIA]);
        let mut connection = TcpStream::connect(served.address()).unwrap();
        let head = format!(
            "POST /v1/approvals/{id} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {person}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            served.address(),
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        drop(connection);
        std::thread::sleep(Duration::from_millis(100));
        let state = |arguments: &[&str]| -> Value {
            serde_json::from_str(&served.run(&agent, arguments).stdout).unwrap()
        };
        let now = state(&["--json", "show", &id]);
        if now["status"] == "approved" {
            decided += 1;
            let after = state(&["--json", "wait", &id, "--timeout", "10s"]);
            assert_eq!(after["calls"][0]["state"], "succeeded", "{after}");
        }
    }
    assert!(decided > 0, "no decision ever arrived");
}
