//! Processes that the gateway starts: which environment variables they see, and that all of them are ended.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, LONG, approval, journal, text, until};
use crate::hold::place;
use crate::http::{Running, call, greet, post};
use crate::test_folder::TestFolder;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

/// Writes a server that saves its environment to a file before it starts. Returns the server's path.
fn telling(place: &TestFolder, file: &str) -> String {
    let name = format!("server-{file}");
    place.script(&name, &format!("env > {file}\nexec python3 {PEER} journal"));
    place.path().join(name).display().to_string()
}

/// Variables set for the gateway: some that no server may see, `EXTRA`, which is passed on only on request, and one
/// that every server may see.
const SET: [(&str, &str); 7] = [
    ("COUNTERSIGN_EXECUTE_TOKEN_FILE", "/secret/execute"),
    ("COUNTERSIGN_SEAL_KEY_FILE", "/secret/seal"),
    ("COUNTERSIGN_WHATEVER_COMES", "secret"),
    ("CRM_TOKEN", "secret-crm"),
    ("AWS_SECRET_ACCESS_KEY", "secret-aws"),
    ("EXTRA", "extra"),
    ("LC_TIME", "C"),
];

fn command_with_environment(place: &TestFolder, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    let store = place.path().join("countersign.db").display().to_string();
    command.env("COUNTERSIGN_STORE", store).envs(SET);
    command
}

#[track_caller]
fn check_environment(place: &TestFolder, file: &str, with: &[&str]) {
    let mut seen = String::new();
    until("the server has started", || {
        seen = std::fs::read_to_string(place.path().join(file)).unwrap_or_default();
        seen.contains("\nPATH=") || seen.starts_with("PATH=")
    });
    let names: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    for name in ["PATH", "HOME", "LC_TIME", "USER"].iter().chain(with) {
        assert!(names.contains(name), "{name} is missing in {file}: {names:?}");
    }
    let hidden = SET
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| *name != "LC_TIME" && !with.contains(name));
    for name in hidden.chain(["COUNTERSIGN_STORE", "COUNTERSIGN_TOKEN"]) {
        assert!(!names.contains(&name), "{name} was seen in {file}");
    }
}

#[test]
fn x78_a_server_sees_only_what_it_needs() {
    let place = place();
    let server = telling(&place, "one");
    let mut client = Client::spawn(command_with_environment(
        &place,
        &["mcp", "--name", "peer", "--", &server],
    ));
    client.greet(json!({}));
    check_environment(&place, "one", &[]);
    drop(client);
    let server = telling(&place, "named");
    let arguments = ["mcp", "--name", "peer", "--pass-env", "EXTRA", "--", &server];
    let mut client = Client::spawn(command_with_environment(&place, &arguments));
    client.greet(json!({}));
    check_environment(&place, "named", &["EXTRA"]);
    drop(client);
    // Countersign's own variables cannot be passed on.
    for name in ["COUNTERSIGN_TOKEN", "COUNTERSIGN_STORE", "A=1", ""] {
        let left = place.run(&["mcp", "--pass-env", name, "--", &server]);
        assert_eq!(left.code, 2, "{name}: {left:?}");
    }
    // `policy init` also starts the server.
    let server = telling(&place, "init");
    let made = command_with_environment(&place, &["policy", "init", "--name", "peer", "--", &server])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    check_environment(&place, "init", &[]);
    // Each HTTP session also starts a server.
    let server = telling(&place, "http");
    let listen = [
        "mcp",
        "--name",
        "peer",
        "--listen",
        "127.0.0.1:0",
        "--no-token",
        "--",
        &server,
    ];
    let gateway = Running::start(command_with_environment(&place, &listen));
    greet(&gateway.address, &[]);
    check_environment(&place, "http", &[]);
}

#[test]
fn x78_of_several_servers_none_sees_the_token_of_another() {
    let place = place();
    let (one, other) = (telling(&place, "first"), telling(&place, "second"));
    let text = format!(
        "[servers.first]\ncommand = [\"{one}\"]\nenv = {{ OWN = \"1\" }}\n\
         [servers.second]\ncommand = [\"{other}\"]\npass_env = [\"EXTRA\"]\n\
         [servers.crm]\nurl = \"http://127.0.0.1:9/mcp\"\ntoken_env = \"CRM_TOKEN\"\n"
    );
    place.write("servers.toml", text);
    let mut client = Client::spawn(command_with_environment(
        &place,
        &["mcp", "--servers", "servers.toml"],
    ));
    client.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}));
    check_environment(&place, "first", &["OWN"]);
    check_environment(&place, "second", &["EXTRA"]);
}

#[test]
fn x78_a_tool_that_is_a_command_sees_only_what_it_needs() {
    let place = TestFolder::new();
    place.script("tool", "env > tool-env; cat");
    let id = place.contact();
    place.good(&["approve", &id]);
    let tool = place.path().join("tool").display().to_string();
    let wait = ["wait", &id, "--pass-env", "EXTRA", "--exec", &tool];
    let mut command = command_with_environment(&place, &wait);
    command.env_remove("COUNTERSIGN_SEAL_KEY_FILE");
    let left = command.output().unwrap();
    assert!(left.status.success(), "{left:?}");
    check_environment(
        &place,
        "tool-env",
        &["EXTRA", "COUNTERSIGN_TOOL", "COUNTERSIGN_CALL_ID"],
    );
}

