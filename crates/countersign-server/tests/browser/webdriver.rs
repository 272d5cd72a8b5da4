//! The few words of the WebDriver protocol (W3C) that these tests speak, over one plain connection per request.
//!
//! A crate for this brings twenty others, and one of those changes how `serde_json` orders keys in everything that is
//! tested beside it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a page may take to come.
const COMES_WITHIN: Duration = Duration::from_secs(20);
/// The name under which the protocol hands elements around.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One browser.
pub struct Browser {
    port: u16,
    session: String,
}

/// Something on the page.
pub struct Element<'b> {
    browser: &'b Browser,
    id: String,
}

impl Browser {
    /// Opens a browser, through the driver that listens on `port`.
    pub fn open(port: u16, program: &str, arguments: &[String]) -> Browser {
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "binary": program, "args": arguments },
        } } });
        let opened = request(port, "POST", "/session", &wanted).expect("a browser");
        let session = opened["sessionId"].as_str().expect("a session").to_owned();
        Browser { port, session }
    }

    /// One command.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        request(self.port, method, &path, body)
    }

    pub fn goto(&self, address: &str) {
        self.ask("POST", "/url", &json!({ "url": address }))
            .expect("a page");
    }

    pub fn address(&self) -> String {
        let address = self.ask("GET", "/url", &Value::Null).expect("an address");
        address.as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script in the page and gives what it returns.
    pub fn run(&self, script: &str) -> Result<Value, String> {
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits for it: a page that was asked for by a form may still be on its way.
    pub fn find(&self, css: &str) -> Element<'_> {
        let wanted = json!({ "using": "css selector", "value": css });
        let begin = Instant::now();
        let found = loop {
            match self.ask("POST", "/element", &wanted) {
                Ok(found) => break found,
                Err(error) => assert!(begin.elapsed() < COMES_WITHIN, "{css}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        Element {
            browser: self,
            id: found[ELEMENT].as_str().expect("an element").to_owned(),
        }
    }

    /// Presses keys one after the other, wherever the focus is.
    pub fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|what| json!({ "type": what, "value": key })))
            .collect();
        let keyboard = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] });
        self.ask("POST", "/actions", &keyboard).expect("keys");
    }

    pub fn cookie(&self, name: &str) -> Value {
        let cookie = self.ask("GET", &format!("/cookie/{name}"), &Value::Null);
        cookie.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What the browser complained about since it was last asked.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let log = log.unwrap_or_default();
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].to_string()).collect()
    }

    pub fn tab(&self) -> Value {
        self.ask("GET", "/window", &Value::Null).expect("a tab")
    }

    /// Opens another tab and goes there.
    pub fn open_tab(&self) {
        let opened = self.ask("POST", "/window/new", &json!({ "type": "tab" }));
        self.switch_to(&opened.expect("a tab")["handle"]);
    }

    pub fn switch_to(&self, tab: &Value) {
        self.ask("POST", "/window", &json!({ "handle": tab }))
            .expect("a tab");
    }

    pub fn close_tab(&self) {
        self.ask("DELETE", "/window", &Value::Null).expect("a tab");
    }

    pub fn source(&self) -> String {
        let source = self.ask("GET", "/source", &Value::Null).unwrap_or_default();
        source.as_str().unwrap_or_default().to_owned()
    }

    pub fn quit(&self) {
        // The driver may be gone already.
        let _ = self.ask("DELETE", "", &Value::Null);
    }
}

impl Element<'_> {
    fn ask(&self, method: &str, what: &str, body: &Value) -> Value {
        let path = format!("/element/{}/{what}", self.id);
        let answer = self.browser.ask(method, &path, body);
        answer.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    pub fn click(&self) {
        self.ask("POST", "click", &json!({}));
    }

    pub fn clear(&self) {
        self.ask("POST", "clear", &json!({}));
    }

    /// Types at its end.
    pub fn write(&self, text: &str) {
        self.ask("POST", "value", &json!({ "text": text }));
    }

    /// What can be read on it.
    pub fn text(&self) -> String {
        let text = self.ask("GET", "text", &Value::Null);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// What stands in a field.
    pub fn value(&self) -> String {
        let value = self.ask("GET", "property/value", &Value::Null);
        value.as_str().unwrap_or_default().to_owned()
    }
}

/// One request, one connection. An answer that is an error comes back as its sentence.
fn request(port: u16, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("the driver does not answer: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).map_err(failed)?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).map_err(failed)?;
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).map_err(failed)?;
    let answer: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let value = answer["value"].clone();
    match value.get("error").and_then(Value::as_str) {
        Some(error) => Err(format!("{error}: {}", value["message"])),
        None => Ok(value),
    }
}
