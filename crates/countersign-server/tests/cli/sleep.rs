//! A service that is suspended past a call's deadline: others give up the call, and the service must not send it when
//! it resumes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use countersign::time::Time;
use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{TestFolder, database};

const POLICY: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n\
                      [tools.pay]\neffect = \"external\"\ntimeout = \"1s\"\n";
/// Default number of rounds; `COUNTERSIGN_TEST_X84` sets another. More are run until a call was caught between its
/// start and its sending.
const ROUNDS: usize = 6;
/// Maximum number of rounds. A faster machine needs more to catch a call in time.
const MOST_ROUNDS: usize = 30;
/// Default number of service pairs that run in parallel, because a round mostly waits; `COUNTERSIGN_TEST_X84_PAIRS`
/// sets another.
const SLEEPERS: usize = 1;
/// Number of calls in flight when the service is suspended.
const CALLS: usize = 16;

/// A request that reached the tool.
struct Arrived {
    call: String,
    at: Time,
    deadline: Time,
}

/// Starts a tool that records the requests it receives and their times.
fn tool() -> (u16, Arc<Mutex<Vec<Arrived>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let all = Arc::new(Mutex::new(Vec::new()));
    let kept = all.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let kept = kept.clone();
            std::thread::spawn(move || answer(stream.unwrap(), &kept));
        }
    });
    (port, all)
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<Arrived>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let at = Time::from_micros(i64::try_from(now.as_micros()).unwrap());
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let header = |name: &str| {
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no `{name}` in {head}")).to_owned()
    };
    kept.lock().unwrap().push(Arrived {
        call: header("idempotency-key"),
        at,
        deadline: header("countersign-deadline").to_uppercase().parse().unwrap(),
    });
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
}

