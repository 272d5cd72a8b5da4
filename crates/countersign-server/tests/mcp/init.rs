//! `policy init`: a first policy for a server's tools, and what happens when the server changes them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, approval, text};
use crate::test_folder::{Left, TestFolder};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

#[test]
fn x30_a_pinned_tool_that_changed_is_held_with_a_warning() {
    let place = TestFolder::without_policy();
    place.good(&[
        "policy",
        "init",
        "--name",
        "peer",
        "--output",
        "countersign.toml",
        "--",
        "python3",
        PEER,
        "journal",
    ]);
    let file = place.path().join("countersign.toml");
    let text_of = |file| std::fs::read_to_string(file).unwrap();
    let written = text_of(&file);
    assert_eq!(written.matches("definition = \"").count(), 8, "{written}");
    assert_eq!(
        written.matches("\neffect = \"destructive\"").count(),
        8,
        "all are held: {written}"
    );
    // An existing policy is not overwritten.
    let left = place.run(&[
        "policy",
        "init",
        "--output",
        "countersign.toml",
        "--",
        "python3",
        PEER,
        "journal",
    ]);
    assert!(left.code == 1 && left.stderr.contains("cannot write"), "{left:?}");
    assert_eq!(text_of(&file), written);

    // A person edits the policy and lets some tools pass.
    let change = |tool: &str, text: String| {
        let head = format!("[tools.\"peer/{tool}\"]\neffect = \"destructive\"");
        assert!(text.contains(&head), "{text}");
        text.replace(&head, &format!("[tools.\"peer/{tool}\"]\neffect = \"read\""))
    };
    place.write(
        "countersign.toml",
        change("grow", change("write", change("sneak", written))),
    );
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    assert_eq!(text(&client.call("write", json!({}))), "write {}");
    client.call("grow", json!({}));
    let id = approval(&client.call("write", json!({})));
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("definition changed") && card.contains("destructive"),
        "{card}"
    );
}

#[test]
fn a_server_that_lists_nothing_is_an_error() {
    let place = TestFolder::without_policy();
    for (command, message) in [
        ("exit 3", "ended before it answered"),
        ("echo nonsense; cat >/dev/null & sleep 1; kill $!", "ended"),
    ] {
        let left = place.run(&["policy", "init", "--", "sh", "-c", command]);
        assert_eq!(left.code, 1, "{left:?}");
        assert!(
            left.stderr.contains(message) && left.stderr.contains("hint: "),
            "{left:?}"
        );
        assert_eq!(left.stdout, "");
    }
}

/// Runs `policy init` for a server script; returns its output, the duration and its peak memory in MB.
fn init(place: &TestFolder, options: &[&str], script: &str) -> (Left, Duration, u64) {
    place.write("server.py", script);
    let mut arguments = vec!["policy", "init", "--name", "peer"];
    arguments.extend_from_slice(options);
    arguments.extend_from_slice(&["--", "sh", "-c", "python3 server.py; true"]);
    let began = Instant::now();
    let (left, memory) = watched(place.command(&arguments));
    (left, began.elapsed(), memory)
}

/// Time after which a command that has not ended is killed, so that a missing limit fails a test soon.
const ENDS_WITHIN: Duration = Duration::from_secs(45);

