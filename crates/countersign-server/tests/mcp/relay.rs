//! Messages other than tool calls pass byte for byte, in both directions.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, LONG, text};
use crate::test_folder::TestFolder;

/// Random number generator with a seed, so that a failure can be reproduced.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    pub fn space(&mut self) -> &'static str {
        self.one_of(&["", "", "", " ", "  ", "\t"])
    }

    fn string(&mut self) -> String {
        let pieces = [
            "a",
            "Z",
            "é",
            "漢",
            "🎉",
            "\\u0061",
            "\\ud83c\\udf89",
            "\\n",
            "\\\"",
            "\\/",
            " ",
        ];
        let count = self.below(8);
        let body: String = (0..count).map(|_| self.one_of(&pieces)).collect();
        format!("\"{body}\"")
    }

    pub fn value(&mut self, depth: u64) -> String {
        let simple = [
            "null",
            "true",
            "1e2",
            "-0",
            "1.0",
            "12345678901234567890123",
            "0.1000000000000000055",
            "1E+400",
            "{}",
            "[]",
        ];
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0..=1 => self.one_of(&simple).to_owned(),
            2..=3 => self.string(),
            4..=5 => {
                let count = self.below(4);
                let items: Vec<String> = (0..count).map(|_| self.value(depth - 1)).collect();
                let space = self.space();
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            }
            _ => {
                let count = self.below(4);
                // No duplicate keys: another test covers those.
                let key = |number: u64, string: String| format!("\"{number}{}", &string[1..]);
                let members: Vec<String> = (0..count)
                    .map(|number| {
                        let key = key(number, self.string());
                        format!("{key}{}:{}", self.space(), self.value(depth - 1))
                    })
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    pub fn object(&mut self, depth: u64) -> String {
        loop {
            let value = self.value(depth);
            if value.starts_with('{') {
                return value;
            }
        }
    }

    /// Generates a message of any kind, with its members in any order and some unknown ones.
    fn frame(&mut self) -> String {
        let notifications = [
            "notifications/progress",
            "notifications/message",
            "notifications/roots/list_changed",
            "notifications/tools/list_changed",
            "notifications/x",
        ];
        let methods = [
            "ping",
            "resources/read",
            "notifications/progress",
            "sampling/createMessage",
            "roots/list",
            "elicitation/create",
            "logging/setLevel",
            "tasks/get",
            "completion/complete",
            "server/discover",
            "x/unknown",
            "prompts/get",
            "tools/callx",
        ];
        let id = match self.below(2) {
            0 => self.below(1 << 40).to_string(),
            _ => self.string(),
        };
        let mut members = vec!["\"jsonrpc\":\"2.0\"".to_owned()];
        let method = format!("\"method\":\"{}\"", self.one_of(&methods));
        let answered = format!("\"id\" : \"answer {}\"", self.below(1 << 40));
        let told = format!("\"method\":\"{}\"", self.one_of(&notifications));
        let params = format!("\"params\"{}:{}", self.space(), self.object(4));
        match self.below(5) {
            0 => members.extend([format!("\"id\":{id}"), method, params]),
            1 => members.extend([format!("\"id\":{id}"), method]),
            2 => members.extend([told, params]),
            // These ids belong to no request, so the answers are not forwarded.
            3 => members.extend([answered, format!("\"result\":{}", self.value(5))]),
            _ => members.extend([answered, format!("\"error\":{}", self.object(3))]),
        }
        if self.below(3) == 0 {
            members.push(format!("\"x-{}\":{}", self.below(100), self.value(3)));
        }
        for place in (1..members.len()).rev() {
            let other = self.below(place as u64 + 1) as usize;
            members.swap(place, other);
        }
        let (before, between) = (self.space(), self.space());
        format!(
            "{before}{{{}}}{}",
            members.join(&format!("{between},{between}")),
            self.space()
        )
    }
}

#[test]
fn ten_thousand_messages_pass_byte_for_byte_both_ways() {
    let place = TestFolder::without_policy();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let frames: Vec<String> = (0..10_000).map(|_| random.frame()).collect();
    // `tee` records its input and sends it back.
    let mut command = place.command(&["mcp", "--name", "echo", "--", "tee", "recorded"]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = format!("{}\n", frames.join("\n"));
    let bytes = sent.clone().into_bytes();
    let writing = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let left = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let recorded = std::fs::read(place.path().join("recorded")).unwrap();
    // Answers without a request are not forwarded.
    let asked = |frame: &&String| frame.contains("\"method\":");
    let frames: Vec<&String> = frames.iter().filter(asked).collect();
    for (name, got) in [("the server", recorded), ("the client", left.stdout)] {
        let got = String::from_utf8(got).unwrap();
        for (frame, line) in frames.iter().zip(got.lines()) {
            assert_eq!(&line, frame, "{name}");
        }
        assert_eq!(got.lines().count(), frames.len(), "{name}");
    }
    assert_eq!(left.status.code(), Some(0));
}

#[test]
fn x23_what_could_be_read_in_two_ways_does_not_reach_the_server() {
    let place = TestFolder::without_policy();
    let mut client = Client::start(&place, &["--name", "echo"], &["tee", "recorded"]);
    let bad = [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","name":"y"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","Arguments":{}}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},}"#,
        "nonsense",
    ];
    for bad in bad {
        client.send(bad);
        let answer = client.line(Instant::now() + LONG).unwrap();
        assert!(answer.contains("\"error\""), "{bad}: {answer}");
    }
    let last = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    client.send(last);
    assert_eq!(client.line(Instant::now() + LONG).unwrap(), last);
    client.close();
    let recorded = std::fs::read_to_string(place.path().join("recorded")).unwrap();
    assert_eq!(recorded, format!("{last}\n"), "nothing else reached it");
}

