//! A client that speaks raw lines, and the gateway it starts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

/// Nothing in these tests takes longer.
pub const LONG: Duration = Duration::from_secs(30);

/// A gateway that was started, from its client's side.
pub struct Client {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
    pub seen: Vec<Value>,
}

impl Client {
    /// Starts `countersign mcp` with these options in front of this server.
    pub fn start(place: &Place, options: &[&str], server: &[&str]) -> Client {
        let mut arguments = vec!["mcp"];
        arguments.extend_from_slice(options);
        arguments.push("--");
        arguments.extend_from_slice(server);
        Client::spawn(place.command(&arguments))
    }

    /// Starts the gateway in front of the small server of these tests.
    pub fn peer(place: &Place, options: &[&str]) -> Client {
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
        Client {
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

    /// Sends a request and gives its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Begins to call a tool with arguments as they are written.
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

    /// Calls a tool and gives the answer.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Begins to call a tool.
    pub fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a request; all else that comes before it is kept.
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

    /// The next message with this method.
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

    /// True when nothing comes for a while.
    pub fn is_quiet(&mut self, during: Duration) -> bool {
        match self.message(Instant::now() + during) {
            Some(message) => {
                self.seen.push(message);
                false
            }
            None => true,
        }
    }

    /// Closes its side and waits for the end; gives the exit code and standard error.
    pub fn close(mut self) -> (i32, String) {
        drop(self.stdin.take());
        self.ended()
    }

    /// Waits for the end.
    pub fn ended(mut self) -> (i32, String) {
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        let give_up = Instant::now() + LONG;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < give_up, "the gateway does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        pipe.read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), stderr)
    }

    /// Ends the gateway without warning.
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

/// The text of a result.
#[track_caller]
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

/// The approval a pending answer names.
#[track_caller]
pub fn approval(answer: &Value) -> String {
    let told = &answer["result"]["_meta"]["countersign/call"];
    assert_eq!(told["status"], "pending_confirmation", "{answer}");
    told["approval"].as_str().unwrap().to_owned()
}

/// The calls a server got: their arguments, as they were written.
pub fn journal(place: &Place) -> Vec<String> {
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

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < give_up, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The one pending approval.
#[track_caller]
pub fn pending(place: &Place) -> String {
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
