//! Webhooks of a running service, received by a program that records requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::gone::{recording_tool, request};
use crate::served::Served;
use crate::test_folder::{TestFolder, check_bad};

/// Keys of the webhooks: one symmetric, one Ed25519.
pub const KEYS: &str =
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsk_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that reached the receiver.
#[derive(Clone, Debug)]
struct Received {
    id: String,
    timestamp: String,
    signature: String,
    text: String,
    body: Value,
}

#[derive(Clone, Default)]
struct Receiver {
    received: Arc<Mutex<Vec<Received>>>,
    /// Statuses of the next answers; afterwards 204.
    statuses: Arc<Mutex<Vec<u16>>>,
}

impl Receiver {
    fn start(statuses: &[u16]) -> (u16, Receiver) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = Receiver::default();
        receiver.statuses.lock().unwrap().extend(statuses.iter().rev());
        let serving = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serving.answer(stream.unwrap());
            }
        });
        (port, receiver)
    }

    fn answer(&self, mut stream: std::net::TcpStream) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(&mut stream);
        let mut headers = std::collections::HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let Some(length) = headers.get("content-length") else {
            return;
        };
        let mut body = vec![0; length.parse().unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let text = String::from_utf8(body).unwrap();
        let status = self.statuses.lock().unwrap().pop().unwrap_or(204);
        self.received.lock().unwrap().push(Received {
            id: headers["webhook-id"].clone(),
            timestamp: headers["webhook-timestamp"].clone(),
            signature: headers["webhook-signature"].clone(),
            body: serde_json::from_str(&text).unwrap(),
            text,
        });
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    }

    /// Waits until this many requests have arrived.
    #[track_caller]
    fn wait_for(&self, count: usize) -> Vec<Received> {
        let begun = Instant::now();
        loop {
            let received = self.received.lock().unwrap().clone();
            if received.len() >= count {
                return received;
            }
            assert!(begun.elapsed() < PATIENCE, "only {received:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn folder(port: u16, more: &str) -> (TestFolder, crate::gone::Effects) {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.pay]\neffect = \"external\"\nsummary = \"Pay {{ n }}\"\n",
    );
    let (tool, effects) = recording_tool();
    place.write(
        "countersign-serve.toml",
        format!(
            "private_targets = [\"127.0.0.1:{tool}\", \"127.0.0.1:{port}\"]\n\
             [tools.pay]\nurl = \"http://127.0.0.1:{tool}/\"\nkey_env = \"PAY_KEY\"\n\
             [webhooks.billing]\nurl = \"http://127.0.0.1:{port}/hook\"\nkeys_env = \"HOOK_KEYS\"\n{more}"
        ),
    );
    (place, effects)
}

#[track_caller]
fn good(served: &Served<'_>, token: &str, method_and_path: &str, body: &Value) -> Value {
    let (status, answer) = request(&served.address(), token, method_and_path, "", &body.to_string()).unwrap();
    assert!((200..300).contains(&status), "{status} {answer}");
    answer
}

fn decide(served: &Served<'_>, agent: &str, person: &str, number: u64, approve: bool) -> String {
    let body = json!({ "calls": [{ "tool": "pay", "arguments": { "n": number } }], "runId": "run-7" });
    let held = good(served, agent, "POST /v1/calls", &body);
    let id = held["approval"]["id"].as_str().unwrap().to_owned();
    let path = format!("POST /v1/approvals/{id}?waitFor=finished");
    good(
        served,
        person,
        &path,
        &json!({ "approved": approve, "comment": "private remark" }),
    );
    id
}

#[track_caller]
fn check_signature(received: &Received) {
    let key = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.{}", received.id, received.timestamp, received.text).as_bytes());
    let expected = format!("v1,{} v1a,", BASE64.encode(&mac.finalize().into_bytes()));
    assert!(received.signature.starts_with(&expected), "{received:?}");
}

#[test]
fn e3_decisions_and_ends_reach_a_webhook_signed_and_in_order() {
    let (port, receiver) = Receiver::start(&[]);
    let (place, effects) = folder(port, "");
    let served = Served::start(&place);
    let (agent, ana) = (served.agent(), served.person());
    let first = decide(&served, &agent, &ana, 4_711_222, true);
    let second = decide(&served, &agent, &ana, 4_711_333, false);
    let received = receiver.wait_for(3);
    let kinds: Vec<(&str, &str)> = received
        .iter()
        .map(|one| {
            (
                one.body["type"].as_str().unwrap(),
                one.body["data"]["approval"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("approval.approved", first.as_str()),
            ("call.succeeded", first.as_str()),
            ("approval.denied", second.as_str())
        ]
    );
    for one in &received {
        check_signature(one);
        assert!(!one.text.contains("4711"), "arguments are not sent: {}", one.text);
        assert!(!one.text.contains("private remark"), "{}", one.text);
        assert!(!one.id.contains('.'), "{}", one.id);
    }
    assert_eq!(*effects.lock().unwrap(), [4_711_222]);
}

#[test]
fn e3_a_receiver_that_fails_gets_the_event_again_after_a_restart_too() {
    let (port, receiver) = Receiver::start(&[500, 503]);
    let (place, _) = folder(port, "events = [\"approved\"]\n");
    let served = Served::start(&place);
    let (agent, ana) = (served.agent(), served.person());
    decide(&served, &agent, &ana, 1, true);
    let first = receiver.wait_for(1);
    // The service ends without a shutdown. The next one waits for the rest of the pause, and continues there.
    served.kill();
    let served = Served::start(&place);
    decide(&served, &agent, &ana, 2, true);
    let received = receiver.wait_for(2);
    assert_eq!(received[1].id, first[0].id, "the same event under the same id");
    check_signature(&received[1]);
    let metrics = served.token(&["--name", "ops", "--scope", "admin"]);
    let (status, _) = request(&served.address(), &metrics, "GET /readyz", "", "").unwrap();
    assert_eq!(
        status, 200,
        "a receiver that is down does not make the service unready"
    );
}

#[test]
fn e3_a_webhook_that_could_be_read_or_cannot_sign_stops_the_start() {
    let place = TestFolder::new();
    for (settings, message) in [
        (
            "url = \"http://hooks.example/x\"\nkeys_env = \"PATH\"",
            "is not encrypted",
        ),
        (
            "url = \"https://hooks.example/x\"\nkeys_env = \"NOT_SET\"",
            "`NOT_SET` is not set",
        ),
        (
            "url = \"https://hooks.example/x\"\nkeys_env = \"PATH\"",
            "starts with `whsec_`",
        ),
    ] {
        place.write("hooks.toml", format!("[webhooks.billing]\n{settings}\n"));
        check_bad(&place, &["serve", "--config", "hooks.toml"], 1, message);
    }
}
