//! Minimal client for the WebDriver protocol (W3C), with one connection per request.
//!
//! A crate for this would bring twenty others, one of which changes how `serde_json` orders keys in all code under
//! test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Read timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum wait for an element to appear.
const COMES_WITHIN: Duration = Duration::from_secs(20);
/// Key that the protocol uses for element references.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A WebDriver session.
pub struct Browser {
    port: u16,
    session: String,
}

/// An element of the page.
pub struct Element<'b> {
    browser: &'b Browser,
    id: String,
}

impl Browser {
    /// Opens a browser through the driver that listens on `port`.
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

    /// Sends one WebDriver command.
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

    /// Runs a script in the page and returns its result.
    pub fn run(&self, script: &str) -> Result<Value, String> {
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Finds an element by CSS selector. Waits for it, since the page may still be loading after a form was sent.
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

    /// Returns the browser's console messages since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let log = log.unwrap_or_default();
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].to_string()).collect()
    }

    pub fn tab(&self) -> Value {
        self.ask("GET", "/window", &Value::Null).expect("a tab")
    }

    /// Opens another tab and switches to it.
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

    /// Makes pages see the person's preference for a `light` or `dark` colour scheme.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let asked = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.ask("POST", "/goog/cdp/execute", &asked)
            .expect("a colour scheme");
    }

    /// Makes the browser prefer a language, such as `es-UY`.
    pub fn speak(&self, language: &str) {
        let agent = self
            .run("return navigator.userAgent")
            .expect("the browser's name");
        let params = json!({ "userAgent": agent, "acceptLanguage": language });
        let asked = json!({ "cmd": "Emulation.setUserAgentOverride", "params": params });
        self.ask("POST", "/goog/cdp/execute", &asked).expect("a language");
    }

    /// Writes a picture of the window, in base64, to a file in the folder that `COUNTERSIGN_TEST_PICTURES` names. Does
    /// nothing without that variable.
    pub fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("COUNTERSIGN_TEST_PICTURES") {
            let picture = self.ask("GET", "/screenshot", &Value::Null).expect("a picture");
            let file = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
            std::fs::write(file, picture.as_str().unwrap_or_default()).unwrap();
        }
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

    /// Types text at the end of the field.
    pub fn write(&self, text: &str) {
        self.ask("POST", "value", &json!({ "text": text }));
    }

    /// Returns the visible text; `None` if the element is gone.
    pub fn try_text(&self) -> Option<String> {
        let path = format!("/element/{}/text", self.id);
        match self.browser.ask("GET", &path, &Value::Null) {
            Ok(text) => Some(text.as_str().unwrap_or_default().to_owned()),
            Err(error) if error.to_string().contains("stale element") => None,
            Err(error) => panic!("text: {error}"),
        }
    }

    /// Returns the current value of a field.
    pub fn value(&self) -> String {
        let value = self.ask("GET", "property/value", &Value::Null);
        value.as_str().unwrap_or_default().to_owned()
    }
}

/// Sends one request over a new connection. A WebDriver error becomes `Err` with its message.
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
