//! Ten thousand hostile frames through the gateway to real servers, and from a hostile server to a client: nothing runs
//! without approval, and valid messages are still answered.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign::json::{Limits, check_message};
use serde_json::{Value, json};

use crate::client::{Client, LONG};
use crate::frames::{post_bytes, post_for};
use crate::generator::{Frames, LINE_ENDS};
use crate::http::{Running, greet};
use crate::peers::{node, package, peers};
use crate::test_folder::TestFolder;

/// Number of frames sent to each of nine servers.
const EACH: usize = 1300;
/// Timeout for a response over HTTP.
const SOON: Duration = Duration::from_millis(300);

fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

fn call(tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    format!(r#"{{"jsonrpc":"2.0","id":"hidden","method":"tools/call","params":{params}}}"#)
}

/// Returns every tool call in this text, with any of the line endings as a separator.
fn calls_in(text: &str) -> Vec<String> {
    let mut pieces = vec![text];
    for end in LINE_ENDS {
        pieces = pieces.into_iter().flat_map(|piece| piece.split(end)).collect();
    }
    let is_call = |piece: &&str| {
        let read = serde_json::from_str::<Value>(piece).unwrap_or_default();
        let all = read.as_array().cloned().unwrap_or_else(|| vec![read]);
        all.iter().any(|message| message["method"] == "tools/call")
    };
    pieces.into_iter().filter(is_call).map(str::to_owned).collect()
}

/// Sends frames to a server over standard input, and records everything that reaches the server.
fn flood(place: &TestFolder, server: &[String], tool: &str, arguments: &Value, seed: u64) {
    let recorded = "tee recorded | exec \"$@\"";
    let mut command = vec!["sh", "-c", recorded, "sh"];
    command.extend(server.iter().map(String::as_str));
    let mut client = Client::start(place, &["--name", "s", "--hold", "10ms"], &command);
    client.greet(json!({}));
    let mut frames = Frames::new(numbers(seed));
    let call = call(tool, arguments);
    for _ in 0..EACH / 100 {
        for _ in 0..100 {
            // Remove line feeds: on standard input they end a message, so the rest would be a separate, valid message.
            let frame: Vec<u8> = frames
                .frame(&call)
                .into_iter()
                .filter(|byte| *byte != b'\n')
                .collect();
            client.send_bytes(&frame);
        }
        settle(&mut client, tool);
    }
    drop(client);
    let text = String::from_utf8_lossy(&std::fs::read(place.path().join("recorded")).unwrap()).into_owned();
    assert!(text.contains("tools/list"), "{text}");
    assert_eq!(calls_in(&text), [""; 0]);
    // A valid call among the frames is held for a person.
}

/// Requests the tool list and waits for it. The answer proves that all earlier frames were read and that the session
/// still works.
fn settle(client: &mut Client, tool: &str) {
    let id = client.ask("tools/list", json!({}));
    let give_up = Instant::now() + 2 * LONG;
    while let Some(line) = client.line(give_up) {
        check_message(
            line.as_bytes(),
            Limits {
                bytes: 1 << 24,
                ..Limits::default()
            },
        )
        .unwrap_or_else(|bad| panic!("{bad}: {line}"));
        let message: Value = serde_json::from_str(&line).unwrap();
        assert!(message["id"] != "hidden" || is_ours(&message), "{line}");
        if message["id"] == id {
            assert!(line.contains(tool), "{line}");
            return;
        }
    }
    panic!("no answer");
}

/// Returns true if the gateway itself answered: with a refusal, or because the call is held.
fn is_ours(message: &Value) -> bool {
    let text = message.to_string();
    message["error"].is_object() || text.contains("pending_confirmation") || text.contains("nothing was run")
}

fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n",
    );
    place
}

fn run(command: &[&str], folder: &Path) {
    let status = std::process::Command::new(command[0])
        .args(&command[1..])
        .current_dir(folder)
        .output();
    let left = status.unwrap();
    assert!(
        left.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&left.stderr)
    );
}

