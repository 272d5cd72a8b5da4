//! Streamable HTTP on both sides: in front of a server at an address, and for clients that connect over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, approval, journal, pending, text, until};
use crate::hold::place;
use crate::peers::{node, peers};
use crate::test_folder::TestFolder;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

/// A process that is killed when dropped, and the address it listens at.
pub struct Running {
    pub child: Child,
    pub address: String,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let address = first
            .rsplit("http://")
            .next()
            .unwrap()
            .trim_end_matches("/mcp")
            .to_owned();
        Running { child, address }
    }

    pub fn gateway(place: &TestFolder, options: &[&str]) -> Running {
        let mut arguments = vec!["mcp", "--name", "peer", "--listen", "127.0.0.1:0"];
        arguments.extend_from_slice(options);
        Running::start(place.command(&arguments))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Response: status, session id and body.
pub struct Came {
    pub status: u16,
    pub session: Option<String>,
    pub body: String,
}

impl Came {
    /// Returns the response message, from a plain body or from the end of an event stream.
    pub fn answer(&self) -> Value {
        let mut streamed = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let last = streamed.next_back().unwrap_or(&self.body);
        serde_json::from_str(last).unwrap_or_else(|_| panic!("{}: {}", self.status, self.body))
    }
}

pub fn post(address: &str, headers: &[(&str, &str)], message: &Value) -> Came {
    let (head, body) = post_whole(address, headers, message);
    let session = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    Came {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        session: session.map(str::to_owned),
        body,
    }
}

/// Posts a message; returns the head and the body of the response.
pub fn post_whole(address: &str, headers: &[(&str, &str)], message: &Value) -> (String, String) {
    let body = message.to_string();
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    let usual = [
        ("host", address),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let named = |name: &str| headers.iter().any(|(other, _)| *other == name);
    for (name, value) in usual.iter().filter(|(name, _)| !named(name)).chain(headers) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::client::LONG)).unwrap();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut whole = String::new();
    stream.read_to_string(&mut whole).unwrap();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Initialises a session and returns its id.
pub fn greet(address: &str, headers: &[(&str, &str)]) -> String {
    let info = json!({"name": "http", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let came = post(
        address,
        headers,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    );
    assert_eq!(came.status, 200, "{}", came.body);
    let session = came.session.unwrap();
    let mut headers = headers.to_vec();
    headers.push(("mcp-session-id", &session));
    post(
        address,
        &headers,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    session
}

pub fn call(address: &str, headers: &[(&str, &str)], tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    post(
        address,
        headers,
        &json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
    )
    .answer()
}

#[test]
fn a_command_is_offered_over_http_to_agents_with_tokens() {
    let place = place();
    let gateway = Running::gateway(&place, &["--hold", "400ms", "--", "python3", PEER, "journal"]);
    let token = place.good(&["token", "create", "--agent", "crm", "--scope", "propose,wait"]);
    let bearer = format!("Bearer {}", token.trim());
    let with = [("authorization", bearer.as_str())];
    let session = greet(&gateway.address, &with);
    let with = [
        ("authorization", bearer.as_str()),
        ("mcp-session-id", session.as_str()),
    ];
    let read = call(&gateway.address, &with, "read", json!({"n": 1}));
    assert_eq!(text(&read), "read {\"n\": 1}");
    let id = approval(&call(&gateway.address, &with, "write", json!({"line": "x"})));
    let card = place.json(&["show", &id]);
    assert_eq!(
        (&card["agentName"], &card["requestedBy"]),
        (&json!("crm"), &json!("crm"))
    );
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 2);
    let answer = call(
        &gateway.address,
        &with,
        "countersign_wait",
        json!({"approval": id}),
    );
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
}

#[test]
fn x26_x27_strangers_are_turned_away() {
    let place = place();
    let gateway = Running::gateway(&place, &["--", "python3", PEER, "journal"]);
    let person = {
        place.good(&["person", "add", "ana", "--in", "approvers"]);
        place.good(&["token", "create", "--person", "ana", "--scope", "read,decide"])
    };
    let person = format!("Bearer {}", person.trim());
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let cases: [(&[(&str, &str)], u16); 5] = [
        (&[], 401),
        (&[("authorization", "Bearer cst_nonsense")], 401),
        (&[("authorization", &person)], 403),
        (&[("host", "evil.example.com")], 403),
        (&[("origin", "http://evil.example.com")], 403),
    ];
    for (headers, status) in cases {
        assert_eq!(
            post(&gateway.address, headers, &message).status,
            status,
            "{headers:?}"
        );
    }
    // The session of another agent is not found.
    let token = |agent: &str| place.good(&["token", "create", "--agent", agent, "--scope", "propose,wait"]);
    let (one, other) = (
        format!("Bearer {}", token("one").trim()),
        format!("Bearer {}", token("two").trim()),
    );
    let session = greet(&gateway.address, &[("authorization", &one)]);
    let headers = [
        ("authorization", other.as_str()),
        ("mcp-session-id", session.as_str()),
    ];
    assert_eq!(post(&gateway.address, &headers, &message).status, 404);
    let left = place.run(&["mcp", "--listen", "0.0.0.0:0", "--", "python3", PEER, "journal"]);
    assert!(left.code == 1 && left.stderr.contains("no TLS"), "{left:?}");
}

/// Starts the server of the conformance suite, which supports both protocol generations, over HTTP.
pub fn suite() -> Running {
    let mut command = Command::new(node());
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/mcp/peers/suite/server.mjs"
    ));
    command.arg(peers().join("node"));
    Running::start(command)
}

/// Starts the reference server `server-everything` over HTTP.
pub fn everything() -> Running {
    let packages = peers().join("node/node_modules/@modelcontextprotocol");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut command = Command::new(node());
    command
        .arg(packages.join("server-everything/dist/index.js"))
        .arg("streamableHttp");
    command.env("PORT", port.to_string()).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    until("the server listens", || TcpStream::connect(&address).is_ok());
    Running { child, address }
}

const EVERYTHING: &str =
    "[tools.\"peer/echo\"]\neffect = \"read\"\n[tools.\"peer/get-sum\"]\neffect = \"write\"\n";

#[test]
fn a_server_at_an_address_for_clients_that_call_and_for_those_on_standard_input() {
    let server = everything();
    let place = TestFolder::without_policy();
    place.write("countersign.toml", EVERYTHING);
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--hold", "400ms", "--url", &url]);
    let session = greet(&gateway.address, &[]);
    let with = [("mcp-session-id", session.as_str())];
    let echo = call(&gateway.address, &with, "echo", json!({"message": "hi"}));
    assert_eq!(text(&echo), "Echo: hi");
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    let listed = post(&gateway.address, &with, &list).answer();
    let names = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(names.last().unwrap()["name"], "countersign_wait");
    let id = approval(&call(&gateway.address, &with, "get-sum", json!({"a": 1, "b": 2})));
    place.good(&["approve", &id]);
    let mut answer = Value::Null;
    until("it has run", || {
        answer = call(
            &gateway.address,
            &with,
            "countersign_wait",
            json!({"approval": id}),
        );
        text(&answer).contains('3')
    });

    // The same server, for a client on standard input.
    let mut client = Client::spawn(place.command(&["mcp", "--name", "peer", "--url", &url]));
    client.greet(json!({}));
    assert_eq!(text(&client.call("echo", json!({"message": "hi"}))), "Echo: hi");
    let call = client.begin("get-sum", json!({"a": 2, "b": 3}));
    place.good(&["approve", &pending(&place)]);
    assert!(text(&client.answer(call)).contains('5'));
    assert_eq!(client.close().0, 0);
}

/// Opens an event stream and waits for the end of the response head.
fn open_stream(address: &str, head: &str, body: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::client::LONG)).unwrap();
    let length = body.len();
    let usual = "accept: application/json, text/event-stream\r\ncontent-type: application/json";
    let request = format!("{head}host: {address}\r\n{usual}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert!(!line.starts_with("HTTP/1.1 4"), "{line}");
    }
    reader
}

