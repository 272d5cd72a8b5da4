//! `http_post` against a real server on this machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::executor::{Executor as _, Outcome};
use countersign::state::CallState;
use countersign_examples::World;
use countersign_examples::cms::SETUP;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::once::two_permits;
use crate::stage::{each, reason, result};

/// A server that records each request and always sends the same response.
struct Server {
    address: String,
    heard: Arc<Mutex<Vec<String>>>,
}

async fn server(answer: &'static str) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let notes = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let reading = async {
                while !is_whole(&bytes) {
                    let mut part = [0; 4096];
                    let count = stream.read(&mut part).await.unwrap_or(0);
                    if count == 0 {
                        break;
                    }
                    bytes.extend_from_slice(&part[..count]);
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(5), reading).await;
            notes
                .lock()
                .unwrap()
                .push(String::from_utf8_lossy(&bytes).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Server { address, heard }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

impl Server {
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn arguments(&self, body: &str) -> String {
        format!(r#"{{"url":"http://{}/hooks?a=1","body":{body}}}"#, self.address)
    }
}

const FINE: &str = "HTTP/1.1 201 Created\r\ncontent-length: 5\r\nconnection: close\r\n\r\nnoted";

#[tokio::test]
async fn c3_http_post_sends_the_exact_body_once_and_cannot_be_undone() {
    let server = server(FINE).await;
    let body = r#"{ "n": 9007199254740993,  "b":1, "a":2.50 }"#;
    each(&SETUP, async |stage| {
        let known = server.heard().len();
        let held = stage.hold("http_post", &server.arguments(body)).await;
        assert_eq!(server.heard().len(), known, "sent before it was approved");
        let done = stage.approve(&held).await;
        assert_eq!(
            result(&done),
            serde_json::json!({ "status": 201, "body": "noted" })
        );
        let heard = server.heard();
        assert_eq!(heard.len(), known + 1);
        let (head, sent) = heard[known].split_once("\r\n\r\n").unwrap();
        assert_eq!(sent, body);
        assert!(head.starts_with("POST /hooks?a=1 HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("idempotency-key: {}.1", held.id)),
            "{head}"
        );
        let why = stage.undo(&done).await.unwrap_err().to_string();
        assert!(why.contains("declares no `undo` for `http_post`"), "{why}");
    })
    .await;
}

#[tokio::test]
async fn nobody_is_asked_to_send_something_to_another_machine() {
    each(&SETUP, async |stage| {
        for url in [
            "http://example.com/",
            "http://10.0.0.1/",
            "http://127.0.0.1@example.com/",
            "http://localhost.example.com/",
        ] {
            let arguments = serde_json::json!({ "url": url, "body": {} }).to_string();
            stage.forbidden("http_post", &arguments).await;
        }
    })
    .await;
}

#[tokio::test]
async fn only_a_plain_refusal_says_that_nothing_was_done() {
    let cases = [
        (
            "HTTP/1.1 422 No\r\ncontent-length: 7\r\n\r\ntoo old",
            CallState::Failed,
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\ncontent-length: 0\r\n\r\n",
            CallState::Failed,
        ),
        (
            "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
            CallState::Unknown,
        ),
        ("", CallState::Unknown),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\ncut off",
            CallState::Unknown,
        ),
        ("garbage\r\n\r\n", CallState::Unknown),
    ];
    for (answer, expected) in cases {
        let server = server(answer).await;
        each(&SETUP, async |stage| {
            let done = stage.run("http_post", &server.arguments("{}")).await;
            assert_eq!(done.calls[0].state, expected, "{answer}");
        })
        .await;
    }
    // Nothing listens there: nothing was sent.
    each(&SETUP, async |stage| {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let arguments = format!(r#"{{"url":"http://{nobody}/","body":{{}}}}"#);
        assert!(reason(&stage.run("http_post", &arguments).await).contains("cannot be reached"));
    })
    .await;
}

#[tokio::test]
async fn x12_one_call_id_is_sent_once() {
    let server = server(FINE).await;
    let [first, second] = two_permits(&SETUP, "http_post", &server.arguments("{}")).await;
    let world = World::in_memory(&SETUP).unwrap();
    let answer = world.run(first).await;
    assert!(matches!(answer, Outcome::Succeeded(_)), "{answer:?}");
    assert_eq!(world.run(second).await, answer);
    assert_eq!(server.heard().len(), 1);

    // A request whose outcome was never recorded is not sent again: the first run is aborted in the middle.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let arguments = format!(
        r#"{{"url":"http://{}/","body":{{}}}}"#,
        silent.local_addr().unwrap()
    );
    let [first, second] = two_permits(&SETUP, "http_post", &arguments).await;
    let running = tokio::spawn(world.run(first));
    let (_held_open, _) = silent.accept().await.unwrap();
    running.abort();
    let _ = running.await;
    assert!(matches!(world.run(second).await, Outcome::Unknown(_)));
    let more = tokio::time::timeout(Duration::from_millis(200), silent.accept()).await;
    assert!(more.is_err(), "it was sent again");
}
