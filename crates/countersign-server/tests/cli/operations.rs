//! Tests maintenance of a store: doctor, backup, restore, purge.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::served::Served;
use crate::terminal::Terminal;
use crate::test_folder::{MARIA, TestFolder};

fn chmod(place: &TestFolder, name: &str, mode: u32) {
    let path = place.path().join(name);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Checks `doctor`: the state of one finding, and the exit code.
#[track_caller]
fn check_doctor(place: &TestFolder, arguments: &[&str], subject: &str, state: &str, code: i32) {
    let arguments: Vec<&str> = ["--json", "doctor"].iter().chain(arguments).copied().collect();
    let left = place.run(&arguments);
    assert_eq!(left.code, code, "{left:?}");
    let report: Value = serde_json::from_str(&left.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of_subject = |finding: &&Value| finding["subject"] == subject && finding["state"] == state;
    let found = findings.iter().find(of_subject);
    let found = found.unwrap_or_else(|| panic!("no {state} about {subject} in {report:#}"));
    assert_eq!(found["hint"].is_string(), state != "good", "{found}");
    assert_eq!(report["ok"], code == 0);
}

#[test]
fn h06_doctor_finds_what_is_not_as_it_should_be() {
    let place = TestFolder::new();
    check_doctor(&place, &[], "store", "good", 0);
    assert!(
        !place.path().join("countersign.db").exists(),
        "looking makes nothing"
    );
    place.contact();
    check_doctor(&place, &[], "file", "good", 0);
    // X18: `doctor` warns that a shared system account is no boundary between an agent and a person.
    check_doctor(&place, &[], "accounts", "warning", 0);
    place.good(&[
        "token",
        "create",
        "--agent",
        "a",
        "--scope",
        "propose",
        "--expires",
        "2d",
    ]);
    check_doctor(&place, &[], "tokens", "warning", 0);
    chmod(&place, "countersign.db", 0o644);
    check_doctor(&place, &[], "file", "problem", 1);
    chmod(&place, "countersign.db", 0o600);
    place.write("countersign-serve.toml", "listne = \"127.0.0.1:1\"\n");
    check_doctor(&place, &[], "configuration", "problem", 1);
    place.write("countersign-serve.toml", "listen = \"127.0.0.1:1\"\n");
    check_doctor(&place, &[], "configuration", "good", 0);
    place.write("seal.key", place.good(&["key", "generate"]));
    let key = place.path().join("seal.key").display().to_string();
    chmod(&place, "seal.key", 0o644);
    check_doctor(&place, &["--seal-key-file", &key], "sealing key", "problem", 1);
    chmod(&place, "seal.key", 0o600);
    check_doctor(&place, &["--seal-key-file", &key], "sealing key", "good", 0);
    place.write("other.toml", "[tools.x]\nefect = 1\n");
    check_doctor(&place, &["--policy", "other.toml"], "policy", "problem", 1);
    place.write(
        "not.db",
        "this is no database at all, but long enough to be looked at as one",
    );
    chmod(&place, "not.db", 0o600);
    check_doctor(&place, &["--store", "not.db"], "store", "problem", 1);
    let text = place.good(&["doctor"]);
    assert!(
        text.contains("hint: ") && text.contains("another account"),
        "{text}"
    );
}

#[test]
fn h02_doctor_looks_at_a_server() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    let look = |url: &str, token: &str| {
        let left = place.run(&["doctor", "--json", "--server", url, "--token", token]);
        let report: Value = serde_json::from_str(&left.stdout).unwrap();
        (left.code, report.to_string())
    };
    let (code, report) = look(&served.url, &person);
    assert!(code == 0 && report.contains("both sides are"), "{report}");
    let (code, report) = look(&served.url, "cst_1");
    assert!(code == 1 && report.contains("valid token"), "{report}");
    let (code, report) = look("http://192.0.2.1", &person);
    assert!(code == 1 && report.contains("unencrypted"), "{report}");
    let url = served.url.clone();
    served.kill();
    let (code, report) = look(&url, &person);
    assert!(code == 1 && report.contains("cannot be reached"), "{report}");
}

#[test]
fn x33_a_restored_store_is_a_new_beginning() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let person = served.person();
    let (pending, approved) = (place.contact(), place.contact());
    let done = place.contact();
    place.good(&["approve", &approved]);
    place.good(&["approve", &done]);
    place.good(&["wait", &done, "--exec", "cat"]);
    // A backup while the service has the store open.
    place.good(&["backup", "copy.db"]);
    // Changes after the backup.
    place.good(&["approve", &pending]);
    place.good(&["wait", &pending, "--exec", "cat"]);
    let left = place.run(&["backup", "copy.db"]);
    assert!(
        left.code == 1 && left.stderr.contains("already exists"),
        "{left:?}"
    );
    let left = place.run(&["restore", "copy.db"]);
    assert!(
        left.code == 1 && left.stderr.contains("not overwritten"),
        "{left:?}"
    );
    served.kill();
    let voided = place.json(&["restore", "copy.db", "--store", "new.db"]);
    assert_eq!(
        voided,
        serde_json::json!({ "pending": 1, "released": 1, "running": 0 })
    );
    assert!(!place.path().join("new.restoring").exists());
    let status = |id: &str| place.json(&["show", id, "--store", "new.db"]);
    assert_ne!(status(&pending)["status"], "pending");
    assert_eq!(status(&approved)["calls"][0]["state"], "refused");
    assert_eq!(status(&done)["calls"][0]["state"], "succeeded");
    let left = place.run(&["approve", &pending, "--store", "new.db"]);
    assert_eq!(left.code, 4, "{left:?}");
    place.script("tool", "touch ran");
    place.run(&["wait", &approved, "--store", "new.db", "--exec", "./tool"]);
    assert!(
        !place.path().join("ran").exists(),
        "what was approved before is not run now"
    );
    let tokens = place.good(&["token", "list", "--store", "new.db"]);
    assert!(tokens.starts_with("No tokens"), "{tokens}");
    assert!(person.starts_with("cst_"));
    // A damaged backup is refused.
    let path = place.path().join("copy.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let left = place.run(&["restore", "copy.db", "--store", "third.db"]);
    assert_eq!(left.code, 1, "{left:?}");
    assert!(!place.path().join("third.db").exists());
    let left = place.run(&["backup", "x", "--store", "postgres://127.0.0.1/x"]);
    assert!(left.code == 2 && left.stderr.contains("pg_dump"), "{left:?}");
}

#[test]
fn h15_purge_erases_content_and_keeps_what_happened() {
    let place = TestFolder::new();
    let id = place.propose(&["create_contact", MARIA]);
    place.good(&["deny", &id]);
    let left = place.run(&["purge"]);
    assert_eq!(left.code, 2, "how old has to be said: {left:?}");
    assert!(place.good(&["purge", "--older-than", "90d"]).contains(" 0 "));
    // Without a terminal nobody can be asked, so nothing is erased.
    let refused = place.run(&["purge", "--older-than", "0s"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("--yes"),
        "{refused:?}"
    );
    let counted = place.good(&["purge", "--older-than", "0s", "--dry-run"]);
    assert!(
        counted.contains("would erase the content of 1 approval"),
        "{counted}"
    );
    assert!(place.good(&["show", &id]).contains("maria@acme.com"));
    assert!(
        place
            .good(&["purge", "--older-than", "0s", "--yes"])
            .contains(" 1 ")
    );
    let card = place.good(&["show", &id, "--events"]);
    assert!(
        !card.contains("maria@acme.com") && card.contains("erased"),
        "{card}"
    );
    assert!(card.contains("denied"), "{card}");
}

#[test]
fn h15_purge_asks_at_a_terminal() {
    let place = TestFolder::new();
    let id = place.propose(&["create_contact", MARIA]);
    place.good(&["deny", &id]);
    for (answer, is_erased) in [("n", false), ("", false), ("y", true)] {
        let mut terminal = Terminal::run(&place, "purge --older-than 0s", &[]);
        terminal.shows("Erase the content of 1 approval for good? [y/N]");
        terminal.press(&format!("{answer}\r"));
        terminal.shows("ended 0");
        let card = place.good(&["show", &id]);
        assert_eq!(!card.contains("maria@acme.com"), is_erased, "{answer}: {card}");
    }
}

#[test]
fn c7_the_guide_is_printed_as_the_library_has_it() {
    let place = TestFolder::new();
    assert_eq!(place.good(&["guide"]), countersign::gate::GUIDE);
    assert_eq!(place.json(&["guide"])["guide"], countersign::gate::GUIDE);
}

#[test]
fn a_link_leads_to_the_service_that_runs_here() {
    let place = TestFolder::new();
    place.good(&["person", "add", "ana"]);
    let usual = place.good(&["person", "link", "ana"]);
    assert!(
        usual.starts_with("http://localhost:8787/sign-in?code="),
        "{usual}"
    );
    let served = Served::start(&place);
    let link = place.good(&["person", "link", "ana"]);
    assert!(
        link.starts_with(&format!("{}/sign-in?code=", served.url)),
        "{link}"
    );
    let named = place.good(&["person", "link", "ana", "--server", "https://c.example.com"]);
    assert!(
        named.starts_with("https://c.example.com/sign-in?code="),
        "{named}"
    );
}

/// Returns everything the service logs to standard error, from start to end.
fn logged(color: &str) -> String {
    let place = TestFolder::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--color", color]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(child.wait().unwrap().success(), "{log}");
    log
}

#[test]
fn a_log_has_colours_only_where_somebody_looks() {
    for color in ["auto", "never"] {
        let log = logged(color);
        assert!(log.contains("stopping") && !log.contains('\x1b'), "{log}");
    }
    assert!(logged("always").contains('\x1b'));
}