/// Measures how long a stream stays open.
fn ends_after(mut stream: BufReader<TcpStream>) -> std::time::Duration {
    let began = std::time::Instant::now();
    let mut line = String::new();
    // The last, empty chunk of a chunked body.
    while line != "0\r\n" {
        line.clear();
        if stream.read_line(&mut line).unwrap() == 0 {
            break;
        }
    }
    began.elapsed()
}

#[test]
fn x68_a_revoked_token_follows_nothing_through_the_gateway() {
    let place = place();
    let revoke = |agent: &str| {
        let tokens = place.json(&["token", "list"]);
        let all = tokens["tokens"].as_array().or(tokens.as_array()).unwrap();
        let named = all
            .iter()
            .find(|token| token.to_string().contains(agent))
            .unwrap();
        place.good(&["token", "revoke", named["id"].as_str().unwrap()]);
    };
    let bearer = |agent: &str| {
        let token = place.good(&["token", "create", "--agent", agent, "--scope", "propose,wait"]);
        format!("Bearer {}", token.trim())
    };
    let held = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "write", "arguments": {}}});
    let held = held.to_string();
    let gateway = Running::gateway(&place, &["--hold", "1m", "--", "python3", PEER, "journal"]);
    let (one, other) = (bearer("first"), bearer("second"));
    let session = greet(&gateway.address, &[("authorization", &one)]);
    let with = format!("authorization: {one}\r\nmcp-session-id: {session}\r\n");
    let listens = open_stream(&gateway.address, &format!("GET /mcp HTTP/1.1\r\n{with}"), "");
    let waits = open_stream(&gateway.address, &format!("POST /mcp HTTP/1.1\r\n{with}"), &held);
    let session = greet(&gateway.address, &[("authorization", &other)]);
    let with = format!("authorization: {other}\r\nmcp-session-id: {session}\r\n");
    let goes_on = open_stream(&gateway.address, &format!("GET /mcp HTTP/1.1\r\n{with}"), "");
    revoke("first");
    for stream in [listens, waits] {
        let took = ends_after(stream);
        println!("ended after {took:?}");
        assert!(took < std::time::Duration::from_secs(5), "{took:?}");
    }
    // The stream of another agent stays open.
    let quiet = goes_on.get_ref();
    quiet
        .set_read_timeout(Some(std::time::Duration::from_secs(2)))
        .unwrap();
    let nothing = std::io::Read::read(&mut goes_on.get_ref(), &mut [0; 1]);
    assert!(nothing.is_err(), "{nothing:?}");

    let server = Running::start({
        let mut command = Command::new("python3");
        let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/hostile.py");
        command
            .args([hostile, "journal", "http"])
            .current_dir(place.path());
        command
    });
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--hold", "1m", "--url", &url]);
    let third = bearer("third");
    let head = format!("POST /mcp HTTP/1.1\r\nauthorization: {third}\r\n");
    let waits = open_stream(&gateway.address, &head, &held);
    revoke("third");
    let took = ends_after(waits);
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

