//! A held call from its decision to its outcome: it is started once.

use super::*;
use crate::served::Served;

#[test]
fn i3_what_a_person_approved_is_what_runs_to_the_byte() {
    for dialect in ["claude-code", "codex", "gemini"] {
        let place = agents();
        let (event, tool) = match dialect {
            "gemini" => (
                gemini("BeforeTool", "run_shell_command", LS, ""),
                "run_shell_command",
            ),
            _ => (before("t1", "Bash", LS), "Bash"),
        };
        let waiting = fed(hook(&place, &[dialect, "--hold", "30s"]), event.as_bytes());
        let id = pending(&place);
        let shown = place.json(&["show", &id]);
        assert_eq!(
            (&shown["agentName"], &shown["runId"]),
            (&dialect.into(), &"s1".into())
        );
        assert_eq!(shown["calls"][0]["tool"], tool);
        assert_eq!(place.run(&["show", &id, "--raw", "1"]).stdout, LS);
        place.good(&["approve", &id]);
        let left = Left::of(waiting.wait_with_output().unwrap());
        let answer = one(&left);
        assert!(left.code == 0 && left.stdout.contains(LS), "{left:?}");
        let allowed = match dialect {
            "gemini" => answer["decision"] == "allow",
            _ => answer["hookSpecificOutput"]["permissionDecision"] == "allow",
        };
        assert!(allowed, "{left:?}");
        assert_eq!(state(&place, &id), "running");
        let end = match dialect {
            "gemini" => gemini("AfterTool", tool, LS, r#","tool_response":{"llmContent":"é"}"#),
            _ => after("PostToolUse", "t1", r#""tool_response":{"stdout":"é"}"#),
        };
        let left = ask(&place, &[dialect], end.as_bytes());
        assert_eq!(
            (left.code, left.stdout.as_str(), left.stderr.as_str()),
            (0, "{}\n", "")
        );
        assert_eq!(state(&place, &id), "succeeded");
    }
}

#[test]
fn i3_a_persons_revision_is_what_runs() {
    let place = agents();
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        before("t1", "Bash", LS).as_bytes(),
    );
    let id = pending(&place);
    place.good(&["approve", &id, "--edit", r#"1={"command":  "ls -l"}"#]);
    let left = Left::of(waiting.wait_with_output().unwrap());
    assert!(
        left.stdout.contains(r#""updatedInput":{"command":  "ls -l"}"#),
        "{left:?}"
    );
    // Where arguments are merged, a removed key would come back, so the call does not run at all.
    let place = agents();
    let event = gemini("BeforeTool", "run_shell_command", LS, "");
    let waiting = fed(hook(&place, &["gemini", "--hold", "30s"]), event.as_bytes());
    let id = pending(&place);
    place.good(&["approve", &id, "--edit", r#"1={"command":"ls -l"}"#]);
    let left = Left::of(waiting.wait_with_output().unwrap());
    assert!(
        blocks("gemini", &left) && left.stdout.contains("took one away"),
        "{left:?}"
    );
    assert_eq!(state(&place, &id), "released");
}

#[test]
fn i3_an_outcome_with_other_arguments_than_were_approved_is_unknown() {
    let other = r#"{"command":"rm -rf /"}"#;
    // The same values, written in another way.
    let same = r#"{"a":12345678901234567890123,"command":"ls é","z":1.5}"#;
    for dialect in ["claude-code", "codex"] {
        for (input, expected) in [(other, "unknown"), (same, "succeeded")] {
            let place = agents();
            let waiting = fed(
                hook(&place, &[dialect, "--hold", "30s"]),
                before("t1", "Bash", LS).as_bytes(),
            );
            let id = pending(&place);
            place.good(&["approve", &id]);
            assert_eq!(Left::of(waiting.wait_with_output().unwrap()).code, 0);
            let end = after("PostToolUse", "t1", r#""tool_response":{"stdout":"x"}"#).replace(LS, input);
            let left = ask(&place, &[dialect], end.as_bytes());
            assert_eq!(left.stdout, "{}\n", "the model gets the result: {left:?}");
            assert_eq!(state(&place, &id), expected, "{input}");
            let is_told = left.stderr.contains("other arguments than were allowed");
            assert_eq!(is_told, expected == "unknown", "{left:?}");
            let shown = place.good(&["show", &id, "--full"]);
            assert_eq!(
                shown.contains("other arguments"),
                expected == "unknown",
                "{shown}"
            );
        }
    }
    // An event that names no arguments proves nothing.
    let place = agents();
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        before("t1", "Bash", LS).as_bytes(),
    );
    let id = pending(&place);
    place.good(&["approve", &id]);
    assert_eq!(Left::of(waiting.wait_with_output().unwrap()).code, 0);
    let end = after("PostToolUse", "t1", r#""x":1"#).replace(&format!(r#""tool_input":{LS},"#), "");
    ask(&place, &["claude-code"], end.as_bytes());
    assert_eq!(state(&place, &id), "unknown");
}

#[test]
fn another_call_under_a_used_id_is_denied_in_words() {
    let place = agents();
    let brief = ["claude-code", "--hold", "10ms"];
    let first = ask(&place, &brief, before("t1", "Bash", LS).as_bytes());
    assert!(first.stdout.contains("still waits"), "{first:?}");
    let other = before("t1", "Bash", r#"{"command":"pwd"}"#);
    let left = ask(&place, &brief, other.as_bytes());
    assert!(blocks("claude-code", &left), "{left:?}");
    assert!(left.stdout.contains("`tool_use_id`"), "{left:?}");
    let digits = left.stdout.split(|c: char| !c.is_ascii_hexdigit());
    assert!(digits.into_iter().all(|run| run.len() < 16), "a hash: {left:?}");
}

#[test]
fn how_a_call_ended_is_recorded() {
    for (event, rest, expected) in [
        ("PostToolUse", r#""tool_response":{"stdout":""}"#, "succeeded"),
        ("PostToolUse", r#""x":1"#, "succeeded"),
        (
            "PostToolUseFailure",
            r#""error":"exit code 1","is_interrupt":false"#,
            "failed",
        ),
        (
            "PostToolUseFailure",
            r#""error":"stopped","is_interrupt":true"#,
            "unknown",
        ),
    ] {
        let place = agents();
        let waiting = fed(
            hook(&place, &["claude-code", "--hold", "30s"]),
            before("t1", "Bash", LS).as_bytes(),
        );
        let id = pending(&place);
        place.good(&["approve", &id]);
        assert_eq!(Left::of(waiting.wait_with_output().unwrap()).code, 0);
        for _ in 0..2 {
            let left = ask(&place, &["claude-code"], after(event, "t1", rest).as_bytes());
            assert_eq!((left.code, left.stdout.as_str()), (0, "{}\n"), "{left:?}");
        }
        assert_eq!(state(&place, &id), expected, "{event} {rest}");
    }
    // A call that was never held, and one whose store was deleted: the model gets the result in both cases.
    let place = agents();
    let end = after("PostToolUse", "t9", r#""tool_response":{}"#);
    assert_eq!(ask(&place, &["claude-code"], end.as_bytes()).stdout, "{}\n");
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        before("t9", "Bash", LS).as_bytes(),
    );
    place.good(&["approve", &pending(&place)]);
    waiting.wait_with_output().unwrap();
    std::fs::remove_file(place.path().join("countersign.db")).unwrap();
    let left = ask(&place, &["claude-code"], end.as_bytes());
    assert_eq!((left.code, left.stdout.as_str()), (1, "{}\n"), "{left:?}");
    assert!(left.stderr.contains("could not record"), "{left:?}");
}

#[test]
fn x13_the_same_tool_use_gets_one_permit() {
    let place = agents();
    let event = before("t1", "Bash", LS);
    let both: Vec<Child> = (0..2)
        .map(|_| fed(hook(&place, &["claude-code", "--hold", "30s"]), event.as_bytes()))
        .collect();
    let id = pending(&place);
    // Both wait for the same approval.
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
    place.good(&["approve", &id]);
    let mut allowed = 0;
    for child in both {
        let left = Left::of(child.wait_with_output().unwrap());
        one(&left);
        match blocks("claude-code", &left) {
            true => assert!(left.stdout.contains("at most once"), "{left:?}"),
            false => allowed += 1,
        }
    }
    assert_eq!(allowed, 1);
    for _ in 0..2 {
        let left = ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes());
        assert!(blocks("claude-code", &left), "{left:?}");
        ask(
            &place,
            &["claude-code"],
            after("PostToolUse", "t1", r#""tool_response":{}"#).as_bytes(),
        );
    }
    assert_eq!(
        place.json(&["list", "--all"])["approvals"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn asking_again_joins_the_approval_and_gets_its_answer() {
    let place = agents();
    let ask_again = |id: &str| {
        ask(
            &place,
            &["claude-code", "--hold", "10ms"],
            before(id, "Bash", LS).as_bytes(),
        )
    };
    assert!(ask_again("t1").stdout.contains("not approved yet"));
    let id = pending(&place);
    assert!(ask_again("t2").stdout.contains("not approved yet"));
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
    place.good(&["approve", &id]);
    let left = ask_again("t3");
    assert!(
        left.stdout.contains("\"allow\"") && left.stdout.contains(LS),
        "{left:?}"
    );
    // The call ran once: its id stays used, and the next call needs its own approval.
    assert!(ask_again("t3").stdout.contains("at most once"));
    assert!(ask_again("t4").stdout.contains("not approved yet"));
    let second = pending(&place);
    assert_ne!(id, second);
    place.good(&["deny", &second, "--comment", "no"]);
    assert!(ask_again("t5").stdout.contains("denied by ana: no"));
    // A denied call cannot be proposed again at once.
    assert!(ask_again("t6").stdout.contains("denied a short while ago"));
}

#[test]
fn x32_a_hook_that_is_killed_leaves_its_approval_pending() {
    let place = agents();
    let mut waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        before("t1", "Bash", LS).as_bytes(),
    );
    let id = pending(&place);
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(place.json(&["show", &id])["status"], "pending");
    place.good(&["approve", &id]);
    let left = ask(&place, &["claude-code"], before("t1", "Bash", LS).as_bytes());
    assert!(left.stdout.contains("\"allow\""), "{left:?}");
}

#[test]
fn a_started_call_that_nobody_finishes_becomes_unknown() {
    let place = agents();
    place.write(
        "countersign.toml",
        "[tools.Bash]\neffect = \"write\"\ntimeout = \"1s\"\n",
    );
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        before("t1", "Bash", LS).as_bytes(),
    );
    let id = pending(&place);
    place.good(&["approve", &id]);
    assert!(
        Left::of(waiting.wait_with_output().unwrap())
            .stdout
            .contains("\"allow\"")
    );
    std::thread::sleep(Duration::from_millis(1200));
    place.good(&["expire"]);
    assert_eq!(state(&place, &id), "unknown");
    // A late report of the outcome is still recorded.
    ask(
        &place,
        &["claude-code"],
        after("PostToolUse", "t1", r#""tool_response":{}"#).as_bytes(),
    );
    assert_eq!(state(&place, &id), "succeeded");
}

#[test]
fn x13_two_sessions_that_share_a_card_do_not_share_its_permit() {
    let place = agents();
    let event = |session: &str, id: &str| before(id, "Bash", LS).replace("\"s1\"", &format!("\"{session}\""));
    let short = |event: &str| ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes()).stdout;
    assert!(short(&event("s1", "t1")).contains("not approved yet"));
    let shared = pending(&place);
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        event("s2", "t1").as_bytes(),
    );
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
    place.good(&["approve", &shared]);
    assert!(
        Left::of(waiting.wait_with_output().unwrap())
            .stdout
            .contains("\"allow\"")
    );
    // The first session has to ask again, because its approval is used up.
    assert!(short(&event("s1", "t1")).contains("was used by the same call elsewhere"));
    assert!(short(&event("s1", "t2")).contains("not approved yet"));
    let own = pending(&place);
    assert_ne!(shared, own);
    place.good(&["approve", &own]);
    assert!(short(&event("s1", "t3")).contains("\"allow\""));
}

#[test]
fn x58_a_call_that_passes_is_on_record_with_its_end() {
    const PASSES: &str = "[tools.Bash]\neffect = \"write\"\nhold = \"false\"\n\
                          [tools.run_shell_command]\neffect = \"write\"\nhold = \"false\"\n";
    for dialect in ["claude-code", "codex", "gemini"] {
        let place = TestFolder::without_policy();
        place.write("countersign.toml", PASSES);
        let tool = match dialect {
            "gemini" => "run_shell_command",
            _ => "Bash",
        };
        let begins = |n: u8| match dialect {
            // Two calls of Gemini CLI differ only in their timestamps.
            "gemini" => gemini("BeforeTool", tool, LS, "").replace(":00.000Z", &format!(":0{n}.000Z")),
            _ => before(&format!("t{n}"), tool, LS),
        };
        let ends = |n: u8| match dialect {
            "gemini" => gemini("AfterTool", tool, LS, r#","tool_response":{"llmContent":"é"}"#),
            _ => after(
                "PostToolUse",
                &format!("t{n}"),
                r#""tool_response":{"stdout":"é"}"#,
            ),
        };
        let passed = || {
            let listed = place.json(&["list", "--state", "passed"]);
            listed["approvals"].as_array().unwrap().clone()
        };
        let left = ask(&place, &[dialect], begins(1).as_bytes());
        assert_eq!((left.code, left.stdout.as_str()), (0, "{}\n"), "{left:?}");
        assert_eq!(passed()[0]["calls"][0]["state"], "running", "{dialect}");
        // The same event again is the same call, so it does not pass twice.
        let left = ask(&place, &[dialect], begins(1).as_bytes());
        assert!(
            blocks(dialect, &left) && left.stdout.contains("at most once"),
            "{left:?}"
        );
        let left = ask(&place, &[dialect], ends(1).as_bytes());
        assert_eq!((left.code, left.stdout.as_str()), (0, "{}\n"), "{left:?}");
        assert_eq!(passed()[0]["calls"][0]["state"], "succeeded", "{dialect}");
        // A call whose outcome is never reported does not block the next one.
        for n in [2, 3] {
            let left = ask(&place, &[dialect], begins(n).as_bytes());
            assert_eq!(
                (left.code, left.stdout.as_str()),
                (0, "{}\n"),
                "{dialect} {n}: {left:?}"
            );
        }
        ask(&place, &[dialect], ends(3).as_bytes());
        let states: Vec<Value> = passed()
            .iter()
            .map(|record| record["calls"][0]["state"].clone())
            .collect();
        assert_eq!(states, ["succeeded", "running", "succeeded"], "{dialect}");
        assert_eq!(place.json(&["list"])["approvals"], Value::Array(Vec::new()));
    }
}

/// Starts a proxy to a service that delays responses to a start until the flag is set.
fn slow_starts(service: &Served<'_>) -> (String, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    use std::io::{Read as _, copy};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    let (address, go) = (service.address(), Arc::new(AtomicBool::new(false)));
    let host = service.url.trim_start_matches("http://").to_owned();
    let (own, let_go) = (url.trim_start_matches("http://").to_owned(), go.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, go) = (client.unwrap(), let_go.clone());
            let mut server = TcpStream::connect(&address).unwrap();
            let (host, own) = (host.clone(), own.clone());
            std::thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                let count = client.read(&mut request).unwrap();
                // The service accepts only its own host name.
                let text = String::from_utf8_lossy(&request[..count]).replace(&own, &host);
                server.write_all(text.as_bytes()).unwrap();
                let is_start = text
                    .split_whitespace()
                    .nth(1)
                    .is_some_and(|path| path.ends_with("/start"));
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || copy(&mut from, &mut to));
                let mut answer = [0; 64 * 1024];
                while let Ok(count @ 1..) = server.read(&mut answer) {
                    while is_start && !go.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    if client.write_all(&answer[..count]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    (url, go)
}

/// X84: a hook that was suspended between the recorded start and its answer must not allow the call.
#[test]
fn x84_a_hook_that_slept_past_the_deadline_denies() {
    let place = agents();
    let policy = format!("{POLICY}\n[tools.Deploy]\neffect = \"external\"\ntimeout = \"3s\"\n");
    place.write("countersign.toml", policy);
    let served = Served::start(&place);
    let token = served.token(&["--agent", "coder", "--scope", "propose,wait"]);
    let host = served.token(&["--name", "coder-host", "--scope", "execute"]);
    use std::os::unix::fs::PermissionsExt as _;
    place.write("host", &host);
    std::fs::set_permissions(place.path().join("host"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let (url, go) = slow_starts(&served);
    let host = place.path().join("host");
    let host = host.to_str().unwrap();
    let mut command = hook(
        &place,
        &["claude-code", "--hold", "30s", "--execute-token-file", host],
    );
    command
        .env("COUNTERSIGN_SERVER", &url)
        .env("COUNTERSIGN_TOKEN", &token);
    let waiting = fed(command, before("t1", "Deploy", "{}").as_bytes());
    let id = pending(&place);
    served.good(&served.person(), &["approve", &id]);
    let give_up_at = Instant::now() + Duration::from_secs(20);
    while !["running", "unknown"].contains(&state(&place, &id).as_str()) {
        assert!(Instant::now() < give_up_at, "it was not started");
    }
    let signal = |name: &str| {
        let sent = Command::new("kill")
            .args([name, &waiting.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    go.store(true, std::sync::atomic::Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(3_200));
    signal("-CONT");
    let left = Left::of(waiting.wait_with_output().unwrap());
    assert!(
        !left.stdout.contains("\"allow\""),
        "it was allowed late: {left:?}"
    );
    assert!(left.stdout.contains("Nothing was run"), "{left:?}");
    let shown = place.json(&["show", &id]).to_string();
    assert!(shown.contains("not run: its time was over"), "{shown}");
}
