//! A service that sleeps past a call's deadline: others give the call up, and it must not be sent when the service wakes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use countersign::time::Time;
use serde_json::Value;

use crate::place::Place;
use crate::served::Served;

const POLICY: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n\
                      [tools.pay]\neffect = \"external\"\ntimeout = \"1s\"\n";
/// A machine that is faster than this one needs more of them to be caught in time.
const MOST_ROUNDS: usize = 30;
/// Calls that are under way when the service is stopped.
const CALLS: usize = 16;

/// One request that reached the tool.
struct Arrived {
    call: String,
    at: Time,
    deadline: Time,
}

/// A tool that writes down what reaches it, and when.
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

/// Sends one request and does not wait for the answer.
fn post(served: &Served<'_>, token: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address()).unwrap();
    let host = served.url.trim_start_matches("http://");
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn answered(mut stream: TcpStream) -> Value {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    let (begin, end) = (body.find('{').unwrap(), body.rfind('}').unwrap());
    serde_json::from_str(&body[begin..=end]).unwrap()
}

/// Calls that were started, reached no tool before the stop, and would have been sent after it.
fn round(place: &Place, wait: Duration) -> usize {
    let (port, arrived) = tool();
    place.write(
        "countersign-serve.toml",
        format!(
            "private_targets = [\"127.0.0.1:{port}\"]\n[tools.pay]\nurl = \"http://127.0.0.1:{port}/\"\nkey_env = \"PAY_KEY\"\n"
        ),
    );
    let (sleeper, other) = (Served::start(place), Served::start(place));
    let (agent, person) = (sleeper.agent(), sleeper.person());
    let mut cards = Vec::new();
    for n in 0..CALLS {
        let body = format!("{{\"calls\":[{{\"tool\":\"pay\",\"arguments\":{{\"n\":{n}}}}}]}}");
        let answer = answered(post(&sleeper, &agent, "/v1/calls", &body));
        let id = answer["approval"]["id"].as_str();
        cards.push(id.unwrap_or_else(|| panic!("{answer}")).to_owned());
    }
    let deciding: Vec<TcpStream> = cards
        .iter()
        .map(|id| {
            post(
                &sleeper,
                &person,
                &format!("/v1/approvals/{id}"),
                "{\"approved\":true}",
            )
        })
        .collect();
    std::thread::sleep(wait);
    signal(&sleeper, "-STOP");
    let before = arrived.lock().unwrap().len();
    // Longer than the time-out: the other service gives up what was started.
    std::thread::sleep(Duration::from_millis(2_500));
    let state = |id: &str| {
        let shown: Value = serde_json::from_str(&other.good(&person, &["--json", "show", id])).unwrap();
        shown["calls"][0]["state"].as_str().unwrap().to_owned()
    };
    let unknown: Vec<&String> = cards.iter().filter(|id| state(id) == "unknown").collect();
    signal(&sleeper, "-CONT");
    std::thread::sleep(Duration::from_millis(1_500));
    drop(deciding);
    let arrived = arrived.lock().unwrap();
    for one in arrived.iter() {
        assert!(one.at < one.deadline, "{} was sent after its deadline", one.call);
        let times = arrived.iter().filter(|other| other.call == one.call).count();
        assert_eq!(times, 1, "{} was sent {times} times", one.call);
    }
    let sent: Vec<&str> = arrived[..before.min(arrived.len())]
        .iter()
        .map(|one| one.call.rsplit_once('.').unwrap().0)
        .collect();
    unknown.iter().filter(|id| !sent.contains(&id.as_str())).count()
}

#[test]
fn x84_a_service_that_slept_sends_nothing_that_others_gave_up() {
    let place = Place::without_policy();
    place.write("countersign.toml", POLICY);
    // Six rounds, and more until one has stopped the service between a start and its sending.
    let waits = [1, 4, 8, 15, 25, 40];
    let mut caught = 0;
    for (number, millis) in waits.iter().cycle().take(MOST_ROUNDS).enumerate() {
        caught += round(&place, Duration::from_millis(*millis));
        if caught > 0 && number + 1 >= waits.len() {
            break;
        }
    }
    assert!(
        caught > 0,
        "no call was ever caught between its start and its sending"
    );
}
