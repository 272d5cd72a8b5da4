//! An MCP client that sends and receives raw lines, and starts the gateway.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::test_folder::TestFolder;

/// Timeout for anything in these tests.
pub const LONG: Duration = Duration::from_secs(30);

/// A running gateway, seen from its client.
pub struct Client {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Thread that reads standard error all the time, because a full pipe would block the gateway.
    stderr: Option<std::thread::JoinHandle<String>>,
    next: u64,
    pub seen: Vec<Value>,
}

impl Client {
    /// Starts `countersign mcp` with these options in front of `server`.
    pub fn start(place: &TestFolder, options: &[&str], server: &[&str]) -> Client {
        let mut arguments = vec!["mcp"];
        arguments.extend_from_slice(options);
        arguments.push("--");
        arguments.extend_from_slice(server);
        Client::spawn(place.command(&arguments))
    }

    /// Starts the gateway in front of `peer.py`, the small test server, and initialises the session.
    pub fn peer(place: &TestFolder, options: &[&str]) -> Client {
        let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
        let mut all = vec!["--name", "peer"];
        all.extend_from_slice(options);
        let mut client = Client::start(place, &all, &["python3", peer, "journal"]);
        client.greet(json!({}));
        client
    }

    pub fn spawn(mut command: Command) -> Client {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Client {
            stderr: Some(stderr),
            stdin: child.stdin.take(),
            child,
            lines,
            next: 1,
            seen: Vec::new(),
        }
    }

    pub fn greet(&mut self, capabilities: Value) -> Value {
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let answer = self.request("initialize", params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        answer["result"].clone()
    }

    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends exactly these bytes and a line feed.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(&[bytes, b"\n"].concat()).unwrap();
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Sends a tool call with the arguments as raw JSON text, and returns its id.
    pub fn begin_raw(&mut self, tool: &str, arguments: &str) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        ));
        id
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns the response.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a tool call and returns its id, without waiting for the response.
    pub fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Waits for the response to a request. Other messages that arrive first are kept in `seen`.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        if let Some(place) = self.seen.iter().position(|message| message["id"] == id) {
            return self.seen.remove(place);
        }
        let give_up = Instant::now() + LONG;
        loop {
            let message = self
                .message(give_up)
                .unwrap_or_else(|| panic!("no answer to {id}"));
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Waits for the next message with this method. Other messages are kept in `seen`.
    #[track_caller]
    pub fn hear(&mut self, method: &str) -> Value {
        if let Some(place) = self.seen.iter().position(|message| message["method"] == method) {
            return self.seen.remove(place);
        }
        let give_up = Instant::now() + LONG;
        loop {
            let message = self.message(give_up).unwrap_or_else(|| panic!("no `{method}`"));
            if message["method"] == method {
                return message;
            }
            self.seen.push(message);
        }
    }

    fn message(&mut self, give_up: Instant) -> Option<Value> {
        let line = self.line(give_up)?;
        Some(serde_json::from_str(&line).unwrap())
    }

    pub fn line(&mut self, give_up: Instant) -> Option<String> {
        let left = give_up.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left).ok()
    }

    /// Returns true if no message arrives within `during`.
    pub fn is_quiet(&mut self, during: Duration) -> bool {
        match self.message(Instant::now() + during) {
            Some(message) => {
                self.seen.push(message);
                false
            }
            None => true,
        }
    }

    /// Closes standard input and waits for the gateway to exit; returns the exit code and standard error.
    pub fn close(mut self) -> (i32, String) {
        drop(self.stdin.take());
        self.ended()
    }

    /// Waits for the gateway to exit; returns the exit code and standard error.
    pub fn ended(mut self) -> (i32, String) {
        let give_up = Instant::now() + LONG;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < give_up, "the gateway does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let stderr = self.stderr.take().unwrap().join().unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), stderr)
    }

    /// Kills the gateway with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text of a tool result.
#[track_caller]
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

/// Returns the approval id from a pending answer.
#[track_caller]
pub fn approval(answer: &Value) -> String {
    let told = &answer["result"]["_meta"]["countersign/call"];
    assert_eq!(told["status"], "pending_confirmation", "{answer}");
    told["approval"].as_str().unwrap().to_owned()
}

/// Checks that an answer tells the model that its call was not sent and nothing ran.
#[track_caller]
pub fn assert_not_sent(answer: &Value) {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let told: Value = serde_json::from_str(text(answer)).unwrap_or_else(|_| panic!("{answer}"));
    assert_eq!(told["status"], "not_sent", "{answer}");
    assert_eq!(told["ran"], false, "{answer}");
    assert!(
        told["message"].as_str().unwrap().contains("nothing ran"),
        "{answer}"
    );
}

/// Returns the raw arguments of each call that the server received.
pub fn journal(place: &TestFolder) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("journal")).unwrap_or_default();
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: &'a serde_json::value::RawValue,
    }
    let arguments = |line| {
        serde_json::from_str::<Line<'_>>(line)
            .unwrap()
            .params
            .arguments
            .get()
            .to_owned()
    };
    text.lines().map(arguments).collect()
}

/// Waits until a condition holds; panics after `LONG`.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < give_up, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until exactly one approval is pending, and returns its id.
#[track_caller]
pub fn pending(place: &TestFolder) -> String {
    let mut found = None;
    until("one pending approval", || {
        let listed = place.json(&["list"]);
        let ids: Vec<_> = listed["approvals"].as_array().unwrap().to_vec();
        found = ids
            .first()
            .and_then(|approval| approval["id"].as_str())
            .map(str::to_owned);
        ids.len() == 1
    });
    found.unwrap()
}