fn signal(served: &Served<'_>, name: &str) {
    let sent = std::process::Command::new("kill")
        .args([name, &served.pid().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Sends one request, a GET if there is no body, without waiting for the response.
fn post(served: &Served<'_>, token: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address()).unwrap();
    let host = served.url.trim_start_matches("http://");
    let method = match body {
        "" => "GET",
        _ => "POST",
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn answered(stream: TcpStream) -> Value {
    let text = read(stream);
    let body = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{text:?}"))
        .1;
    let (begin, end) = (body.find('{').unwrap(), body.rfind('}').unwrap());
    serde_json::from_str(&body[begin..=end]).unwrap()
}

/// Reads the response until the end or a timeout.
fn read(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Two services on one store: one is suspended, the other gives up its calls.
struct Pair<'p> {
    sleeper: Served<'p>,
    other: Served<'p>,
    agent: String,
    person: String,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl<'p> Pair<'p> {
    fn start(place: &'p TestFolder) -> Pair<'p> {
        let (port, arrived) = tool();
        place.write("countersign.toml", POLICY);
        place.write(
            "countersign-serve.toml",
            format!(
                "private_targets = [\"127.0.0.1:{port}\"]\n[tools.pay]\nurl = \"http://127.0.0.1:{port}/\"\nkey_env = \"PAY_KEY\"\n"
            ),
        );
        let (sleeper, other) = (Served::start(place), Served::start(place));
        let (agent, person) = (sleeper.agent(), sleeper.person());
        Pair {
            sleeper,
            other,
            agent,
            person,
            arrived,
        }
    }

    /// Returns the approval as the other service shows it.
    fn shown(&self, id: &str) -> Value {
        answered(post(
            &self.other,
            &self.person,
            &format!("/v1/approvals/{id}"),
            "",
        ))
    }

    fn is_running(&self, id: &str) -> bool {
        self.shown(id)["calls"][0]["state"] == "running"
    }

    /// Suspends the service past the deadline of calls in flight, and resumes it. Returns the number of calls that were
    /// started but had not reached the tool before the suspension.
    fn round(&self, wait: Duration) -> usize {
        let mut cards = Vec::new();
        for n in 0..CALLS {
            let body = format!("{{\"calls\":[{{\"tool\":\"pay\",\"arguments\":{{\"n\":{n}}}}}]}}");
            let answer = answered(post(&self.sleeper, &self.agent, "/v1/calls", &body));
            let id = answer["approval"]["id"].as_str();
            cards.push(id.unwrap_or_else(|| panic!("{answer}")).to_owned());
        }
        let decide = |id: &String| {
            let path = format!("/v1/approvals/{id}");
            post(&self.sleeper, &self.person, &path, "{\"approved\":true}")
        };
        let deciding: Vec<TcpStream> = cards.iter().map(decide).collect();
        std::thread::sleep(wait);
        signal(&self.sleeper, "-STOP");
        // Requests already sent arrive; then the other service gives up the started calls.
        std::thread::sleep(Duration::from_millis(1_100));
        let began = Instant::now();
        while cards.iter().any(|id| self.is_running(id)) && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let before = self.arrived.lock().unwrap().len();
        let unknown: Vec<&String> = cards
            .iter()
            .filter(|id| self.shown(id)["calls"][0]["state"] == "unknown")
            .collect();
        signal(&self.sleeper, "-CONT");
        // Each decision is answered once its call has ended.
        deciding.into_iter().for_each(|stream| drop(read(stream)));
        let arrived = self.arrived.lock().unwrap();
        for one in &arrived[before..] {
            assert!(
                !unknown.iter().any(|id| **id == call_of(&one.call)),
                "{} was sent after others gave it up, at {} with the deadline {}",
                one.call,
                one.at,
                one.deadline
            );
        }
        for one in arrived.iter() {
            assert!(one.at < one.deadline, "{} was sent after its deadline", one.call);
            let times = arrived.iter().filter(|other| other.call == one.call).count();
            assert_eq!(times, 1, "{} was sent {times} times", one.call);
        }
        let sent: Vec<&str> = arrived[..before].iter().map(|one| call_of(&one.call)).collect();
        let caught = unknown.iter().filter(|id| !sent.contains(&id.as_str()));
        caught.inspect(|id| self.check_record(id)).count()
    }

    /// Checks that the record of a call that was not sent says so, even if others had marked it unknown.
    fn check_record(&self, id: &str) {
        let began = Instant::now();
        while !self.shown(id).to_string().contains("not sent") {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "it is not on record that {id} was not sent: {}",
                self.shown(id)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the approval id in a call id.
fn call_of(call: &str) -> &str {
    call.rsplit_once('.').unwrap().0
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Runs all rounds on one kind of store, and prints the number of rounds and calls.
#[expect(clippy::print_stdout, reason = "a script collects the figures")]
fn sleep(kind: &str, keep: impl Fn(&mut TestFolder, usize) + Sync) {
    let rounds = setting("COUNTERSIGN_TEST_X84", ROUNDS);
    let sleepers = setting("COUNTERSIGN_TEST_X84_PAIRS", SLEEPERS);
    let waits = [1, 4, 8, 15, 25, 40];
    let one = |number: usize| {
        let mut place = TestFolder::without_policy();
        keep(&mut place, number);
        let pair = Pair::start(&place);
        let (mut done, mut caught) = (0, 0);
        for millis in waits.iter().cycle() {
            caught += pair.round(Duration::from_millis(*millis));
            done += 1;
            if done >= rounds.div_ceil(sleepers) && (caught > 0 || done >= MOST_ROUNDS) {
                break;
            }
        }
        (done, caught)
    };
    let ends: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..sleepers)
            .map(|number| {
                scope.spawn({
                    let one = &one;
                    move || one(number)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let done: usize = ends.iter().map(|(done, _)| done).sum();
    let caught: usize = ends.iter().map(|(_, caught)| caught).sum();
    assert!(
        caught > 0,
        "no call was ever caught between its start and its sending"
    );
    println!(
        "X84 {kind} rounds={done} violations=0 calls={} caught={caught}",
        done * CALLS
    );
}

#[test]
fn x84_a_service_that_slept_sends_nothing_that_others_gave_up() {
    sleep("sqlite", |_, _| {});
}

#[test]
fn x84_a_node_on_postgresql_that_slept_sends_nothing_that_others_gave_up() {
    sleep("postgres", |place, number| {
        place.keep_in(&database(&format!("sleep_{number}")));
    });
}