fn program(folder: &str, name: &str) -> String {
    peers().join(folder).join("bin").join(name).display().to_string()
}

fn check_git(folder: &str, seed: u64) {
    let place = place();
    let repository = place.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    run(&["git", "init", "-q", "."], &repository);
    run(
        &[
            "git",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
        &repository,
    );
    let at = repository.canonicalize().unwrap().display().to_string();
    let server = [
        program(folder, "mcp-server-git"),
        "--repository".to_owned(),
        at.clone(),
    ];
    let arguments = json!({"repo_path": at, "branch_name": "hidden"});
    flood(&place, &server, "git_create_branch", &arguments, seed);
    assert!(!repository.join(".git/refs/heads/hidden").exists());
}

#[test]
fn x73_hostile_frames_to_mcp_server_git() {
    check_git("python-legacy", 0x1111_2222_3333_4441);
    check_git("python-servers", 0x1111_2222_3333_4443);
}

fn check_sqlite(server: impl Fn(&TestFolder, String) -> Vec<String>, seed: u64) {
    let place = place();
    let at = place.path().join("rows.db");
    let server = server(&place, at.display().to_string());
    let arguments = json!({"query": "CREATE TABLE hidden (x TEXT)"});
    flood(&place, &server, "create_table", &arguments, seed);
    let kept = std::fs::read(&at).unwrap_or_default();
    assert!(memchr_find(&kept, b"hidden").is_none());
}

fn memchr_find(whole: &[u8], part: &[u8]) -> Option<usize> {
    whole.windows(part.len()).position(|window| window == part)
}

#[test]
fn x73_hostile_frames_to_mcp_server_sqlite() {
    let server = |_: &TestFolder, at: String| {
        let program = program("python-legacy", "mcp-server-sqlite");
        vec![program, "--db-path".to_owned(), at]
    };
    check_sqlite(server, 0x2111_2222_3333_4441);
}

/// The newest release of the SQLite server does not start on version 2 of the SDK, whose low-level `Server` has no
/// decorators (`AttributeError: 'Server' object has no attribute 'list_resources'`). So the SDK's own server offers its
/// tool here.
#[test]
fn x73_hostile_frames_to_a_sqlite_server_on_the_second_sdk() {
    let server = |place: &TestFolder, at: String| {
        place.write(
            "server.py",
            "import sqlite3, sys\nfrom mcp.server import MCPServer\nserver = MCPServer('s')\n\n@server.tool()\n\
             def create_table(query: str) -> str:\n    with sqlite3.connect(sys.argv[1]) as rows:\n        rows.execute(query)\n    \
             return 'made'\n\nserver.run()\n",
        );
        let script = place.path().join("server.py").display().to_string();
        vec![program("python-servers", "python"), script, at]
    };
    check_sqlite(server, 0x2111_2222_3333_4443);
}

#[test]
fn x73_hostile_frames_to_fastmcp() {
    let place = place();
    place.write(
        "server.py",
        "from fastmcp import FastMCP\nserver = FastMCP('s')\n\n@server.tool\ndef write(path: str) -> str:\n    \
         open(path, 'w').close()\n    return 'written'\n\nserver.run(show_banner=False)\n",
    );
    let at = place.path().join("hidden");
    let script = place.path().join("server.py").display().to_string();
    let server = [program("python-servers", "python"), script];
    flood(
        &place,
        &server,
        "write",
        &json!({"path": at.display().to_string()}),
        0x3111_2222_3333_4441,
    );
    assert!(!at.exists());
}

#[test]
fn x73_hostile_frames_to_the_filesystem_server() {
    let place = place();
    let server = crate::peers::filesystem(&place);
    let at = format!("{}/hidden", server[2]);
    let arguments = json!({"path": at, "content": "x"});
    flood(&place, &server, "write_file", &arguments, 0x4111_2222_3333_4441);
    assert!(!Path::new(&at).exists());
}

#[test]
fn x73_hostile_frames_to_the_everything_server() {
    let place = place();
    let server = [
        node(),
        package("server-everything/dist/index.js"),
        "stdio".to_owned(),
    ];
    flood(
        &place,
        &server,
        "echo",
        &json!({"message": "hidden"}),
        0x5111_2222_3333_4441,
    );
}

#[test]
fn x73_hostile_frames_to_a_server_that_splits_at_everything() {
    for (mode, seed) in [
        ("text", 0x6111_2222_3333_4441),
        ("splitlines", 0x6111_2222_3333_4443),
    ] {
        let place = place();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/splitter.py").to_owned();
        let server = [
            "python3".to_owned(),
            script,
            "journal".to_owned(),
            mode.to_owned(),
        ];
        flood(&place, &server, "write", &json!({"line": "hidden"}), seed);
        let journal = std::fs::read_to_string(place.path().join("journal")).unwrap();
        assert_eq!(journal, "", "{mode}");
    }
}

#[test]
fn x73_x74_hostile_frames_over_http_to_a_command() {
    let place = place();
    let mut command = crate::peers::filesystem(&place).to_vec();
    let at = format!("{}/hidden", command[2]);
    let mut options = vec![
        "--no-token".to_owned(),
        "--hold".to_owned(),
        "10ms".to_owned(),
        "--".to_owned(),
    ];
    options.append(&mut command);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let gateway = Running::gateway(&place, &options);
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    let call = call("write_file", &json!({"path": at, "content": "x"}));
    let mut frames = Frames::new(numbers(0x7111_2222_3333_4441));
    for _ in 0..300 {
        let frame = frames.frame(&call);
        // Servers do not answer some frames, such as those with an unknown member.
        let Some(came) = post_for(&gateway.address, &with, &frame, SOON) else {
            continue;
        };
        assert!(
            !came.body.contains("Successfully"),
            "{:?}: {}",
            String::from_utf8_lossy(&frame),
            came.body
        );
    }
    assert!(!Path::new(&at).exists());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let came = post_bytes(
        &gateway.address,
        &with,
        serde_json::to_string_pretty(&list).unwrap().as_bytes(),
    );
    assert!(came.body.contains("write_file"), "{}", came.body);
}

#[test]
fn x76_hostile_frames_from_a_server() {
    let place = place();
    let mut frames = Frames::new(numbers(0x8111_2222_3333_4441));
    let asks =
        r#"{"jsonrpc":"2.0","id":"countersign:ask:1","method":"tools/call","params":{"message":"cats"}}"#;
    let mut file = std::fs::File::create(place.path().join("frames")).unwrap();
    for _ in 0..2000 {
        file.write_all(&frames.frame(asks)).unwrap();
        file.write_all(b"\n").unwrap();
    }
    drop(file);
    // Frames may guess the id of the first request and answer it, so wait for the second one.
    let last = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let server = format!("read line; read line; cat frames; echo '{last}'; cat >/dev/null");
    let mut client = Client::start(&place, &["--name", "s"], &["sh", "-c", &server]);
    client.ask("ping", json!({}));
    let id = client.ask("ping", json!({}));
    let give_up = Instant::now() + LONG;
    let mut heard = 0;
    loop {
        let line = client.line(give_up).unwrap();
        check_message(line.as_bytes(), Limits::default()).unwrap_or_else(|bad| panic!("{bad}: {line}"));
        assert!(LINE_ENDS.iter().all(|end| !line.contains(end)), "{line:?}");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_ne!(message["id"], "countersign:ask:1", "{line}");
        assert!(
            message["method"] != "tools/call" || message["id"].is_null(),
            "{line}"
        );
        heard += 1;
        if message["id"] == id {
            break;
        }
    }
    assert!(heard > 20, "{heard}");
    assert!(client.is_quiet(Duration::from_millis(50)));
}
