//! Tests the inbox on a terminal: the real binary on a pseudo terminal, read by a terminal emulator.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{MARIA, TestFolder};

const ROWS: u16 = 34;
const COLUMNS: u16 = 100;

/// A terminal that runs a command.
pub struct Terminal {
    child: Child,
    seen: Arc<Mutex<Seen>>,
}

/// Output of the terminal, as bytes and as a screen.
struct Seen {
    emulator: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    fn start(place: &TestFolder, more: &[&str], environment: &[(&str, &str)]) -> Terminal {
        Terminal::run(place, &format!("{} inbox", more.join(" ")), environment)
    }

    /// Runs the binary with this command line on a terminal of its own.
    pub fn run(place: &TestFolder, line: &str, environment: &[(&str, &str)]) -> Terminal {
        Terminal::sized(place, (ROWS, COLUMNS), line, environment)
    }

    /// Runs the binary on a terminal with the given size.
    pub fn sized(
        place: &TestFolder,
        (rows, columns): (u16, u16),
        line: &str,
        environment: &[(&str, &str)],
    ) -> Terminal {
        let binary = env!("CARGO_BIN_EXE_countersign");
        let line = format!("stty rows {rows} cols {columns}; '{binary}' {line}; echo ended $?");
        // Give the shell the environment of a command in this folder.
        let prepared = place.command(&[]);
        let mut command = std::process::Command::new("script");
        command
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .current_dir(place.path());
        for (name, value) in prepared.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let seen = Arc::new(Mutex::new(Seen {
            emulator: vt100::Parser::new(rows, columns, 0),
            bytes: Vec::new(),
        }));
        let mut pipe = child.stdout.take().unwrap();
        let shared = seen.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut seen = shared.lock().unwrap();
                seen.emulator.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Terminal { child, seen }
    }

    pub fn press(&mut self, keys: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().emulator.screen().contents()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Waits until the screen contains this text and returns the screen.
    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no `{text}` on\n{}", self.screen());
    }

    /// Waits as long as a person would look: a key pressed too soon after a change decides nothing.
    pub fn look(&self) {
        std::thread::sleep(Duration::from_millis(900));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn check_status(place: &TestFolder, id: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let shown: Value = serde_json::from_str(&place.good(&["show", id, "--json"])).unwrap();
        if shown["status"] == status {
            return shown;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn x15_nothing_in_the_inbox_acts_on_the_terminal() {
    let place = TestFolder::new();
    let evil =
        r#"{"id":"\u001b]0;evil\u0007\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u001b[H\u009b31m\r\b\u202eend"}"#;
    let claim = "trust me\u{1b}[31m\u{1b}]8;;http://evil\u{7}";
    place.propose(&["delete_contact", evil, "--agent", "a\u{202e}b", "--claim", claim]);
    let mut terminal = Terminal::start(&place, &[], &[]);
    terminal.shows("Delete contact");
    for shown in [
        "\\u{1b}]0;evil\\u{7}",
        "\\u{9b}31m",
        "{202e}end",
        "trust me\\u{1b}",
        "warning:",
    ] {
        terminal.shows(shown);
    }
    let screen = terminal.shows("Delete contact");
    assert!(
        screen.starts_with("Countersign inbox"),
        "the screen was cleared:\n{screen}"
    );
    terminal.press("q");
    terminal.shows("ended 0");
    let bytes = terminal.bytes();
    let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(
        !holds(b"\x1b]") && !holds(b"\x07") && !holds("\u{9b}".as_bytes()) && !holds("\u{202e}".as_bytes())
    );
    assert!(
        holds(b"\x1b[?1049l") && holds(b"\x1b[?25h"),
        "the terminal is given back"
    );
}

#[test]
fn d5_a_person_decides_on_a_terminal() {
    let place = TestFolder::new();
    let mut terminal = Terminal::start(&place, &[], &[("EDITOR", "sed -i s/Maria/Ana/")]);
    terminal.shows("No approvals are waiting");
    // The card arrives live; a key pressed before it can have been seen decides nothing.
    let id = place.contact();
    terminal.shows("Create contact Maria Garcia");
    terminal.press("a");
    terminal.shows("read it first");
    terminal.look();
    terminal.press("e");
    terminal.shows("Ana Garcia");
    check_status(&place, &id, "pending");
    terminal.press("cgood idea\r");
    terminal.shows("goes with your decision");
    terminal.press("a");
    terminal.shows("approved ");
    let shown = check_status(&place, &id, "approved");
    assert_eq!(shown["comment"], "good idea");
    assert_eq!(shown["calls"][0]["edited"], true);
    assert_eq!(
        place.good(&["show", &id, "--raw", "1"]),
        MARIA.replace("Maria", "Ana")
    );
    // A destructive call takes a second, different key.
    let id = place.propose(&["delete_contact", r#"{"id":"7"}"#]);
    terminal.shows("Delete contact 7");
    terminal.look();
    terminal.press("aaaa");
    terminal.look();
    check_status(&place, &id, "pending");
    terminal.press("d");
    check_status(&place, &id, "denied");
    // Approve part of a batch.
    place.write("batch.jsonl", "{\"tool\":\"quickly\"}\n{\"tool\":\"slowly\"}\n");
    let id = place.propose(&["--calls", "batch.jsonl"]);
    terminal.shows("[yes]   2");
    terminal.look();
    terminal.press("2");
    terminal.shows("[no ]   2");
    terminal.press("a");
    terminal.shows("press y");
    terminal.press("y");
    let shown = check_status(&place, &id, "approved");
    assert_eq!(shown["calls"][1]["state"], "refused");
    // Another person decides first.
    let id = place.contact();
    terminal.shows("Create contact Maria Garcia");
    place.good(&["deny", &id, "--as", "bob"]);
    terminal.shows("denied by bob");
    terminal.press("a");
    terminal.shows("it has ended");
    terminal.press("?");
    terminal.shows("Keys (any key closes this)");
    terminal.press("\u{3}");
    terminal.shows("ended 0");
}

#[test]
fn d2_the_inbox_works_over_a_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    let id = place.contact();
    let url = served.url.clone();
    let environment = [
        ("COUNTERSIGN_SERVER", url.as_str()),
        ("COUNTERSIGN_TOKEN", person.as_str()),
    ];
    let mut terminal = Terminal::start(&place, &["--color=never"], &environment);
    terminal.shows(&format!("at {url}"));
    terminal.shows("Create contact Maria Garcia");
    terminal.look();
    terminal.press("a");
    let shown = check_status(&place, &id, "approved");
    assert_eq!(shown["decidedOn"], "api");
    place.contact();
    terminal.shows("1 waits for a decision");
    let address = served.address();
    served.kill();
    terminal.shows("OFFLINE");
    let again = Served::start_at(&place, &address);
    place.propose(&["delete_contact", r#"{"id":"8"}"#]);
    terminal.shows("Delete contact 8");
    assert!(!terminal.screen().contains("OFFLINE"));
    terminal.press("q");
    terminal.shows("ended 0");
    drop(again);
}

#[test]
fn the_inbox_needs_a_terminal() {
    let place = TestFolder::new();
    let left = place.run(&["inbox"]);
    assert!(
        left.code == 2 && left.stderr.contains("needs a terminal"),
        "{left:?}"
    );
}
