//! Streamable HTTP on both sides: the same gate in front of a server at an address, and for clients that call one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, approval, journal, pending, text, until};
use crate::hold::place;
use crate::peers::{node, peers};
use crate::place::Place;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");

/// Something that runs until this is dropped, and the address it says it listens at.
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

    pub fn gateway(place: &Place, options: &[&str]) -> Running {
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

/// What came back: status, session and body.
pub struct Came {
    pub status: u16,
    pub session: Option<String>,
    pub body: String,
}

impl Came {
    /// The message that answers, whether it came alone or at the end of a stream.
    pub fn answer(&self) -> Value {
        let mut streamed = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let last = streamed.next_back().unwrap_or(&self.body);
        serde_json::from_str(last).unwrap_or_else(|_| panic!("{}: {}", self.status, self.body))
    }
}

pub fn post(address: &str, headers: &[(&str, &str)], message: &Value) -> Came {
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
    let session = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    Came {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        session: session.map(str::to_owned),
        body: body.to_owned(),
    }
}

/// Greets and gives the session.
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
    // Somebody else's session is none.
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

/// The server of both generations that the conformance suite is run against, at an address.
pub fn suite() -> Running {
    let mut command = Command::new(node());
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/mcp/peers/suite/server.mjs"
    ));
    command.arg(peers().join("node"));
    Running::start(command)
}

/// The everything server, at an address.
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
    let place = Place::without_policy();
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
