//! Faults of a running service: late answers, a broken store, a missing file, a full disk, a wrong clock.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::served::Served;
use crate::test_folder::TestFolder;

const POLICY: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n\
                      [tools.pay]\neffect = \"external\"\ntimeout = \"1s\"\n\
                      [tools.slow]\neffect = \"external\"\ntimeout = \"60s\"\n\
                      [tools.note]\neffect = \"external\"\n";
/// Time limit for anything the tests wait for, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tool that reports when it is called, and answers only when the test tells it to.
struct Tool {
    port: u16,
    called: Receiver<()>,
    answer: Sender<()>,
}

impl Tool {
    fn start() -> Tool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (calls, called) = channel();
        let (answer, told) = channel::<()>();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                read_request(&mut stream);
                calls.send(()).unwrap();
                if told.recv().is_err() {
                    return;
                }
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"paid\":42}",
                );
            }
        });
        Tool { port, called, answer }
    }

    /// Configures a service to run `pay` and `slow` with this tool.
    fn configure(&self, place: &TestFolder) {
        let port = self.port;
        let tool = |name: &str| {
            format!("[tools.{name}]\nurl = \"http://127.0.0.1:{port}/\"\nkey_env = \"PAY_KEY\"\n")
        };
        place.write(
            "countersign-serve.toml",
            format!(
                "private_targets = [\"127.0.0.1:{port}\"]\n{}{}",
                tool("pay"),
                tool("slow")
            ),
        );
    }
}

fn read_request(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
}

fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

/// Waits until a call is in this state.
#[track_caller]
fn wait_for(place: &TestFolder, id: &str, state: &str) -> Value {
    let begun = Instant::now();
    loop {
        let shown = place.json(&["show", id]);
        if shown["calls"][0]["state"] == state {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "not {state}: {shown:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn x87_a_late_answer_of_a_tool_is_taken() {
    let (place, tool) = (place(), Tool::start());
    tool.configure(&place);
    let served = Served::start(&place);
    let (agent, ana) = (served.agent(), served.person());
    let id = served.propose(&agent, &["pay", "{}", "--channel", "c-1"]);
    served.run(&ana, &["approve", &id]);
    tool.called.recv_timeout(PATIENCE).unwrap();
    let unknown = wait_for(&place, &id, "unknown");
    assert!(!unknown.to_string().contains("paid"), "{unknown:#}");
    tool.answer.send(()).unwrap();
    let shown = wait_for(&place, &id, "succeeded");
    assert!(shown.to_string().contains("paid"), "{shown:#}");
    let history = served.good(&ana, &["show", &id, "--events"]);
    assert!(
        history.contains("call 1 answered late: it succeeded"),
        "{history}"
    );
    // A late answer after a person has reconciled the call is recorded, but the person's statement stands.
    let id = served.propose(&agent, &["pay", "{}"]);
    served.run(&ana, &["approve", &id]);
    tool.called.recv_timeout(PATIENCE).unwrap();
    wait_for(&place, &id, "unknown");
    place.good(&[
        "reconcile",
        &format!("{id}.1"),
        "--failed",
        "--note",
        "not in the ledger",
    ]);
    tool.answer.send(()).unwrap();
    let begun = Instant::now();
    loop {
        let history = served.good(&ana, &["show", &id, "--events"]);
        if history.contains("answered late that it succeeded") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{history}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "failed");
}

/// A service with a limit on the size of its files. SIGXFSZ is ignored, so a write beyond the limit fails as on a
/// broken disk.
struct Limited {
    child: Child,
    url: String,
}

impl Limited {
    fn start(place: &TestFolder, blocks: usize) -> Limited {
        let plain = place.command(&["serve", "--listen", "127.0.0.1:0", "--color", "never"]);
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""),
            ])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PAY_KEY", "0123456789abcdef0123456789abcdef")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.current_dir(plain.get_current_dir().unwrap_or(place.path()));
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let url = first.split_whitespace().last().unwrap();
        Limited {
            url: url.trim_end_matches("/approvals").to_owned(),
            child,
        }
    }

    /// Sends one request; returns the status and the body.
    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// Waits for the service to end; returns its exit code and its standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// X86 and X87: the disk breaks while a tool runs. The service reports it and ends; the tool's answer is recorded after
