//! A server that answers each connection with given bytes and records the requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::time::Time;
use countersign_agent::message::{CallResult, Message, ModelCall, Source};
use countersign_agent::model::{AnswerPart, ApiKey, Endpoint, Model, ModelError, Request, RetryPolicy};
use countersign_agent::tool::Tool;
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Response to one connection.
#[derive(Clone, Debug)]
pub struct FakeResponse {
    /// Status line, headers and body, as sent.
    pub bytes: Vec<u8>,
    /// Offset at which the bytes are split into two writes.
    pub cut: usize,
    /// True if the connection stays open and silent after the bytes.
    pub hangs: bool,
}

pub fn stream(body: &str) -> FakeResponse {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n";
    FakeResponse {
        bytes: format!("{head}{body}").into_bytes(),
        cut: 0,
        hangs: false,
    }
}

pub fn status(line: &str, headers: &str, body: &str) -> FakeResponse {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {line}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    FakeResponse {
        bytes: format!("{head}{body}").into_bytes(),
        cut: 0,
        hangs: false,
    }
}

pub struct Server {
    pub url: String,
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers connections in order; the last answer is repeated.
    pub async fn start(answers: Vec<FakeResponse>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = asked.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answers[number.min(answers.len() - 1)].clone();
                tokio::spawn(serve(stream, answer, log.clone()));
            }
        });
        Server { url, asked }
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(&self.url, Some(ApiKey::new("sk-secret")), retry_policy()).unwrap()
    }

    pub fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        connect: Duration::from_secs(2),
        first_byte: Duration::from_millis(600),
        idle: Duration::from_millis(400),
        attempts: 3,
        pause: Duration::from_millis(5),
    }
}

async fn serve(mut stream: TcpStream, answer: FakeResponse, log: Arc<Mutex<Vec<String>>>) {
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).await.unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            if read == 0 || body.len() >= length.unwrap_or(0) {
                break;
            }
        }
    }
    log.lock().unwrap().push(String::from_utf8(request).unwrap());
    let (first, second) = answer.bytes.split_at(answer.cut.min(answer.bytes.len()));
    // The client may have closed the connection.
    let _ = stream.write_all(first).await;
    let _ = stream.flush().await;
    if !first.is_empty() {
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    let _ = stream.write_all(second).await;
    let _ = stream.flush().await;
    if answer.hangs {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

pub fn request() -> Request {
    let tools = r#"[{"name":"create_contact","description":"Creates","input_schema":{"type":"object" , "x":1e2}},
        {"name":"carpeta/delete-potreros","description":"Borra","input_schema":{"type":"object"}}]"#;
    Request {
        role: "contacts".to_owned(),
        system: "You keep \"contacts\".".to_owned(),
        messages: vec![
            Message::Person {
                text: "Hello".to_owned(),
                at: Time::from_micros(0),
            },
            Message::Agent {
                text: "Looking.".to_owned(),
                calls: vec![
                    call("t1", "create_contact", r#"{"n":9007199254740993 }"#),
                    call("t2", "carpeta/delete-potreros", "{broken"),
                ],
            },
            Message::Results {
                results: vec![result("t1", false, "{\"ok\":1}"), result("t2", true, "no")],
            },
            Message::Reply {
                text: "yes".to_owned(),
            },
            Message::Channel {
                text: "not for models".to_owned(),
            },
        ],
        tools: Tool::read_all(tools).unwrap(),
        may_call: true,
        most_tokens: 77,
    }
}

pub fn call(id: &str, tool: &str, arguments: &str) -> ModelCall {
    ModelCall {
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn result(id: &str, is_error: bool, content: &str) -> CallResult {
    CallResult {
        id: id.to_owned(),
        tool: "t".to_owned(),
        status: "ok".to_owned(),
        is_error,
        content: content.to_owned(),
        from: Source::Tool,
    }
}

/// Collects the whole answer, or the parts before an error with the error. Consecutive texts are joined.
pub async fn collect(model: &dyn Model, request: Request) -> (Vec<AnswerPart>, Option<ModelError>) {
    let mut stream = model.answer(request);
    let mut parts: Vec<AnswerPart> = Vec::new();
    while let Some(part) = stream.next().await {
        match (part, parts.last_mut()) {
            (Ok(AnswerPart::Text(more)), Some(AnswerPart::Text(text))) => text.push_str(&more),
            (Ok(part), _) => parts.push(part),
            (Err(error), _) => return (parts, Some(error)),
        }
    }
    (parts, None)
}
