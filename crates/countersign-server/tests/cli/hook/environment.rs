//! The command line that `hook install` wrote determines the store or server of a hook; the environment does not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::{LS, agents, before, blocks, one, pending, state};
use crate::test_folder::{Left, TestFolder};

/// Starts a server that answers every request with an error and counts the connections.
fn stranger() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (url, count)
}

/// Installs a hook and returns its command, which the coding agent runs in a shell.
fn installed(place: &TestFolder, arguments: &[&str]) -> String {
    let install = ["hook", "install", "claude-code", "--settings", "settings.json"];
    let all: Vec<&str> = install.iter().chain(arguments).copied().collect();
    place.good(&all);
    let text = std::fs::read(place.path().join("settings.json")).unwrap();
    let settings: Value = serde_json::from_slice(&text).unwrap();
    let command = &settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"];
    command.as_str().unwrap().to_owned()
}

fn shell(place: &TestFolder, command: &str, set: &[(&str, &str)]) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir("/")
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("USER", "ana")])
        .env("HOME", place.path().join("home"))
        .envs(set.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell
}

fn answer(place: &TestFolder, command: &str, set: &[(&str, &str)], event: &str) -> Left {
    Left::of(
        super::fed(shell(place, command, set), event.as_bytes())
            .wait_with_output()
            .unwrap(),
    )
}

#[test]
fn the_environment_does_not_redirect_an_installed_hook() {
    let place = agents();
    let command = installed(&place, &["--hold", "30s"]);
    let (url, visits) = stranger();
    place.write("other.toml", "[tools.Bash]\neffect = \"read\"\n");
    let other_policy = place.path().join("other.toml").display().to_string();
    let other_store = place.path().join("other.db").display().to_string();
    let set = [
        ("COUNTERSIGN_SERVER", url.as_str()),
        ("COUNTERSIGN_TOKEN", "cst_of_another_server"),
        ("COUNTERSIGN_TOKEN_FILE", "/nowhere/token"),
        ("COUNTERSIGN_EXECUTE_TOKEN_FILE", "/nowhere/token"),
        ("COUNTERSIGN_STORE", other_store.as_str()),
        ("COUNTERSIGN_POLICY", other_policy.as_str()),
    ];
    // A read passes,
    let read = before("t0", "Read", r#"{"file_path":"/a"}"#);
    let passed = answer(&place, &command, &set, &read);
    assert_eq!((passed.code, passed.stdout.as_str()), (0, "{}\n"), "{passed:?}");
    // and a command is held in the store and under the policy that `install` wrote.
    let event = before("t1", "Bash", LS);
    let child = super::fed(shell(&place, &command, &set), event.as_bytes());
    let id = pending(&place);
    place.good(&["approve", &id]);
    let allowed = Left::of(child.wait_with_output().unwrap());
    assert!(one(&allowed).to_string().contains("\"allow\""), "{allowed:?}");
    assert_eq!(state(&place, &id), "running");
    assert!(!place.path().join("other.db").exists());
    assert_eq!(
        visits.load(Ordering::SeqCst),
        0,
        "nothing went to the other server"
    );
}

/// The reverse case: a store or token in the environment changes neither the server nor the token that is used.
#[test]
fn a_hook_at_a_server_takes_no_store_and_no_token_from_the_environment() {
    let place = agents();
    let (url, visits) = stranger();
    for name in ["agent", "host"] {
        use std::os::unix::fs::PermissionsExt as _;
        place.write(name, "cst_one");
        let path = place.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let files = ["--token-file", "agent", "--execute-token-file", "host"];
    let arguments: Vec<&str> = ["--server", &url].iter().chain(&files).copied().collect();
    let command = installed(&place, &arguments);
    let store = place.path().join("countersign.db").display().to_string();
    let set = [("COUNTERSIGN_STORE", store.as_str())];
    let left = answer(&place, &command, &set, &before("t1", "Bash", LS));
    assert!(blocks("claude-code", &left), "{left:?}");
    assert!(!left.stderr.contains("both a store and a server"), "{left:?}");
    assert!(visits.load(Ordering::SeqCst) > 0, "the server was asked");
    assert!(!place.path().join("countersign.db").exists());
}

#[test]
fn a_hook_is_not_installed_for_a_store_and_a_server_at_once() {
    let place = agents();
    let install = |words: &[&str], set: &[(&str, &str)]| {
        let mut command = place.command(&["hook", "install", "claude-code", "--settings", "s.json"]);
        command
            .args(words)
            .env_remove("COUNTERSIGN_STORE")
            .envs(set.iter().copied());
        Left::of(command.output().unwrap())
    };
    let url = "http://127.0.0.1:1";
    let both = [
        ("COUNTERSIGN_STORE", "countersign.db"),
        ("COUNTERSIGN_SERVER", url),
    ];
    for left in [
        install(&["--store", "countersign.db", "--server", url], &[]),
        install(&[], &both),
    ] {
        assert_eq!(left.code, 2, "{left:?}");
        assert!(left.stderr.contains("both a store and a server"), "{left:?}");
        assert!(left.stderr.contains("COUNTERSIGN_SERVER"), "{left:?}");
    }
    assert!(!place.path().join("s.json").exists());
    // A flag wins over the environment, where a server is set for something else.
    let left = install(&["--store", "countersign.db"], &[("COUNTERSIGN_SERVER", url)]);
    assert_eq!(left.code, 0, "{left:?}");
    let text = std::fs::read_to_string(place.path().join("s.json")).unwrap();
    assert!(text.contains("--store") && !text.contains("--server"), "{text}");
}
