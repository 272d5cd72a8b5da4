//! X91: files of the store that are deleted under a service, from its start on.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::TestFolder;

const POLICY: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n\
                      [tools.pay]\neffect = \"external\"\n";
const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers of the calls that reached the tool.
pub type Effects = Arc<Mutex<Vec<u64>>>;

/// Starts a tool that answers at once and records the calls it received.
pub fn recording_tool() -> (u16, Effects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let effects = Effects::default();
    let seen = effects.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, seen) = (stream.unwrap(), seen.clone());
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let text = read_message(&mut stream);
                let number = text.split("\"n\":").nth(1).unwrap_or_default();
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                // A service that aborts right after it has connected sends nothing.
                let Ok(number) = digits.parse() else {
                    return;
                };
                seen.lock().unwrap().push(number);
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
            });
        }
    });
    (port, effects)
}

fn read_message(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let lower = line.to_ascii_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Sends a POST request; `None` if the service is gone.
fn ask(host: &str, token: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    request(host, token, &format!("POST {path}"), "", body)
}

/// Sends one request, given its method and path and further header lines; `None` if the service is gone.
pub fn request(
    host: &str,
    token: &str,
    method_and_path: &str,
    headers: &str,
    body: &str,
) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{method_and_path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let body = text.split_once("\r\n\r\n")?.1;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// Deletes the WAL that process `pid` uses. A starting process may have a WAL open only to look at the file, and then
/// creates another one; that one is deleted too. A WAL that the process restores is left alone.
fn delete_under(log: &Path, pid: u32) {
    let deleted = format!("{} (deleted)", log.display());
    let begun = Instant::now();
    let mut is_deleted = false;
    loop {
        assert!(begun.elapsed() < PATIENCE, "the service has no log open");
        let Ok(held) = Path::new(&format!("/proc/{pid}/fd")).read_dir() else {
            return;
        };
        let links = held
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let links: Vec<_> = links.collect();
        let holds = |path: &str| links.iter().any(|link| link.as_os_str() == path);
        if is_deleted && (links.is_empty() || holds(&deleted)) {
            return;
        }
        if holds(&log.display().to_string()) && std::fs::remove_file(log).is_ok() {
            is_deleted = true;
            // Connections that only look at the file are closed by then.
            std::thread::sleep(Duration::from_millis(30));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub struct Service {
    pub child: Child,
    pub host: Option<String>,
}

impl Service {
    /// Starts a service and runs `delete` in parallel. Waits until the service listens or ends.
    pub fn start(
        place: &TestFolder,
        delete: impl FnOnce(u32) + Send + 'static,
    ) -> (Service, std::thread::JoinHandle<()>) {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--color", "never"]);
        command.env("PAY_KEY", "0123456789abcdef0123456789abcdef");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let deleting = std::thread::spawn(move || delete(pid));
        let (sender, first) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let line = first.recv_timeout(PATIENCE).ok();
        let host = line.and_then(|line| {
            let url = line
                .split_whitespace()
                .last()?
                .trim_end_matches("/approvals")
                .to_owned();
            Some(
                url.trim_start_matches("http://")
                    .replace("localhost", "127.0.0.1"),
            )
        });
        (Service { child, host }, deleting)
    }

    /// Waits for the service to end; returns its exit code and its standard error.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "the service does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the states of approval and call from the file, by the number in the call's arguments.
fn stored(path: &Path) -> HashMap<u64, (String, String)> {
    crate::many::all(path)
        .iter()
        .map(|approval| {
            let call = &approval.calls[0];
            let text = String::from_utf8_lossy(call.arguments.as_bytes()).into_owned();
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            let states = (approval.state.to_string(), call.state.to_string());
            (digits.parse().unwrap(), states)
        })
        .collect()
}

/// A store with an agent and a person, and a tool that records its calls.
pub struct World {
    pub place: TestFolder,
    pub effects: Effects,
    pub agent: String,
    pub ana: String,
}

impl World {
    fn new() -> World {
        World::with(|_| {})
    }

    /// Creates a world in a folder that `prepare` has prepared.
    pub fn with(prepare: impl FnOnce(&mut TestFolder)) -> World {
        let mut place = TestFolder::without_policy();
        prepare(&mut place);
        place.write("countersign.toml", POLICY);
        let (port, effects) = recording_tool();
        place.write(
            "countersign-serve.toml",
            format!(
                "private_targets = [\"127.0.0.1:{port}\"]\n[tools.pay]\nurl = \"http://127.0.0.1:{port}/\"\nkey_env = \"PAY_KEY\"\n"
            ),
        );
        let first = Served::start(&place);
        let (agent, ana) = (first.agent(), first.person());
        first.kill();
        // The last command to close the file removes the WAL.
        place.good(&["list"]);
        World {
            place,
            effects,
            agent,
            ana,
        }
    }

    /// Proposes and approves until the service no longer answers. Returns the approved numbers.
    fn work(&self, service: &Service, number: &mut u64, acknowledged: &mut BTreeSet<u64>) -> BTreeSet<u64> {
        let mut approved = BTreeSet::new();
        let Some(host) = &service.host else {
            return approved;
        };
        loop {
            *number += 1;
            let number = *number;
            let body = format!("{{\"calls\":[{{\"tool\":\"pay\",\"arguments\":{{\"n\":{number}}}}}]}}");
            let answer = match ask(host, &self.agent, "/v1/calls", &body) {
                Some((200, answer)) => answer,
                Some((429, _)) => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                _ => return approved,
            };
            acknowledged.insert(number);
            let (id, digest) = (&answer["approval"]["id"], &answer["approval"]["digest"]);
            let (id, digest) = (id.as_str().unwrap(), digest.as_str().unwrap());
            let body = format!("{{\"approved\":true,\"digest\":\"{digest}\"}}");
            match ask(host, &self.ana, &format!("/v1/approvals/{id}"), &body) {
                Some((200, _)) => _ = approved.insert(number),
                Some((429, _)) => {}
                _ => return approved,
            }
        }
    }

    /// Checks that everything acknowledged or run is in the file.
    fn check(&self, round: u64, acknowledged: &BTreeSet<u64>, approved: &BTreeSet<u64>, said: &str) {
        let stored = stored(&self.place.path().join("countersign.db"));
        for number in acknowledged {
            assert!(
                stored.contains_key(number),
                "round {round}: {number} was acknowledged\n{said}"
            );
        }
        for number in approved {
            assert_eq!(stored[number].0, "approved", "round {round}: {number}\n{said}");
        }
        let effects = self.effects.lock().unwrap().clone();
        let once: BTreeSet<&u64> = effects.iter().collect();
        assert_eq!(once.len(), effects.len(), "round {round}: something ran twice");
        for number in &effects {
            let call = stored.get(number).map(|(_, call)| call.as_str());
            assert!(
                matches!(call, Some("running" | "succeeded" | "failed" | "unknown")),
                "round {round}: {number} ran and is {call:?}\n{said}"
            );
        }
        assert_eq!(self.place.run(&["verify"]).code, 0, "round {round}");
    }
}

/// Deletes the WAL of a running service at a random moment from its start on, while calls are proposed, approved and
/// run. Afterwards everything acknowledged or run is in the file, and the service has ended with an error.
#[test]
fn x91_a_log_deleted_at_any_moment_takes_nothing_along() {
    let rounds: u64 = std::env::var("COUNTERSIGN_TEST_X91").map_or(6, |count| count.parse().unwrap());
    let world = World::new();
    let log = world.place.path().join("countersign.db-wal");
    let (mut number, mut acknowledged) = (0_u64, BTreeSet::new());
    let mut random: u64 = 91;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let delay = Duration::from_millis((random >> 33) % 700);
        let gone = log.clone();
        let (mut service, deleting) = Service::start(&world.place, move |pid| {
            std::thread::sleep(delay);
            delete_under(&gone, pid);
        });
        let approved = world.work(&service, &mut number, &mut acknowledged);
        deleting.join().unwrap();
        let (code, said) = service.end();
        assert_eq!(code, Some(1), "round {round}: {said}");
        assert!(said.contains("countersign.db-wal"), "round {round}: {said}");
        world.check(round, &acknowledged, &approved, &said);
    }
    assert!(!world.effects.lock().unwrap().is_empty(), "nothing ever ran");
    println!(
        "X91 sqlite rounds={rounds} violations=0 acknowledged={}",
        acknowledged.len()
    );
}

/// F04: a service is stopped or aborts while calls are proposed, approved and run.
#[test]
fn f04_a_service_that_stops_or_aborts_under_load_loses_nothing() {
    let rounds: u64 = std::env::var("COUNTERSIGN_TEST_F04").map_or(6, |count| count.parse().unwrap());
    let world = World::new();
    let (mut number, mut acknowledged, mut slowest) = (0_u64, BTreeSet::new(), Duration::ZERO);
    let mut random: u64 = 4;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let delay = Duration::from_millis(100 + (random >> 33) % 400);
        let signal = ["-TERM", "-ABRT"][usize::try_from(round).unwrap() % 2];
        let (mut service, _) = Service::start(&world.place, |_| {});
        let pid = service.child.id().to_string();
        let told = std::thread::spawn(move || {
            std::thread::sleep(delay);
            let told = std::process::Command::new("kill").args([signal, &pid]).status();
            assert!(told.unwrap().success());
            Instant::now()
        });
        let approved = world.work(&service, &mut number, &mut acknowledged);
        let told = told.join().unwrap();
        let (code, said) = service.end();
        slowest = slowest.max(told.elapsed());
        let expected = if signal == "-TERM" { Some(0) } else { None };
        assert_eq!(code, expected, "round {round}: {said}");
        world.check(round, &acknowledged, &approved, &said);
    }
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert!(!world.effects.lock().unwrap().is_empty(), "nothing ever ran");
    let milliseconds = slowest.as_millis();
    println!("F04 sqlite rounds={rounds} violations=0 slowest_stop_ms={milliseconds}");
}

/// The hint for a WAL without its database says how to put the database back, and its command works.
#[test]
fn x91_a_log_without_its_store_is_kept() {
    let place = TestFolder::new();
    let id = place.contact();
    let served = Served::start(&place);
    let ids = [
        id,
        served.propose(&served.agent(), &["create_contact", crate::test_folder::MARIA]),
    ];
    served.kill();
    let file = place.path().join("countersign.db");
    assert!(place.path().join("countersign.db-wal").exists());
    std::fs::rename(&file, place.path().join("away.bak")).unwrap();
    let refused = place.run(&["propose", "create_contact", crate::test_folder::MARIA]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(!refused.stderr.contains("remove it"), "{refused:?}");
    let command = refused
        .stderr
        .split('`')
        .find(|part| part.starts_with("mv WHERE"))
        .unwrap();
    let command = command.replace("WHERE-IT-IS", "away.bak");
    let moved = std::process::Command::new("sh")
        .args(["-c", &command])
        .current_dir(place.path())
        .status();
    assert!(moved.unwrap().success(), "{refused:?}");
    for id in ids {
        assert_eq!(place.json(&["show", &id])["status"], "pending");
    }
}
