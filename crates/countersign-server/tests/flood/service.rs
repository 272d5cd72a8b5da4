//! A service to flood, and requests to it from several addresses.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Address of the flooding client.
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// Address of a well-behaved client.
pub const INNOCENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub const PASSWORD: &str = "correct horse battery staple";

pub const POLICY: &str = "[tools.send_mail]\neffect = \"external\"\nttl = \"1h\"\n";
/// Policy without limits for agents.
pub const UNLIMITED: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n\
                             [tools.send_mail]\neffect = \"external\"\nttl = \"1h\"\n";

/// The running program, with a new store and a person `ana`.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    /// Token of the flooding agent.
    pub agent: String,
    /// Token of another agent.
    pub other: String,
    /// Token with which `ana` reads and decides.
    pub ana: String,
    directory: TempDir,
}

impl Service {
    pub fn start(policy: &str, config: &str) -> Service {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        std::fs::write(place.join("countersign.toml"), policy).unwrap();
        let config = format!("{config}\n[tools.send_mail]\nanswer = \"sent\"\n");
        std::fs::write(place.join("countersign-serve.toml"), config).unwrap();
        run(place, &["person", "add", "ana", "--in", "approvers"], "");
        run(place, &["person", "password", "ana"], PASSWORD);
        let agent = token(place, &["--agent", "crm", "--scope", "propose,wait"]);
        let other = token(place, &["--agent", "mail", "--scope", "propose,wait"]);
        let ana = token(place, &["--person", "ana", "--scope", "read,decide"]);
        let mut child = program(place)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("COUNTERSIGN_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                let line = line.unwrap();
                let (_, rest) = line.split_once("http://localhost:")?;
                rest.split('/').next()?.parse().ok()
            })
            .unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Service {
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            agent,
            other,
            ana,
            directory,
        }
    }

    /// Returns the peak memory use of the process in MiB.
    pub fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    /// Returns the code of a new sign-in link for `ana`.
    pub fn link(&self) -> String {
        let said = run(self.directory.path(), &["person", "link", "ana"], "");
        let (_, code) = said.split_once("code=").unwrap();
        code.split_whitespace().next().unwrap().to_owned()
    }

    pub async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends one request on a new connection.
    pub async fn ask(&self, from: Ipv4Addr, request: Request<'_>) -> Answer {
        let began = Instant::now();
        let mut stream = self.connect(from).await;
        stream
            .write_all(request.text(self.address).as_bytes())
            .await
            .unwrap();
        let bytes = read(&mut stream).await;
        Answer::new(&bytes, began.elapsed())
    }

    pub async fn get(&self, from: Ipv4Addr, token: &str, path: &str) -> Answer {
        self.ask(
            from,
            Request {
                method: "GET",
                path,
                token,
                kind: "",
                body: "",
            },
        )
        .await
    }

    pub async fn post(&self, from: Ipv4Addr, token: &str, path: &str, body: &str) -> Answer {
        let kind = "application/json";
        self.ask(
            from,
            Request {
                method: "POST",
                path,
                token,
                kind,
                body,
            },
        )
        .await
    }

    pub async fn sign_in(&self, from: Ipv4Addr, form: &str) -> Answer {
        let kind = "application/x-www-form-urlencoded";
        let request = Request {
            method: "POST",
            path: "/sign-in",
            token: "",
            kind,
            body: form,
        };
        self.ask(from, request).await
    }

    /// Proposes, approves and runs a call as a well-behaved client; returns the time taken.
    pub async fn whole_approval(&self) -> Duration {
        let began = Instant::now();
        let body = r#"{"calls":[{"tool":"send_mail","arguments":{"to":"bo"}}],"channel":"c"}"#;
        let proposed = self.post(INNOCENT, &self.other, "/v1/calls", body).await;
        let id = proposed.good()["approval"]["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/approvals/{id}?waitFor=finished");
        let decided = self
            .post(INNOCENT, &self.ana, &path, r#"{"approved":true}"#)
            .await;
        assert_eq!(decided.good()["calls"][0]["state"], "succeeded");
        began.elapsed()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub token: &'a str,
    pub kind: &'a str,
    pub body: &'a str,
}

impl Request<'_> {
    pub fn text(&self, host: SocketAddr) -> String {
        let Request {
            method,
            path,
            token,
            kind,
            body,
        } = self;
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        if !token.is_empty() {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if !kind.is_empty() {
            text.push_str(&format!(
                "Content-Type: {kind}\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        text + "\r\n" + body
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
    pub took: Duration,
}

impl Answer {
    pub fn new(bytes: &[u8], took: Duration) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
            took,
        }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        // The service sends these responses without chunked encoding.
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {} {}", self.head, self.body))
    }

    #[track_caller]
    pub fn good(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.body);
        self.json()
    }

    /// Returns true for status 429 with a positive `Retry-After`.
    pub fn is_turned_away(&self) -> bool {
        let retry = self
            .head
            .lines()
            .find_map(|line| line.strip_prefix("retry-after: "));
        self.status == 429
            && retry.is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|seconds| seconds > 0))
    }
}

/// Reads until the other side closes, for a minute at most.
pub async fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(Duration::from_secs(60), reading).await;
    bytes
}

fn token(place: &Path, more: &[&str]) -> String {
    let mut arguments = vec!["token", "create", "--json"];
    arguments.extend(more);
    let said: Value = serde_json::from_str(&run(place, &arguments, "")).unwrap();
    said["token"].as_str().unwrap().to_owned()
}

fn run(place: &Path, arguments: &[&str], input: &str) -> String {
    let mut child = program(place)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn program(place: &Path) -> Command {
    let path = std::env::var("COUNTERSIGN_FLOOD_BIN");
    let mut program = Command::new(path.as_deref().unwrap_or(env!("CARGO_BIN_EXE_countersign")));
    program
        .current_dir(place)
        .env("HOME", place)
        .env_remove("XDG_CONFIG_HOME")
        .env("COUNTERSIGN_STORE", place.join("countersign.db"))
        .env("COUNTERSIGN_POLICY", place.join("countersign.toml"))
        .env("COUNTERSIGN_CONFIG", place.join("countersign-serve.toml"));
    program
}