/// Runs a command, for at most `ENDS_WITHIN`; returns its output and its peak memory in MB.
#[track_caller]
fn watched(mut command: std::process::Command) -> (Left, u64) {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let status = format!("/proc/{id}/status");
    let began = Instant::now();
    let watched = std::thread::spawn(move || {
        let mut most = 0;
        while let Ok(text) = std::fs::read_to_string(&status) {
            let Some(line) = text.lines().find_map(|line| line.strip_prefix("VmHWM:")) else {
                break;
            };
            most = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1000;
            if began.elapsed() > ENDS_WITHIN {
                // Not yet waited for, so the id is still that of the command.
                let _ = std::process::Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status();
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    });
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.code().is_some(),
        "it did not end within {ENDS_WITHIN:?}"
    );
    (Left::of(output), watched.join().unwrap())
}

/// Returns a Python server that handles each request with the code in `answer`, which can use `message` and `send`.
fn script(mark: &str, answer: &str) -> String {
    format!(
        "import json, sys, time  # {mark}\n\
         def send(message):\n    sys.stdout.write(json.dumps(message) + '\\n'); sys.stdout.flush()\n\
         for line in sys.stdin:\n    message = json.loads(line)\n{answer}"
    )
}

fn is_running(place: &TestFolder) -> bool {
    let folder = place.path().canonicalize().unwrap();
    let runs_there = |entry: std::fs::DirEntry| {
        let at = std::fs::read_link(entry.path().join("cwd"));
        at.is_ok_and(|at| at == folder)
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(runs_there)
}

#[test]
fn x102_a_silent_server_is_given_up_soon_and_ended_with_all_it_started() {
    let place = TestFolder::without_policy();
    // Ignores the end of its input too.
    let silent = "import time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n";
    let (left, took, _) = init(&place, &["--timeout", "6s"], silent);
    assert_eq!(left.code, 1, "{left:?}");
    for part in [
        "within 6s",
        "--timeout",
        "waiting for `peer` to list its tools (5s of 6s)",
    ] {
        assert!(left.stderr.contains(part), "`{part}` is missing: {left:?}");
    }
    assert!(took < ENDS_WITHIN, "{took:?}");
    assert!(
        !is_running(&place),
        "the server is left, though it was started through `sh`"
    );
}

#[test]
fn x102_a_server_that_floods_is_given_up_with_little_memory() {
    let place = TestFolder::without_policy();
    let line = "import sys\nwhile True: sys.stdout.write('x' * 65536)\n";
    let lines = "import sys\nwhile True: sys.stdout.write('{\"method\":\"notifications/x\"}\\n' * 1000)\n";
    let tools = "    if message.get('method') == 'tools/list':\n\
                 \x20       tools = [{'name': 'a%d' % n, 'description': 'x' * 1000000, 'inputSchema': {}} for n in range(4)]\n\
                 \x20       send({'id': message['id'], 'result': {'tools': tools, 'nextCursor': 'again'}})\n\
                 \x20   elif 'id' in message: send({'id': message['id'], 'result': {}})\n";
    for server in [line.to_owned(), lines.to_owned(), script("pages", tools)] {
        let (left, took, memory) = init(&place, &[], &server);
        println!("{took:?}, {memory} MB: {}", left.stderr);
        assert_eq!(left.code, 1, "{left:?}");
        assert!(left.stderr.contains("sent more than 8388608 bytes"), "{left:?}");
        assert!(took < ENDS_WITHIN, "{took:?}");
        assert!(memory < 150, "{memory} MB");
        assert!(!is_running(&place));
    }
}

/// Starts an HTTP server that answers a request for its tools with the code in `answer`, which writes to `out`.
fn at_address(place: &TestFolder, kind: &str, answer: &str) -> crate::http::Running {
    place.write(
        "server.py",
        format!(
            "KIND = {kind:?}\nimport json, time\nfrom http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n\
             class Handler(BaseHTTPRequestHandler):\n    def log_message(self, *_): pass\n    def do_GET(self): self.send_error(405)\n\
             \x20   def do_POST(self):\n        message = json.loads(self.rfile.read(int(self.headers['content-length'])))\n\
             \x20       self.send_response(200); self.send_header('content-type', KIND); self.end_headers()\n\
             \x20       out = self.wfile\n        said = lambda result: json.dumps({{'jsonrpc': '2.0', 'id': message.get('id'), 'result': result}}).encode()\n\
             \x20       wrap = lambda raw: b'data: ' + raw + b'\\n\\n' if KIND == 'text/event-stream' else raw\n\
             \x20       if message.get('method') != 'tools/list': out.write(wrap(said({{}})) if 'id' in message else b''); return\n{answer}\
             server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)\nprint(f'http://127.0.0.1:{{server.server_port}}/mcp', flush=True)\nserver.serve_forever()\n"
        ),
    );
    let mut command = std::process::Command::new("python3");
    command.arg("server.py").current_dir(place.path());
    crate::http::Running::start(command)
}

#[test]
fn x102_a_server_at_an_address_has_the_same_limits() {
    let place = TestFolder::without_policy();
    let one = "        out.write(wrap(said({'tools': [{'name': 'a', 'inputSchema': {}}]})))\n";
    let flood =
        "        try:\n            while True: out.write(b'x' * 65536)\n        except OSError: pass\n";
    let pages = "        tools = [{'name': 'a%d' % n, 'description': 'x' * 1000000, 'inputSchema': {}} for n in range(4)]\n\
                 \x20       out.write(wrap(said({'tools': tools, 'nextCursor': 'again'})))\n";
    let events = "        try:\n            while True: out.write(b'data: {\"method\":\"notifications/x\"}\\n\\n' * 1000)\n        except OSError: pass\n";
    let silent = "        time.sleep(600)\n";
    let (json, stream) = ("application/json", "text/event-stream");
    let more = "sent more than 8388608 bytes";
    for (kind, answer, expected) in [
        (json, one, ""),
        (stream, one, ""),
        (json, flood, more),
        (json, pages, more),
        (stream, flood, more),
        (stream, events, more),
        (stream, pages, more),
        (json, silent, "within 6s"),
        (stream, silent, "waiting for `peer` to list its tools (5s of 6s)"),
    ] {
        let server = at_address(&place, kind, answer);
        let url = format!("http://{}/mcp", server.address);
        let limit = if answer == silent { "6s" } else { "50s" };
        let made = [
            "policy",
            "init",
            "--name",
            "peer",
            "--timeout",
            limit,
            "--url",
            &url,
        ];
        let (left, memory) = watched(place.command(&made));
        assert_eq!(left.code, i32::from(!expected.is_empty()), "{left:?}");
        assert!(left.stderr.contains(expected), "{left:?}");
        assert!(memory < 150, "{memory} MB: {left:?}");
        assert_eq!(
            left.stdout.contains("[tools.\"peer/a\"]"),
            expected.is_empty(),
            "{left:?}"
        );
    }
}

#[test]
fn x102_tools_with_one_name_give_no_policy() {
    let place = TestFolder::without_policy();
    for (names, expected) in [
        ("['write', 'read', 'write']", "two tools `write`"),
        ("['countersign_wait']", "the gateway's own"),
    ] {
        let answer = format!(
            "    if message.get('method') == 'tools/list':\n\
             \x20       send({{'id': message['id'], 'result': {{'tools': [{{'name': n, 'inputSchema': {{}}}} for n in {names}]}}}})\n\
             \x20   elif 'id' in message: send({{'id': message['id'], 'result': {{}}}})\n"
        );
        let (left, ..) = init(&place, &["--output", "made.toml"], &script("twice", &answer));
        assert_eq!(left.code, 1, "{left:?}");
        assert!(
            left.stderr.contains(expected) && left.stderr.contains("hint: "),
            "{left:?}"
        );
        assert!(!place.path().join("made.toml").exists());
    }
}