/// Starts an HTTP server that hands out the sessions `s1`, `s2` and so on, and answers every request with the session
/// that the request named.
fn numbered(place: &TestFolder) -> Running {
    place.write(
        "numbered.py",
        "import itertools, json\n\
         from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n\
         numbers = itertools.count(1)\n\
         class Handler(BaseHTTPRequestHandler):\n\
         \x20   protocol_version = 'HTTP/1.1'\n\
         \x20   def log_message(self, *_): pass\n\
         \x20   def do_GET(self): self.send_error(405)\n\
         \x20   def do_POST(self):\n\
         \x20       message = json.loads(self.rfile.read(int(self.headers['content-length'])))\n\
         \x20       session = self.headers.get('mcp-session-id')\n\
         \x20       result = {'from': session, 'capabilities': {}, 'protocolVersion': '2025-11-25'}\n\
         \x20       if message.get('method') == 'tools/call':\n\
         \x20           open('ran', 'a').write(session + '\\n')\n\
         \x20           result = {'content': [{'type': 'text', 'text': session}]}\n\
         \x20       if message.get('method') == 'tools/list':\n\
         \x20           result = {'tools': [{'name': 'write', 'inputSchema': {}}]}\n\
         \x20       body = json.dumps({'jsonrpc': '2.0', 'id': message.get('id'), 'result': result}).encode()\n\
         \x20       body = body if 'id' in message else b''\n\
         \x20       self.send_response(200 if body else 202)\n\
         \x20       if message.get('method') == 'initialize': self.send_header('mcp-session-id', 's%d' % next(numbers))\n\
         \x20       self.send_header('content-type', 'application/json')\n\
         \x20       self.send_header('content-length', str(len(body)))\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(body)\n\
         server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)\n\
         print(f'http://127.0.0.1:{server.server_port}/mcp', flush=True)\n\
         server.serve_forever()\n",
    );
    let mut command = Command::new("python3");
    command.arg("numbered.py").current_dir(place.path());
    Running::start(command)
}

fn initialize(address: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    post(address, &[], &message).session.unwrap()
}