/// the next start.
#[test]
fn x86_x87_a_service_that_cannot_write_ends_and_the_outcome_survives() {
    let (place, tool) = (place(), Tool::start());
    tool.configure(&place);
    // Create the tokens before the limit is in force.
    let first = Served::start(&place);
    let (agent, ana) = (first.agent(), first.person());
    first.kill();
    let limited = Limited::start(&place, 4 * 1024 * 2);
    let propose = |tool: &str, filler: usize| {
        let text = "x".repeat(filler);
        let body = format!("{{\"calls\":[{{\"tool\":\"{tool}\",\"arguments\":{{\"text\":\"{text}\"}}}}]}}");
        limited.ask(&agent, "POST", "/v1/calls", &body)
    };
    let (status, answer) = propose("slow", 1).unwrap();
    assert_eq!(status, 200, "{answer}");
    let id = answer
        .split("\"id\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .to_owned();
    let shown = place.json(&["show", &id]);
    let digest = shown["digest"].as_str().unwrap().to_owned();
    let deciding = std::thread::spawn({
        let (url, ana, id) = (limited.url.clone(), ana, id.clone());
        move || {
            let host = url.trim_start_matches("http://").to_owned();
            let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).unwrap();
            let body = format!("{{\"approved\":true,\"digest\":\"{digest}\"}}");
            let request = format!(
                "POST /v1/approvals/{id} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {ana}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text);
            text
        }
    });
    tool.called.recv_timeout(PATIENCE).unwrap();
    let begun = Instant::now();
    let mut acknowledged = 1;
    loop {
        match propose("note", 60_000) {
            Some((200, _)) => acknowledged += 1,
            Some((503, answer)) => {
                assert!(answer.contains("stop"), "{answer}");
                break;
            }
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < PATIENCE, "the limit is never reached");
    }
    if let Some((status, answer)) = limited.ask("", "GET", "/readyz", "") {
        assert_eq!(status, 503, "{answer}");
    }
    tool.answer.send(()).unwrap();
    let (code, said) = limited.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing can be written any more"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    // The decision was acknowledged and stands.
    let answered = deciding.join().unwrap();
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    let kept = place.path().join("countersign.db-outcomes");
    assert!(kept.exists(), "{said}");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "running");
    let _again = Served::start(&place);
    let shown = wait_for(&place, &id, "succeeded");
    assert!(shown.to_string().contains("paid"), "{shown:#}");
    let begun = Instant::now();
    while kept.exists() {
        assert!(
            begun.elapsed() < PATIENCE,
            "it is on record, and no longer needed"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let listed = place.json(&["list", "--all", "--limit", "200"]);
    assert_eq!(listed["approvals"].as_array().unwrap().len(), acknowledged);
}

/// X91: the store's file is deleted or replaced while a service uses it.
#[test]
fn x91_a_service_whose_file_is_gone_ends() {
    for replaced in [false, true] {
        let place = place();
        let first = Served::start(&place);
        let agent = first.agent();
        first.kill();
        let service = Limited::start(&place, 1 << 30);
        let body = "{\"calls\":[{\"tool\":\"note\",\"arguments\":{}}]}";
        let propose = || service.ask(&agent, "POST", "/v1/calls", body);
        assert_eq!(propose().unwrap().0, 200);
        let file = place.path().join("countersign.db");
        std::fs::rename(&file, place.path().join("away")).unwrap();
        if replaced {
            std::fs::copy(place.path().join("away"), &file).unwrap();
        }
        if let Some((status, answer)) = propose() {
            assert_eq!(status, 503, "{answer}");
        }
        let (code, said) = service.end();
        assert_eq!(code, Some(1), "{said}");
        let what = match replaced {
            true => "was replaced by another file",
            false => "was moved to",
        };
        assert!(said.contains(what), "{said}");
        assert!(said.contains("mv -n "), "{said}");
    }
}

/// X89: more calls than fit on one page are approved while the service that runs them is down.
#[test]
fn x89_everything_that_was_approved_meanwhile_is_run() {
    const CALLS: usize = 620;
    let place = place();
    place.write("countersign-serve.toml", "[tools.pay]\necho = true\n");
    // Approve through the library; by command line it would take minutes.
    crate::many::approve_many(&place.path().join("countersign.db"), "pay", CALLS);
    let _served = Served::start(&place);
    let begun = Instant::now();
    loop {
        let states = crate::many::call_states(&place.path().join("countersign.db"));
        let done = states.iter().filter(|state| *state == "succeeded").count();
        if done == CALLS {
            break;
        }
        assert!(begun.elapsed() < PATIENCE * 2, "{done} of {CALLS} were run");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// X85: files of another store are left next to the restore target.
#[test]
fn x85_nothing_is_restored_beside_the_log_of_another_store() {
    let place = TestFolder::new();
    let kept = place.contact();
    place.good(&["backup", "copy.db"]);
    for left in [
        "countersign.db-wal",
        "countersign.db-shm",
        "countersign.db-journal",
    ] {
        let _ = std::fs::remove_file(place.path().join("countersign.db"));
        place.write(left, "the log of another store");
        let refused = place.run(&["restore", "copy.db"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains(left), "{refused:?}");
        let command = format!("mv {left} old/");
        assert!(refused.stderr.contains(&command), "{refused:?}");
        assert!(!place.path().join("countersign.db").exists());
        std::fs::remove_file(place.path().join(left)).unwrap();
    }
    // The hint's command moves all of them away together.
    place.write("countersign.db", "");
    place.write("countersign.db-wal", "");
    let refused = place.run(&["restore", "copy.db"]);
    let command = refused
        .stderr
        .split('`')
        .find(|part| part.starts_with("mkdir old"))
        .unwrap();
    let moved = Command::new("sh")
        .args(["-c", command])
        .current_dir(place.path())
        .status();
    assert!(moved.unwrap().success(), "{refused:?}");
    place.good(&["restore", "copy.db"]);
    assert_ne!(place.json(&["show", &kept])["status"], "pending");
    assert!(!place.path().join("countersign.db-wal").exists());
}

/// X92: `doctor` finds damaged pages.
#[test]
fn x92_doctor_finds_damaged_pages() {
    let place = TestFolder::new();
    for _ in 0..18 {
        place.contact();
    }
    let good = place.run(&["doctor"]);
    assert!(good.stdout.contains("pages: SQLite's "), "{good:?}");
    let path = place.path().join("countersign.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // All pages but the first few, which hold the schema, so that some contain rows.
    for page in bytes.chunks_mut(4096).skip(8) {
        page[100..600].fill(0xa5);
    }
    std::fs::write(&path, bytes).unwrap();
    let left = place.run(&["--json", "doctor"]);
    assert_eq!(left.code, 1, "{left:?}");
    let report: Value = serde_json::from_str(&left.stdout).unwrap();
    let pages = |finding: &&Value| finding["subject"] == "pages";
    let found = report["findings"].as_array().unwrap().iter().find(pages).unwrap();
    assert_eq!(found["state"], "problem", "{report:#}");
    assert!(found["hint"].as_str().unwrap().contains("restore"), "{found}");
}

#[test]
fn x92_a_store_whose_time_is_ahead_is_told_and_reset() {
    let place = TestFolder::new();
    let before = place.contact();
    let agent = place.good(&["token", "create", "--agent", "crm", "--scope", "propose"]);
    assert!(agent.starts_with("cst_"));
    // A process wrote while the clock was 32 days ahead.
    let ahead = crate::many::propose_ahead(
        &place.path().join("countersign.db"),
        Duration::from_secs(32 * 86_400 + 1_800),
    );
    let told = place.good(&["clock"]);
    assert!(
        told.contains("the store is 32d 0h ahead of this machine"),
        "{told}"
    );
    let doctor = place.run(&["doctor"]);
    assert!(doctor.stdout.contains("countersign clock --reset"), "{doctor:?}");
    let late = place.run(&["approve", &before]);
    assert_eq!(late.code, 4, "it is over by the store's time: {late:?}");
    let reset = place.good(&["clock", "--reset"]);
    assert!(reset.contains("1 pending"), "{reset}");
    assert!(reset.contains("they agree"), "{reset}");
    assert_eq!(place.json(&["show", &ahead])["status"], "withdrawn");
    let tokens = place.json(&["token", "list"]);
    assert!(tokens.to_string().contains("crm"), "{tokens}");
    // Time continues from here, also after the next start.
    let id = place.contact();
    place.good(&["approve", &id]);
    assert!(place.good(&["clock"]).contains("they agree"));
}

/// Runs a test of this binary in a child process, in a user namespace where a small file system is mounted.
#[track_caller]
fn run_on_small_disk(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        "mount -t tmpfs -o size=6m,mode=0700 tmpfs \"$COUNTERSIGN_TEST_FAULT_FOLDER\" && exec \"$0\" \"$@\"";
    let shell = format!("exec unshare -rm sh -c '{mount}' \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &shell])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("COUNTERSIGN_TEST_FAULT_FOLDER", folder.path());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success() && said[0].contains("1 passed"),
        "{said:?}"
    );
}

/// X87: the disk is full when the service is stopped. The tool's answer is saved all the same.
#[test]
fn x87_on_a_full_disk_the_outcome_is_kept() {
    run_on_small_disk("faults::stops_on_a_full_disk");
}

#[test]
#[ignore = "the other half of the test above"]
fn stops_on_a_full_disk() {
    let Some(folder) = std::env::var_os("COUNTERSIGN_TEST_FAULT_FOLDER") else {
        return;
    };
    let folder = std::path::PathBuf::from(folder);
    // With the reserved disk space, and without it.
    for has_room in [true, false] {
        let (mut place, tool) = (place(), Tool::start());
        let store = folder.join(format!("{has_room}.db"));
        place.keep_in(store.to_str().unwrap());
        tool.configure(&place);
        let first = Served::start(&place);
        let (agent, ana) = (first.agent(), first.person());
        first.kill();
        let limited = Limited::start(&place, 1 << 30);
        let body = "{\"calls\":[{\"tool\":\"slow\",\"arguments\":{}}]}";
        let (status, answer) = limited.ask(&agent, "POST", "/v1/calls", body).unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["approval"]["id"].as_str().unwrap().to_owned();
        let digest = answer["approval"]["digest"].as_str().unwrap();
        let body = format!("{{\"approved\":true,\"digest\":\"{digest}\"}}");
        let (url, path) = (limited.url.clone(), format!("/v1/approvals/{id}"));
        let deciding = std::thread::spawn(move || {
            let host = url.trim_start_matches("http://").to_owned();
            let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).unwrap();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {ana}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            let _ = stream.read_to_string(&mut String::new());
        });
        tool.called.recv_timeout(PATIENCE).unwrap();
        let room = folder.join(format!("{has_room}.db-outcomes.room"));
        assert!(room.exists());
        if !has_room {
            std::fs::remove_file(&room).unwrap();
        }
        let ballast = folder.join("ballast");
        fill(&ballast);
        tool.answer.send(()).unwrap();
        // Give the service time to fail at recording the outcome.
        std::thread::sleep(Duration::from_secs(1));
        let pid = limited.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.unwrap().success());
        let (code, said) = limited.end();
        let kept = folder.join(format!("{has_room}.db-outcomes"));
        std::fs::remove_file(&ballast).unwrap();
        if has_room {
            assert_eq!((code, kept.exists()), (Some(0), true), "{said}");
            let _again = Served::start(&place);
            let shown = wait_for(&place, &id, "succeeded");
            assert!(shown.to_string().contains("paid"), "{shown:#}");
        } else {
            assert_eq!((code, kept.exists()), (Some(1), false), "{said}");
            assert!(
                said.contains(&format!("{id}.1")) && said.contains("reconcile"),
                "{said}"
            );
        }
        deciding.join().unwrap();
    }
}

/// Writes to the file `ballast` until the disk is full.
fn fill(ballast: &std::path::Path) {
    let mut file = std::fs::File::create(ballast).unwrap();
    for size in [65_536, 4_096, 512, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}