#[test]
fn x78_a_server_that_ends_at_once_is_not_left_unexplained() {
    let place = place();
    place.script(
        "server",
        "[ -n \"$EXTRA\" ] || { echo no EXTRA >&2; exit 3; }\nexec python3 journal",
    );
    let server = place.path().join("server").display().to_string();
    let client = Client::spawn(command_with_environment(
        &place,
        &["mcp", "--name", "peer", "--", &server],
    ));
    let (code, stderr) = client.ended();
    assert_eq!(code, 3);
    assert!(stderr.contains("--pass-env"), "{stderr}");
    let made = command_with_environment(&place, &["policy", "init", "--", &server])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&made.stderr).contains("--pass-env"),
        "{made:?}"
    );
}

/// Writes a server with two child processes, one of which ignores SIGTERM. All three have `mark` on their command line.
fn with_grandchildren(place: &TestFolder, mark: &str) -> String {
    let stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)";
    let script = format!(
        "python3 -c '{stubborn}' {mark} &\n(exec -a {mark} sleep 600) 2>/dev/null &\nexec python3 {PEER} journal {mark}"
    );
    place.write("server", format!("#!/bin/bash\n{script}\n"));
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.path().join("server");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Finds the processes with this word on their command line.
fn marked(mark: &str) -> Vec<std::path::PathBuf> {
    let is_marked = |folder: &std::path::PathBuf| {
        let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path()).filter(is_marked).collect()
}

fn alive(mark: &str) -> usize {
    marked(mark).len()
}

/// Returns the resident memory of the processes with this word on their command line, in megabytes.
fn memory(mark: &str) -> u64 {
    let pages = |folder: &std::path::PathBuf| {
        let sizes = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
        sizes
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok())
            .unwrap_or(0)
    };
    marked(mark).iter().map(pages).sum::<u64>() * 4096 / 1_000_000
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(
        Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn x80_nothing_is_left_however_the_gateway_ends() {
    for (how, mark) in [
        ("close", "mark-close"),
        ("-TERM", "mark-term"),
        ("-KILL", "mark-kill"),
    ] {
        let mark = format!("{mark}-{}", std::process::id());
        let place = place();
        let server = with_grandchildren(&place, &mark);
        let mut client = Client::start(&place, &["--name", "peer"], &[&server]);
        client.greet(json!({}));
        until("all have started", || alive(&mark) == 3);
        match how {
            "-KILL" => client.kill(),
            "close" => drop(client.close()),
            how => {
                signal(client.child.id(), how);
                client.ended();
            }
        }
        if how == "-KILL" {
            until("the watcher has ended them", || alive(&mark) == 0);
        }
        assert_eq!(alive(&mark), 0, "{how}");
    }
}

#[test]
fn x80_a_server_that_dies_takes_what_it_started_with_it() {
    let mark = format!("mark-dies-{}", std::process::id());
    let place = place();
    let server = with_grandchildren(&place, &mark);
    let mut client = Client::start(&place, &["--name", "peer"], &[&server]);
    client.greet(json!({}));
    let call = client.begin("crash", json!({}));
    let id = crate::client::pending(&place);
    place.good(&["approve", &id]);
    let told = client.answer(call);
    assert!(text(&told).contains("\"unknown\""), "{told}");
    until("nothing is left", || alive(&mark) == 0);
}

fn listening(place: &TestFolder, options: &[&str], server: &str) -> Running {
    let mut all = vec!["--no-token"];
    all.extend_from_slice(options);
    all.extend_from_slice(&["--", server]);
    Running::gateway(place, &all)
}

#[test]
fn x80_abandoned_sessions_end_and_so_do_their_processes() {
    let mark = format!("mark-idle-{}", std::process::id());
    let place = place();
    let server = with_grandchildren(&place, &mark);
    let gateway = listening(&place, &["--session-idle", "3s", "--hold", "100ms"], &server);
    // One session waits for a person, for longer than any time limit.
    let waits = greet(&gateway.address, &[]);
    let kept = [("mcp-session-id", waits.as_str())];
    let id = approval(&call(&gateway.address, &kept, "write", json!({"line": "x"})));
    let sessions: Vec<String> = (0..30).map(|_| greet(&gateway.address, &[])).collect();
    println!("{} processes of ours, {} MB", alive(&mark), memory(&mark));
    until("abandoned sessions have ended", || alive(&mark) == 3);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(alive(&mark), 3, "the one that waits is still there");
    println!("{} processes of ours, {} MB", alive(&mark), memory(&mark));
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 1);
    until("that session has ended as well", || alive(&mark) == 0);
    // A request in an ended session gets 404, as the protocol specifies, and a new session can start.
    let gone = [("mcp-session-id", sessions[1].as_str())];
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    assert_eq!(post(&gateway.address, &gone, &list).status, 404);
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    assert_eq!(text(&call(&gateway.address, &with, "read", json!({}))), "read {}");
    // A session in use does not become idle.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        assert_eq!(text(&call(&gateway.address, &with, "read", json!({}))), "read {}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn x80_ending_a_gateway_over_http_ends_all_sessions() {
    let mark = format!("mark-http-{}", std::process::id());
    let place = place();
    let server = with_grandchildren(&place, &mark);
    let gateway = listening(&place, &[], &server);
    for _ in 0..5 {
        greet(&gateway.address, &[]);
    }
    until("all have started", || alive(&mark) == 15);
    signal(gateway.child.id(), "-TERM");
    let mut gateway = gateway;
    let give_up = Instant::now() + LONG;
    while gateway.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < give_up, "the gateway does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(alive(&mark), 0);
}