#[test]
fn complaints_and_the_exit_code_are_the_servers() {
    let place = TestFolder::without_policy();
    let mut client = Client::peer(&place, &[]);
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"read"));
    assert_eq!(
        names.last(),
        Some(&"countersign_wait"),
        "ours stand behind the server's"
    );
    let (code, stderr) = client.close();
    assert_eq!(code, 7);
    assert!(stderr.contains("peer is up"), "{stderr}");
}

#[test]
fn a_server_that_cannot_be_started_is_an_error() {
    let place = TestFolder::without_policy();
    let left = place.run(&["mcp", "--", "./not-there"]);
    assert_eq!(left.code, 1);
    assert!(left.stderr.contains("cannot start `./not-there`"), "{left:?}");
    assert!(left.stderr.contains("hint: "), "{left:?}");
    assert_eq!(left.stdout, "");
}

#[test]
fn x42_a_server_cannot_offer_a_tool_of_ours() {
    let place = TestFolder::without_policy();
    let script =
        r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"countersign_wait"}]}}'; cat"#;
    let mut client = Client::start(&place, &["--name", "bad"], &["sh", "-c", script]);
    let answer = client.request("tools/list", json!({}));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("`countersign_wait`"), "{answer}");
}

#[test]
fn a_large_result_passes_whole() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", "[tools.\"peer/large\"]\neffect = \"read\"\n");
    let mut client = Client::peer(&place, &[]);
    let answer = client.call("large", json!({}));
    assert_eq!(text(&answer).len(), 2 << 20);
    assert!(client.is_quiet(Duration::from_millis(50)));
}

/// Returns the peak memory of a process, in MiB.
fn peak(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_large_result_is_held_at_most_twice() {
    const LARGE: usize = 10 << 20;
    let place = TestFolder::without_policy();
    place.write("countersign.toml", "[tools.\"s/read\"]\neffect = \"read\"\n");
    place.write(
        "server.py",
        "import json, sys\nfor line in sys.stdin:\n    message = json.loads(line)\n    if 'id' not in message: continue\n\
         \x20   size = message.get('params', {}).get('arguments', {}).get('size', 0)\n\
         \x20   result = {'tools': []} if message['method'] == 'tools/list' else {'content': [{'type': 'text', 'text': 'x' * size}]}\n\
         \x20   print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)\n",
    );
    let mut client = Client::start(&place, &["--name", "s"], &["python3", "server.py"]);
    client.greet(serde_json::json!({}));
    client.call("read", serde_json::json!({"size": 10}));
    let before = peak(client.child.id());
    for _ in 0..5 {
        let answer = client.call("read", serde_json::json!({"size": LARGE}));
        assert_eq!(crate::client::text(&answer).len(), LARGE);
    }
    let grown = peak(client.child.id()) - before;
    println!("grown by {grown:.1} MiB");
    assert!(
        grown < 2.2 * 10.0,
        "grown by {grown:.1} MiB for a result of 10 MiB"
    );
}