/// Makes a request in a session; returns the HTTP status and the session that the server saw.
fn seen(address: &str, session: &str) -> (u16, Value) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "x/y"});
    let came = post(address, &[("mcp-session-id", session)], &message);
    let from = match came.status {
        200 => came.answer()["result"]["from"].clone(),
        _ => Value::Null,
    };
    (came.status, from)
}

#[test]
fn past_the_limit_the_sessions_that_were_used_least_recently_are_forgotten() {
    const MOST: usize = 1000;
    const MORE: usize = 20;
    let place = place();
    let server = numbered(&place);
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--hold", "100ms", "--url", &url]);
    let at = gateway.address.as_str();
    for number in 1..=MOST {
        assert_eq!(initialize(at), format!("s{number}"));
    }
    assert_eq!(seen(at, "s1"), (200, json!("s1")));
    // A session in which a call waits for a person is kept as well, however long it was not used.
    let second = [("mcp-session-id", "s2")];
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(at, &second, &initialized);
    let held = approval(&call(at, &second, "write", json!({"line": "a"})));
    for number in 3..=MOST {
        assert_eq!(seen(at, &format!("s{number}")).0, 200, "s{number}");
    }
    assert_eq!(seen(at, "s1"), (200, json!("s1")));
    for number in MOST + 1..=MOST + MORE {
        assert_eq!(initialize(at), format!("s{number}"));
    }
    for number in (1..=2).chain(3 + MORE..=MOST + MORE) {
        let session = format!("s{number}");
        assert_eq!(seen(at, &session), (200, json!(session)));
    }
    // A client that gets 404 begins a new session. Its calls must not run in a session that somebody else named last.
    for number in 3..3 + MORE {
        assert_eq!(seen(at, &format!("s{number}")).0, 404, "s{number}");
    }
    place.good(&["approve", &held]);
    let ran = || std::fs::read_to_string(place.path().join("ran")).unwrap_or_default();
    until("it has run", || ran().ends_with('\n'));
    assert_eq!(ran(), "s2\n");
}

#[test]
fn a_session_that_the_gateway_does_not_know_is_refused() {
    let place = place();
    let server = numbered(&place);
    let url = format!("http://{}/mcp", server.address);
    let options = ["--no-token", "--hold", "100ms", "--url", &url];
    let gateway = Running::gateway(&place, &options);
    assert_eq!(initialize(&gateway.address), "s1");
    assert_eq!(initialize(&gateway.address), "s2");
    drop(gateway);
    let gateway = Running::gateway(&place, &options);
    for session in ["s1", "s2"] {
        let params = json!({"name": "write", "arguments": {"line": session}});
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let came = post(&gateway.address, &[("mcp-session-id", session)], &message);
        assert_eq!(came.status, 404, "{session}: {}", came.body);
    }
    assert_eq!(place.json(&["list"])["approvals"], json!([]), "nobody is asked");
}

#[test]
fn x42_a_request_that_names_two_sessions_is_refused() {
    let place = place();
    let server = numbered(&place);
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--url", &url]);
    for session in ["s1", "s2"] {
        assert_eq!(initialize(&gateway.address), session);
    }
    // Servers do not agree about which of two equal headers counts.
    for second in ["s2", "s1", "s9"] {
        let headers = [("mcp-session-id", "s1"), ("mcp-session-id", second)];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "x/y"});
        let came = post(&gateway.address, &headers, &message);
        assert_eq!(came.status, 400, "{second}: {}", came.body);
        assert!(came.body.contains("mcp-session-id"), "{}", came.body);
    }
}

#[test]
fn a_call_before_the_handshake_ends_is_sent_after_it() {
    let place = place();
    let server = numbered(&place);
    let url = format!("http://{}/mcp", server.address);
    let gateway = Running::gateway(&place, &["--no-token", "--hold", "50ms", "--url", &url]);
    let session = initialize(&gateway.address);
    let with = [("mcp-session-id", session.as_str())];
    let id = approval(&call(&gateway.address, &with, "write", json!({"line": "early"})));
    place.good(&["approve", &id]);
    // Nothing is sent, and no start is on record, as long as the handshake is not over.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let ran = || std::fs::read_to_string(place.path().join("ran")).unwrap_or_default();
    assert_eq!(ran(), "");
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "released");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&gateway.address, &with, &ready).status, 202);
    until("it has run", || {
        place.json(&["show", &id])["calls"][0]["state"] == "succeeded"
    });
    assert_eq!(ran(), format!("{session}\n"));
}