#[test]
fn x80_a_session_whose_server_died_is_begun_again_with_a_back_off() {
    let place = place();
    let gateway = Running::gateway(&place, &["--no-token", "--", "python3", PEER, "journal"]);
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    let crash = json!({"name": "crash", "arguments": {}});
    place.write("countersign.toml", "");
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": crash});
    let id = {
        let gateway = gateway.address.clone();
        let session = session.clone();
        let waits = std::thread::spawn(move || post(&gateway, &[("mcp-session-id", &session)], &message));
        let id = crate::client::pending(&place);
        place.good(&["approve", &id]);
        let told = waits.join().unwrap().answer();
        assert!(text(&told).contains("\"unknown\""), "{told}");
        id
    };
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    until("the session is gone", || {
        post(&gateway.address, &with, &list).status == 404
    });
    let mut session = None;
    let info = json!({"name": "http", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    until("another one begins", || {
        let came = post(&gateway.address, &[], &hello);
        assert!(matches!(came.status, 200 | 503), "{}", came.body);
        session = came.session;
        came.status == 200
    });
    // The call during which the server died does not run again.
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "unknown");
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn x80_a_card_of_a_dead_server_is_withdrawn_at_once() {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.\"peer/crash\"]\neffect = \"read\"\n[tools.\"peer/write\"]\neffect = \"write\"\n",
    );
    // With leases this long, nobody looks for calls of dead servers while the test runs.
    let mut client = Client::peer(&place, &["--lease", "10m"]);
    let held = client.begin("write", json!({"line": "x"}));
    let id = crate::client::pending(&place);
    client.call("crash", json!({}));
    let answer = client.answer(held);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(place.json(&["show", &id])["status"], "withdrawn");
    let shown = place.good(&["show", &id, "--events"]);
    let shown: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("the server process"), "{shown}");
    assert_ne!(place.run(&["approve", &id]).code, 0);
    assert!(journal(&place).iter().all(|line| !line.contains("line")));
}

#[test]
fn x80_a_dead_server_is_started_again_for_new_calls_and_never_for_the_one_it_died_in() {
    let place = TestFolder::without_policy();
    let policy = |tool: &str, effect: &str| format!("[tools.\"peer/{tool}\"]\neffect = \"{effect}\"\n");
    let passing: String = ["read", "slow", "crash"]
        .map(|tool| policy(tool, "read"))
        .concat();
    place.write("countersign.toml", passing + &policy("write", "write"));
    let mut client = Client::peer(&place, &[]);
    let held = client.begin("write", json!({"line": "x"}));
    let id = crate::client::pending(&place);
    // Both calls that were open when the server died get an error.
    let (slow, crash) = (client.begin("slow", json!({})), client.begin("crash", json!({})));
    for call in [slow, crash] {
        let answer = client.answer(call);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("ended before it answered"),
            "{answer}"
        );
    }
    // The first call after the restart gets an error that tells the model about it; later calls work.
    let answer = client.call("read", json!({}));
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("started again"),
        "{answer}"
    );
    assert_eq!(text(&client.call("read", json!({"n": 1}))), "read {\"n\": 1}");
    assert_eq!(
        client.request("tools/list", json!({}))["result"]["tools"]
            .as_array()
            .unwrap()
            .len(),
        9
    );
    // A call that was proposed to the dead process does not run in the new one.
    place.run(&["approve", &id]);
    let told = client.answer(held);
    assert_eq!(told["result"]["isError"], true, "{told}");
    let again = client.begin("write", json!({"line": "x"}));
    place.good(&["approve", &crate::client::pending(&place)]);
    assert_eq!(text(&client.answer(again)), "write {\"line\": \"x\"}");
    // A server that keeps crashing is not restarted every time.
    for _ in 0..2 {
        client.call("crash", json!({}));
        client.call("read", json!({}));
    }
    let answer = client.call("read", json!({}));
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("keeps ending"),
        "{answer}"
    );
    let ran: Vec<String> = journal(&place)
        .into_iter()
        .filter(|line| line.contains("line"))
        .collect();
    assert_eq!(ran.len(), 1);
    until("it is started again", || {
        client.call("read", json!({})).get("error").is_none()
    });
    let (code, stderr) = client.close();
    assert_eq!(code, 7, "{stderr}");
}
