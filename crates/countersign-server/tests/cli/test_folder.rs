//! Runs the real binary in a temporary folder.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder, and the store to use if it is not a file in there.
pub struct TestFolder(TempDir, Option<String>);

/// Exit code and output of a command.
#[derive(Debug)]
pub struct Left {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub const POLICY: &str = r#"
[tools.search]
effect = "read"

[tools.create_contact]
effect = "write"
risk = "medium"
summary = "Create contact {{ name }}, {{ email }}"
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }
secret = ["api_key"]

[tools.delete_contact]
effect = "destructive"
summary = "Delete contact {{ id }}"

[tools.refund]
effect = "external"
risk = "critical"
deny = "args.amount > 1000.0"
approvers = ["finance"]

[tools.quick]
effect = "write"
ttl = "1s"
"#;

impl TestFolder {
    pub fn new() -> TestFolder {
        let place = TestFolder::without_policy();
        place.write("countersign.toml", POLICY);
        place
    }

    pub fn without_policy() -> TestFolder {
        let place = TestFolder(TempDir::new().unwrap(), None);
        let home = place.path().join("home");
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(home)
            .unwrap();
        place
    }

    /// Uses this store from now on, instead of a file in the folder.
    pub fn keep_in(&mut self, store: &str) {
        self.1 = Some(store.to_owned());
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn script(&self, name: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(name, format!("#!/bin/sh\n{body}\n"));
        let path = self.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Prepares a command for which all files in the folder are trusted.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.trust_files();
        let mut command = self.implicit(arguments);
        if let Some(store) = &self.1 {
            command.env("COUNTERSIGN_STORE", store);
        }
        command
    }

    /// Trusts every file and store in the folder as it is now, as `countersign trust` does.
    fn trust_files(&self) {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        let folder = self.path().join("home/.config/countersign");
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).unwrap();
        let open = |name: &str| {
            let mut options = std::fs::OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600);
            options.open(folder.join(name)).unwrap()
        };
        let lock = open("trusted.lock");
        lock.lock().unwrap();
        let file = folder.join("trusted.json");
        let text = std::fs::read(&file).unwrap_or_default();
        let mut list: Value = serde_json::from_slice(&text).unwrap_or_else(|_| serde_json::json!({}));
        let before = list.clone();
        for entry in self.path().read_dir().unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "db") {
                use std::os::unix::fs::MetadataExt as _;
                let found = path.metadata().unwrap();
                let made = found
                    .created()
                    .unwrap()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap();
                let identity = serde_json::json!({ "inode": found.ino(), "made": made.as_nanos() as u64 });
                list["stores"][path.to_str().unwrap()] = identity;
            }
            let is_text = path.extension().is_some_and(|end| end == "toml" || end == "json");
            if let (true, Ok(text)) = (is_text, std::fs::read(&path)) {
                let hash = countersign::hash::Hash::of(&text).to_string();
                list["files"][path.to_str().unwrap()] = serde_json::json!({ "sha256": hash });
            }
        }
        if list != before {
            drop(open("trusted.json"));
            std::fs::write(file, list.to_string()).unwrap();
        }
    }

    /// Prepares a command without `COUNTERSIGN_*` variables, and without options other than `arguments`.
    pub fn implicit(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.current_dir(self.path()).args(arguments);
        let names = [
            "CONFIG",
            "STORE",
            "POLICY",
            "SEAL_KEY",
            "SEAL_KEY_FILE",
            "SERVER",
            "TOKEN",
            "TOKEN_FILE",
            "MODEL",
            "MODEL_NAME",
            "EXECUTE_TOKEN_FILE",
        ];
        for name in names {
            command.env_remove(format!("COUNTERSIGN_{name}"));
        }
        // Remove the settings and API keys of the person who runs the tests.
        for name in ["NO_COLOR", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
            command.env_remove(name);
        }
        // Hide the settings of coding agents on this machine.
        for name in [
            "XDG_STATE_HOME",
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "GEMINI_CLI_HOME",
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        ] {
            command.env_remove(name);
        }
        command.env("HOME", self.path().join("home"));
        command.env("USER", "ana");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Left {
        self.run_with(arguments, b"")
    }

    pub fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Left {
        let looked = look_first(arguments, |show| {
            let shown = self.command(show).output().unwrap();
            shown.status.success().then_some(shown.stdout)
        });
        let arguments: Vec<&str> = looked.iter().map(String::as_str).collect();
        let mut command = self.command(&arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command need not read its input.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Left::of(child.wait_with_output().unwrap())
    }

    #[track_caller]
    pub fn good(&self, arguments: &[&str]) -> String {
        let left = self.run(arguments);
        assert_eq!(left.code, 0, "{arguments:?}: {left:?}");
        left.stdout
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        // At the front, because everything after `--exec` belongs to the tool's command line.
        arguments.insert(0, "--json");
        serde_json::from_str(&self.good(&arguments)).unwrap()
    }

    /// Proposes and returns the approval's id.
    #[track_caller]
    pub fn propose(&self, arguments: &[&str]) -> String {
        let arguments: Vec<&str> = ["propose"].iter().chain(arguments).copied().collect();
        let answer = self.json(&arguments);
        answer["approval"]["id"].as_str().unwrap().to_owned()
    }

    pub fn contact(&self) -> String {
        self.propose(&["create_contact", MARIA, "--agent", "crm"])
    }

    /// Returns all approvals in the store as text, so that a test can compare before and after; `None` without a store.
    pub fn written(&self) -> Option<String> {
        let is_there = self.path().join("countersign.db").exists();
        // Everything except the store's clock.
        let written = || {
            let list = self.good(&["list", "--all", "--json"]);
            let lines = list
                .lines()
                .filter(|line| !line.trim_start().starts_with("\"now\":"));
            lines.collect()
        };
        is_there.then(written)
    }
}

/// Adds `--digest` to an `approve` command, with the digest found on the card by `show`.
pub fn look_first(arguments: &[&str], show: impl Fn(&[&str]) -> Option<Vec<u8>>) -> Vec<String> {
    let mut looked: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let Some(at) = arguments.iter().position(|argument| *argument == "approve") else {
        return looked;
    };
    let store = arguments.iter().position(|argument| *argument == "--store");
    let store = store.map_or(&[][..], |at| &arguments[at..at + 2]);
    let is_seen = arguments.iter().any(|argument| argument.starts_with("--digest"));
    let (false, Some(id)) = (is_seen, arguments.get(at + 1)) else {
        return looked;
    };
    let look = [&["--json", "show", id][..], store].concat();
    // Not parsed as JSON: the card's arguments may hold numbers that no JSON library accepts.
    let shown = show(&look).map(|shown| String::from_utf8_lossy(&shown).into_owned());
    let digest = shown
        .as_deref()
        .and_then(|shown| shown.split("\"digest\": \"").nth(1));
    if let Some(digest) = digest.and_then(|digest| digest.get(..64)) {
        looked.extend(["--digest".to_owned(), digest.to_owned()]);
    }
    looked
}

impl Left {
    pub fn of(output: std::process::Output) -> Left {
        Left {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub const MARIA: &str = r#"{"name":"Maria Garcia","email":"maria@acme.com"}"#;

/// Checks that a command fails with this exit code, this message and a hint, and writes nothing.
#[track_caller]
pub fn check_bad(place: &TestFolder, arguments: &[&str], code: i32, message: &str) {
    let before = place.written();
    let left = place.run(arguments);
    assert_eq!(left.code, code, "{arguments:?}: {left:?}");
    assert!(left.stderr.contains(message), "{arguments:?}: {left:?}");
    assert!(
        left.stderr.contains("hint: "),
        "{arguments:?} without a hint: {left:?}"
    );
    assert_eq!(left.stdout, "", "{arguments:?}");
    assert_eq!(place.written(), before, "{arguments:?} wrote something");
    let mut arguments = arguments.to_vec();
    arguments.insert(0, "--json");
    let left = place.run(&arguments);
    let error = left.stderr.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(error).unwrap_or_else(|_| panic!("{arguments:?}: {left:?}"));
    assert!(
        error["error"]["code"].is_string() && error["error"]["hint"].is_string(),
        "{error}"
    );
}

/// Creates a database on the server that `scripts/test` starts, and returns its URL.
pub fn database(name: &str) -> String {
    let set =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; see `scripts/test`"));
    let (bin, port) = (set("COUNTERSIGN_TEST_PG_BIN"), set("COUNTERSIGN_TEST_PG_PORT"));
    let name = format!("{name}_{}", std::process::id());
    let made = Command::new(format!("{bin}/createdb"))
        .args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", &name])
        .status();
    assert!(made.unwrap().success(), "no database could be made");
    format!("postgresql://postgres@127.0.0.1:{port}/{name}")
}
