//! Tests `watch` with the store and with a server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{MARIA, TestFolder};

/// A running command whose output is read line by line.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    notices: Receiver<String>,
}

fn read(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Watching {
    fn start(mut command: Command) -> Watching {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = read(child.stdout.take().unwrap());
        let notices = read(child.stderr.take().unwrap());
        let watching = Watching {
            child,
            lines,
            notices,
        };
        let first = watching.notice();
        assert!(first.contains("waiting for events"), "{first}");
        watching
    }

    fn notice(&self) -> String {
        self.notices.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that both watchers print the same lines.
fn check_both(place: &TestFolder, near: &Watching, far: &Watching) {
    let id = place.propose(&[
        "create_contact",
        "{\"name\":\"Eve\\u001b[2J\",\"email\":\"e@x.y\"}",
        "--agent",
        "crm",
    ]);
    let other = place.propose(&["create_contact", MARIA, "--agent", "other"]);
    place.good(&["approve", &id]);
    place.good(&["deny", &other]);
    for expected in ["proposed", "approved"] {
        let (near, far) = (near.line(), far.line());
        assert_eq!(near, far);
        assert!(near.contains(expected) && near.contains(&id[28..]), "{near}");
        assert!(!near.contains('\u{1b}'), "{near}");
    }
}

#[test]
fn f17_watch_says_the_same_near_and_far() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    for more in [None, Some("--json")] {
        let mut arguments = vec!["watch", "--agent", "crm", "--what", "proposed,approved"];
        arguments.extend(more);
        let near = Watching::start(place.command(&arguments));
        let far = Watching::start(served.command(&person, &arguments));
        check_both(&place, &near, &far);
    }
    let left = place.run(&["watch", "--what", "aproved"]);
    assert!(left.code == 2 && left.stderr.contains("`approved`"), "{left:?}");
    let left = served.run("cst_00", &["watch"]);
    assert!(left.code == 1 && left.stderr.contains("valid token"), "{left:?}");
}

#[test]
fn x32_watch_misses_nothing_when_the_server_is_gone_for_a_while() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let (person, address) = (served.person(), served.address());
    let watching = Watching::start(served.command(&person, &["watch", "--json"]));
    served.kill();
    let lost = watching.notice();
    assert!(lost.contains("trying again"), "{lost}");
    // No event was seen yet, and this one happens while the connection is down.
    let first = place.contact();
    let served = Served::start_at(&place, &address);
    let back = watching.notice();
    assert!(back.contains("no event was missed"), "{back}");
    let approval = |line: String| {
        let happening: Value = serde_json::from_str(&line).unwrap();
        happening["approval"].as_str().unwrap().to_owned()
    };
    assert_eq!(approval(watching.line()), first);
    let second = place.contact();
    assert_eq!(approval(watching.line()), second, "and each comes once");
    drop(served);
}

#[test]
fn watch_ends_with_whoever_reads_it() {
    let place = TestFolder::new();
    let mut command = place.command(&["watch", "--json"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let notices = read(child.stderr.take().unwrap());
    notices.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(child.stdout.take());
    place.contact();
    for _ in 0..100 {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    panic!("still watching for nobody");
}
