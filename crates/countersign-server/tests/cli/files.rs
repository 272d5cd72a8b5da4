//! Tests the permissions of files that the program writes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::served::Served;
use crate::test_folder::TestFolder;

/// Returns every file and folder below `folder` with its mode.
fn modes(folder: &Path) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        if path.is_dir() {
            found.extend(modes(&path));
        }
        found.push((path.display().to_string(), mode));
    }
    found
}

/// Runs a shell command line under a umask; `countersign` in it is the binary.
#[track_caller]
fn shell(place: &TestFolder, umask: &str, line: &str) {
    let binary = env!("CARGO_BIN_EXE_countersign");
    let line = format!("umask {umask}; countersign() {{ '{binary}' \"$@\"; }}; {line}");
    let prepared = place.command(&[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(place.path());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}

#[test]
fn x103_whatever_the_program_writes_is_its_owners_alone() {
    for umask in ["022", "000"] {
        let place = TestFolder::without_policy();
        for line in [
            "countersign propose note '{\"n\":1}' --key k",
            "printf 'Create a contact for Ana, ana@example.com\\nyes\\n' | countersign chat",
            "printf 'show me the pages\\n' | countersign chat --agent cms",
            "printf 'hello\\n' | countersign chat --agent ranch",
            "countersign backup saved.db",
            "mkdir -m 700 other; cd other; countersign --store restored.db restore ../saved.db",
            "countersign token create --agent demo --scope propose",
            "countersign person add ana",
            "countersign hook install claude-code --project",
            "echo '{\"session_id\":\"s\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"ls\"},\"tool_use_id\":\"t1\",\"cwd\":\"/\"}' \
             | HOME=$PWD XDG_STATE_HOME=$PWD/state timeout 2 countersign hook claude-code --state state/kept || true",
        ] {
            shell(&place, umask, line);
        }
        let files = modes(place.path());
        let has = |name: &str| files.iter().any(|(path, _)| path.ends_with(name));
        assert!(
            has("countersign.db") && has("saved.db") && has("saved.db.sha256"),
            "{files:?}"
        );
        assert!(has("restored.db") && has("crm.db"), "{files:?}");
        for (path, mode) in &files {
            // Created by the test itself.
            if path.ends_with("/other") {
                continue;
            }
            assert_eq!(mode & 0o077, 0, "{path} has mode {mode:o} under umask {umask}");
        }
    }
}

#[test]
fn x103_a_store_that_others_can_read_is_found_by_the_doctor() {
    let place = TestFolder::new();
    place.contact();
    let store = place.path().join("countersign.db");
    for (mode, is_bad) in [(0o600, false), (0o644, true), (0o660, true), (0o640, true)] {
        std::fs::set_permissions(&store, std::fs::Permissions::from_mode(mode)).unwrap();
        let left = place.run(&["doctor"]);
        let says = left.stdout.contains("can access `");
        assert_eq!(says, is_bad, "{mode:o}: {left:?}");
    }
}

/// Runs a command that must end on its own, and returns its output. Fails if the command hangs.
#[track_caller]
fn ends(mut command: std::process::Command) -> crate::test_folder::Left {
    use std::process::Stdio;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let give_up_at = std::time::Instant::now() + std::time::Duration::from_secs(15);
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > give_up_at {
            child.kill().unwrap();
            panic!("it waits: {command:?}");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    crate::test_folder::Left::of(child.wait_with_output().unwrap())
}

#[test]
fn x95_a_store_that_is_no_regular_file_is_refused_at_once() {
    use std::os::unix::fs::DirBuilderExt as _;
    let place = TestFolder::new();
    let odd = place.path().join("odd");
    std::fs::DirBuilder::new().mode(0o700).create(&odd).unwrap();
    let pipe = |name: &str| {
        let path = odd.join(name);
        let made = std::process::Command::new("mkfifo")
            .args(["-m", "600"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        path.display().to_string()
    };
    let named = pipe("pipe.store");
    let linked = odd.join("linked.store").display().to_string();
    std::os::unix::fs::symlink(&named, &linked).unwrap();
    let folder = odd.join("folder.store");
    std::fs::create_dir(&folder).unwrap();
    let commands: [&[&str]; 15] = [
        &["list"],
        &["show", "4f1c"],
        &["approve", "4f1c", "--digest", "0123456789ab"],
        &["deny", "4f1c"],
        &["propose", "note", "{}"],
        &["wait", "4f1c"],
        &["watch"],
        &["verify"],
        &["doctor"],
        &["backup", "saved.db"],
        &["purge", "--older-than", "1d"],
        &["token", "list"],
        &["chat"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["mcp", "--", "cat"],
    ];
    for store in [&named, &linked, &folder.display().to_string(), "/dev/null"] {
        for arguments in commands {
            let mut command = place.command(arguments);
            command.args(["--store", store]).env_remove("COUNTERSIGN_STORE");
            // What follows `--` is the server's command.
            if arguments[0] == "mcp" {
                command = place.command(&["mcp", "--store", store, "--", "cat"]);
                command.env_remove("COUNTERSIGN_STORE");
            }
            let left = ends(command);
            let said = format!("{}{}", left.stdout, left.stderr);
            assert_ne!(left.code, 0, "{arguments:?} {store}: {left:?}");
            assert!(
                said.contains("not a regular file"),
                "{arguments:?} {store}: {left:?}"
            );
            assert!(said.contains("--store"), "{arguments:?} {store}: {left:?}");
        }
    }
    // A pipe in place of a store's WAL is refused too.
    place.contact();
    let store = place.path().join("countersign.db");
    let copied = odd.join("copy.db");
    std::fs::copy(&store, &copied).unwrap();
    pipe("copy.db-wal");
    let copied = copied.display().to_string();
    let mut command = place.command(&["list", "--store", &copied]);
    command.env_remove("COUNTERSIGN_STORE");
    let left = ends(command);
    assert!(
        left.code != 0 && left.stderr.contains("not a regular file"),
        "{left:?}"
    );
}

/// X81: a service holds reads of its own policy and store, also with an example agent, whose policy is merged.
#[test]
fn x81_a_service_holds_reads_of_its_own_files() {
    for settings in ["", "[agents.crm]\nworld = \"crm\"\nmodel = \"script\"\n"] {
        let place = TestFolder::without_policy();
        place.write(
            "countersign.toml",
            "[tools.lookup]\neffect = \"read\"\nplaces = [\"path\"]\n",
        );
        place.write("countersign-serve.toml", settings);
        let served = Served::start(&place);
        let agent = served.agent();
        for (name, is_held) in [
            ("countersign.toml", true),
            ("countersign.db", true),
            ("notes.txt", false),
        ] {
            let path = place.path().join(name).display().to_string();
            let arguments = serde_json::json!({ "path": path }).to_string();
            let answer = served.good(&agent, &["--json", "propose", "lookup", &arguments]);
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["approval"]["id"].is_string(), is_held, "{name}: {answer}");
        }
    }
}
