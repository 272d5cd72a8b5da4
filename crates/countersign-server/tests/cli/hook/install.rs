//! `hook install` and `hook status`.

use std::process::Command;

use serde_json::Value;

use crate::test_folder::{Left, TestFolder};

fn agents() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", place.good(&["hook", "policy"]));
    std::fs::create_dir_all(place.path().join("home")).unwrap();
    place
}

/// Marks the hook as trusted in Codex's configuration, as a person does with `/hooks`.
fn trust(place: &TestFolder) {
    let file = place.path().join("home/.codex/hooks.json");
    let settings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let mut identity = settings["hooks"]["PreToolUse"][0].clone();
    identity["event_name"] = "pre_tool_use".into();
    identity["hooks"][0]["async"] = false.into();
    let hash = countersign::hash::Hash::of(identity.to_string().as_bytes());
    let key = format!("{}:pre_tool_use:0:0", file.display());
    let config = format!("model = \"x\"\n[hooks.state.\"{key}\"]\ntrusted_hash = \"sha256:{hash}\"\n");
    place.write("home/.codex/config.toml", config);
}

fn run(place: &TestFolder, arguments: &[&str]) -> Left {
    Left::of(place.command(arguments).output().unwrap())
}

/// Returns state and message of each finding that `hook status` reports for a coding agent.
#[track_caller]
fn findings(place: &TestFolder, agent: &str) -> Vec<(String, String)> {
    findings_of(place, &["hook", "status", agent, "--json"], agent)
}

#[track_caller]
fn findings_of(place: &TestFolder, arguments: &[&str], agent: &str) -> Vec<(String, String)> {
    let left = run(place, arguments);
    let answer: Value = serde_json::from_str(&left.stdout).unwrap_or_else(|_| panic!("{left:?}"));
    let rows = answer["findings"].as_array().unwrap().clone();
    let rows = rows.into_iter().filter(|row| row["subject"] == agent);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["state"]), text(&row["message"])))
        .collect()
}

#[test]
fn an_installed_hook_is_active_and_holds() {
    for (agent, file) in [
        ("claude-code", "home/.claude/settings.json"),
        ("codex", "home/.codex/hooks.json"),
        ("gemini", "home/.gemini/settings.json"),
    ] {
        let place = agents();
        let left = run(&place, &["hook", "install", agent, "--user"]);
        assert_eq!(left.code, 0, "{left:?}");
        let text = std::fs::read_to_string(place.path().join(file)).unwrap();
        if agent == "codex" {
            let found = findings(&place, agent);
            assert!(
                found[0].0 == "problem" && found[0].1.contains("does not trust"),
                "{found:?}"
            );
            trust(&place);
        }
        let found = findings(&place, agent);
        assert!(
            found[0].0 == "good" && found[0].1.contains("blocked the self-test"),
            "{found:?}"
        );
        assert!(found.iter().all(|(state, _)| state != "problem"), "{found:?}");
        assert_eq!(findings_of(&place, &["doctor", "--json"], agent), found);
        assert!(
            !place.path().join("countersign.db").exists(),
            "the self-test wrote something"
        );
        // Installing again changes nothing, and neither do `--dry-run` and `--print`.
        for arguments in [&["--user"][..], &["--user", "--dry-run"], &["--print"]] {
            let all: Vec<&str> = ["hook", "install", agent]
                .iter()
                .chain(arguments)
                .copied()
                .collect();
            assert_eq!(run(&place, &all).code, 0);
        }
        assert_eq!(std::fs::read_to_string(place.path().join(file)).unwrap(), text);
        let folder = place.path().join(file);
        assert_eq!(
            std::fs::read_dir(folder.parent().unwrap()).unwrap().count(),
            if agent == "codex" { 2 } else { 1 },
            "a backup of nothing"
        );
    }
}

#[test]
fn settings_that_are_there_stay_and_are_kept() {
    let place = agents();
    let before = "{\n  \"model\": \"opus\",\n  \"permissions\": {\"deny\": [\"Bash(rm *)\"]}\n}\n";
    place.write("settings.json", before);
    let install = ["hook", "install", "claude-code", "--settings", "settings.json"];
    let dry: Vec<&str> = install.iter().chain(&["--dry-run"]).copied().collect();
    let shown = run(&place, &dry).stdout;
    assert_eq!(
        std::fs::read_to_string(place.path().join("settings.json")).unwrap(),
        before
    );
    assert_eq!(run(&place, &install).code, 0);
    let after = std::fs::read_to_string(place.path().join("settings.json")).unwrap();
    assert_eq!(after, shown);
    assert!(after.starts_with(before.trim_end_matches("\n}\n")), "{after}");
    let kept = place.path().join("settings.json.before-countersign-1");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), before);
    // A hook with another hold time replaces the first one.
    let other: Vec<&str> = install.iter().chain(&["--hold", "1m"]).copied().collect();
    assert_eq!(run(&place, &other).code, 0);
    let again = std::fs::read_to_string(place.path().join("settings.json")).unwrap();
    assert!(
        again.contains("--hold 60s") && !again.contains("--hold 540s"),
        "{again}"
    );
    assert!(place.path().join("settings.json.before-countersign-2").exists());
}

#[test]
fn settings_that_are_broken_are_refused() {
    for broken in ["{", "// x\n{}", "[]", "{\"hooks\": 1}", "{\"a\":1,\"a\":2}"] {
        let place = agents();
        place.write("settings.json", broken);
        let left = run(
            &place,
            &["hook", "install", "claude-code", "--settings", "settings.json"],
        );
        assert!(
            left.code == 1 && left.stderr.contains("hint: "),
            "{broken}: {left:?}"
        );
        assert_eq!(
            std::fs::read_to_string(place.path().join("settings.json")).unwrap(),
            broken
        );
    }
}

#[test]
fn x31_a_secret_does_not_get_into_settings() {
    let place = agents();
    place.write("token", "cst_secret");
    for arguments in [
        &["--server", "https://x.example", "--token", "cst_secret"][..],
        &["--server", "https://x.example"],
        &["--store", "postgres://a:secret@db/x"],
    ] {
        let all: Vec<&str> = ["hook", "install", "claude-code", "--print"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let left = run(&place, &all);
        assert!(left.code == 2 && !left.stdout.contains("secret"), "{left:?}");
    }
    let file = [
        "hook",
        "install",
        "claude-code",
        "--print",
        "--server",
        "https://x.example",
        "--token-file",
        "token",
        "--execute-token-file",
        "token",
    ];
    let left = run(&place, &file);
    assert!(
        left.code == 0 && left.stdout.contains("/token") && !left.stdout.contains("cst_"),
        "{left:?}"
    );
}

#[test]
fn x21_what_makes_a_hook_useless_is_found() {
    let check = |agent: &str, change: &dyn Fn(String) -> String, expected: (&str, &str)| {
        let place = agents();
        let file = match agent {
            "claude-code" => "home/.claude/settings.json",
            "codex" => "home/.codex/hooks.json",
            _ => "home/.gemini/settings.json",
        };
        assert_eq!(run(&place, &["hook", "install", agent, "--user"]).code, 0);
        if agent == "codex" {
            trust(&place);
        }
        let text = std::fs::read_to_string(place.path().join(file)).unwrap();
        let changed = change(text.clone());
        assert_ne!(text, changed, "{expected:?}");
        place.write(file, changed);
        if agent == "codex" && expected.0 == "warning" {
            trust(&place);
        }
        let found = findings(&place, agent);
        let hit = found
            .iter()
            .any(|(state, message)| state == expected.0 && message.contains(expected.1));
        assert!(hit, "{expected:?}: {found:?}");
        let code = run(&place, &["hook", "status", agent]).code;
        assert_eq!(code, i32::from(expected.0 == "problem"), "{expected:?}");
    };
    let swap = |from: &'static str, to: &'static str| move |text: String| text.replacen(from, to, 1);
    let claude = |from, to, expected| check("claude-code", &swap(from, to), expected);
    claude(
        "\"onFailure\": \"block\"",
        "\"onFailure\": \"continue\"",
        ("problem", "onFailure"),
    );
    claude("\"timeout\": 600", "\"timeout\": 540", ("problem", "time-out"));
    claude(
        "\"timeout\": 600",
        "\"async\": true, \"timeout\": 600",
        ("problem", "async"),
    );
    claude(
        "{\n  \"hooks\"",
        "{\n  \"disableAllHooks\": true,\n  \"hooks\"",
        ("problem", "disableAllHooks"),
    );
    claude("\"*\"", "\"Bash|Write\"", ("warning", "only tools that match"));
    claude(
        "\"PostToolUseFailure\"",
        "\"Stop\"",
        ("warning", "PostToolUseFailure"),
    );
    claude(
        "\"PreToolUse\"",
        "\"PreTool\"",
        ("problem", "but not under `PreToolUse`"),
    );
    claude(
        "--policy ",
        "--policy /gone",
        ("problem", "is not one that `countersign hook install` has made"),
    );
    claude(
        "\"timeout\": 600",
        "\"shell\": \"x\", \"timeout\": 600",
        ("problem", "it has `shell`"),
    );
    claude(
        "\"matcher\"",
        "\"when\": \"x\", \"matcher\"",
        ("problem", "it has `when`"),
    );
    let other_after = |text: String| {
        let at = text.find("\"PostToolUse\"").unwrap();
        format!(
            "{}{}",
            &text[..at],
            text[at..].replacen("--hold 540s", "--hold 1s", 1)
        )
    };
    check(
        "claude-code",
        &other_after,
        ("problem", "after tool calls is another one"),
    );
    claude("{\n  \"hooks\"", "{,\n  \"hooks\"", ("problem", "line 1"));
    check(
        "gemini",
        &swap("\"timeout\": 600000", "\"timeout\": 60000"),
        ("problem", "time-out"),
    );
    check(
        "gemini",
        &swap("{\n", "{\n\"hooksConfig\":{\"enabled\":false},"),
        ("problem", "hooksConfig"),
    );
    check(
        "gemini",
        &swap("{\n", "{\n\"hooksConfig\":{\"disabled\":[\"countersign\"]},"),
        ("problem", "hooksConfig"),
    );
    check(
        "codex",
        &swap(" || { echo 'countersign blocked this call' >&2; exit 2; }", ""),
        ("problem", "is not one that `countersign hook install` has made"),
    );
    check(
        "codex",
        &swap("\"timeout\": 600", "\"timeout\": 601"),
        ("problem", "does not trust"),
    );
}

/// Installs a hook for all projects and returns the folder.
fn installed(agent: &str) -> TestFolder {
    let place = agents();
    assert_eq!(run(&place, &["hook", "install", agent, "--user"]).code, 0);
    if agent == "codex" {
        trust(&place);
    }
    assert_eq!(run(&place, &["hook", "status", agent]).code, 0);
    place
}

/// Adds settings that turn hooks off, and checks that both commands report the file and the key.
#[track_caller]
fn check_off(agent: &str, file: &str, text: &str, key: &str) {
    let place = installed(agent);
    let path = place.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    // The person's own settings already contain the hook.
    let text = match before.strip_prefix('{') {
        Some(rest) => format!("{},{rest}", text.strip_suffix('}').unwrap()),
        None => format!("{text}{before}"),
    };
    place.write(file, text);
    for arguments in [&["hook", "status", agent, "--json"][..], &["doctor", "--json"]] {
        let found = findings_of(&place, arguments, agent);
        let is_told = |(state, message): &(String, String)| {
            state == "problem"
                && message.starts_with("disabled: ")
                && message.contains(&format!("`{key}`"))
                && message.contains(&format!("{file}`"))
        };
        assert!(found.iter().any(is_told), "{file}: {found:?}");
        assert!(
            found.iter().all(|(state, _)| state != "good"),
            "{file}: {found:?}"
        );
    }
    assert_eq!(run(&place, &["hook", "status", agent]).code, 1, "{file}");
}

#[test]
fn x21_a_hook_that_settings_turn_off_is_not_good() {
    for file in [
        "home/.claude/settings.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    ] {
        check_off(
            "claude-code",
            file,
            "{\"disableAllHooks\":true}",
            "disableAllHooks",
        );
        let simple = "{\"env\":{\"CLAUDE_CODE_SIMPLE\":\"1\"}}";
        check_off("claude-code", file, simple, "env.CLAUDE_CODE_SIMPLE");
    }
    for file in ["home/.gemini/settings.json", ".gemini/settings.json"] {
        let off = "{\"hooksConfig\":{\"enabled\":false}}";
        check_off("gemini", file, off, "hooksConfig.enabled");
        let named = "{\"hooksConfig\":{\"disabled\":[\"x\",\"countersign\"]}}";
        check_off("gemini", file, named, "hooksConfig.disabled");
    }
    check_off("gemini", ".gemini/settings.json", "{\"hooks\":[]}", "hooks");
    for file in ["home/.codex/config.toml", ".codex/config.toml"] {
        check_off("codex", file, "features.hooks = false\n", "features.hooks");
        check_off(
            "codex",
            file,
            "features.codex_hooks = false\n",
            "features.codex_hooks",
        );
    }
}

#[test]
fn x21_a_project_that_sets_the_hooks_environment_is_not_good() {
    let names = [
        "LD_PRELOAD",
        "HOME",
        "PATH",
        "XDG_CONFIG_HOME",
        "BASH_ENV",
        "SHELLOPTS",
    ];
    let set: Vec<String> = names.iter().map(|name| format!(r#""{name}":"x""#)).collect();
    for file in [".claude/settings.json", ".claude/settings.local.json"] {
        let place = installed("claude-code");
        std::fs::create_dir_all(place.path().join(".claude")).unwrap();
        place.write(
            file,
            format!(r#"{{"env":{{"RUST_LOG":"info",{}}}}}"#, set.join(",")),
        );
        let found = findings(&place, "claude-code");
        for name in names {
            let is_told = |(state, message): &(String, String)| {
                state == "problem" && message.contains(&format!("`env.{name}`")) && message.contains(file)
            };
            assert!(found.iter().any(is_told), "{file} {name}: {found:?}");
        }
        let is_other = |(state, message): &(String, String)| state == "good" || message.contains("RUST_LOG");
        assert!(!found.iter().any(is_other), "{found:?}");
        assert_eq!(run(&place, &["hook", "status", "claude-code"]).code, 1);
    }
    // An ordinary variable, and a person's own settings.
    let place = installed("claude-code");
    std::fs::create_dir_all(place.path().join(".claude")).unwrap();
    place.write(".claude/settings.json", r#"{"env":{"RUST_LOG":"info"}}"#);
    let own = place.path().join("home/.claude/settings.json");
    let text = std::fs::read_to_string(&own).unwrap();
    std::fs::write(&own, text.replacen('{', r#"{"env":{"PATH":"/usr/bin"},"#, 1)).unwrap();
    assert_eq!(run(&place, &["hook", "status", "claude-code"]).code, 0);
}

#[test]
fn a_hook_for_all_projects_has_one_store_wherever_it_is_installed() {
    let place = agents();
    std::fs::create_dir_all(place.path().join("elsewhere")).unwrap();
    let root = place.path().canonicalize().unwrap();
    let store = root.join("home/.local/state/countersign/countersign.db");
    let install = |folder: &str, more: &[&str]| {
        let mut command = place.command(&["hook", "install", "claude-code", "--user"]);
        command.arg("--policy").arg(root.join("countersign.toml"));
        command
            .current_dir(root.join(folder))
            .args(more)
            .env("HOME", root.join("home"));
        Left::of(command.output().unwrap())
    };
    let settings = || std::fs::read_to_string(root.join("home/.claude/settings.json")).unwrap();
    // `--policy-change` begins no store.
    let refused = install("elsewhere", &["--policy-change"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("there is no store") && refused.stderr.contains(store.to_str().unwrap()),
        "{refused:?}"
    );
    assert!(!root.join("home/.claude/settings.json").exists());
    let mut before = None;
    for folder in ["elsewhere", "."] {
        let left = install(folder, &[]);
        assert_eq!(left.code, 0, "{left:?}");
        let named = format!("the store is `{}`", store.display());
        assert!(left.stdout.contains(&named), "{left:?}");
        assert!(left.stdout.contains("countersign inbox --store"), "{left:?}");
        assert!(settings().contains(store.to_str().unwrap()), "{}", settings());
        let before = before.get_or_insert_with(settings);
        assert_eq!(*before, settings());
    }
    // A named store counts, and the refusal says which stores were used before.
    let own = root.join("own.db").display().to_string();
    assert_eq!(install(".", &["--store", &own]).code, 0);
    assert!(settings().contains(&own));
    let refused = install("elsewhere", &["--policy-change"]);
    assert!(refused.code == 1 && refused.stderr.contains(&own), "{refused:?}");
    // In a project, the store is in its folder, and is named too.
    let mut command = place.command(&["hook", "install", "claude-code", "--project"]);
    let left = Left::of(command.current_dir(root.join("elsewhere")).output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(left.stdout.contains("elsewhere/countersign.db`"), "{left:?}");
}

#[test]
fn x21_a_hook_that_is_turned_off_in_codex_itself_is_not_good() {
    let place = installed("codex");
    let file = place.path().join("home/.codex/config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}enabled = false\n")).unwrap();
    let found = findings(&place, "codex");
    let is_told = |(state, message): &(String, String)| {
        state == "problem"
            && message.starts_with("disabled: `hooks.state.")
            && message.contains("config.toml`")
    };
    assert!(found.iter().any(is_told), "{found:?}");
    // An unreadable file is reported, because it could turn hooks off.
    std::fs::write(&file, text).unwrap();
    std::fs::create_dir_all(place.path().join(".codex")).unwrap();
    place.write(".codex/config.toml", "[features\n");
    let found = findings(&place, "codex");
    assert!(
        found
            .iter()
            .any(|(state, message)| state == "problem"
                && message.contains("unknown whether hooks are enabled")),
        "{found:?}"
    );
    // A profile that is not in use, and a disabled hook that is not ours.
    place.write(".codex/config.toml", "[profiles.quick.features]\nhooks = false\n");
    let found = findings(&place, "codex");
    assert!(
        found[0].0 == "warning" && found[0].1.contains("profile `quick`"),
        "{found:?}"
    );
    assert_eq!(run(&place, &["hook", "status", "codex"]).code, 0);
    let place = installed("gemini");
    std::fs::create_dir_all(place.path().join(".gemini")).unwrap();
    place.write(
        ".gemini/settings.json",
        "{\"hooksConfig\":{\"disabled\":[\"other\"]}}",
    );
    assert_eq!(run(&place, &["hook", "status", "gemini"]).code, 0);
}

/// A pipe without a writer, and an endless settings file.
#[test]
fn x95_odd_files_in_place_of_settings_hang_nobody() {
    for (agent, file) in [
        ("claude-code", ".claude/settings.local.json"),
        ("gemini", ".gemini/settings.json"),
        ("codex", ".codex/config.toml"),
    ] {
        let place = installed(agent);
        let path = place.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let check = || {
            let found = findings(&place, agent);
            let is_told = |(state, message): &(String, String)| {
                state == "problem" && message.contains("it is not a regular file")
            };
            assert!(found.iter().any(is_told), "{found:?}");
        };
        check();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        check();
    }
}

#[test]
fn x21_a_policy_that_is_gone_is_found() {
    let place = agents();
    assert_eq!(run(&place, &["hook", "install", "claude-code", "--user"]).code, 0);
    std::fs::remove_file(place.path().join("countersign.toml")).unwrap();
    let found = findings(&place, "claude-code");
    let is_told = |(state, message): &(String, String)| {
        state == "problem" && message.contains("cannot read the policy")
    };
    assert!(found.iter().any(is_told), "{found:?}");
}

#[test]
fn x06_a_program_that_is_gone_or_killed_still_blocks() {
    use std::io::Write as _;
    use std::process::Stdio;
    let place = agents();
    let printed = run(&place, &["hook", "install", "codex", "--print"]).stdout;
    let settings: Value = serde_json::from_str(&printed).unwrap();
    let line = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        .as_str()
        .unwrap();
    let program = line.split(' ').next().unwrap();
    for replaced in [
        "/no/such/program",
        "sh -c 'kill -9 $$'",
        "sh -c 'exit 101'",
        "false",
    ] {
        let mut child = Command::new("sh")
            .args(["-c", &line.replace(program, replaced)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(b"{}");
        let left = Left::of(child.wait_with_output().unwrap());
        assert!(
            left.code == 2 && !left.stderr.trim().is_empty(),
            "{replaced}: {left:?}"
        );
    }
}

#[test]
fn x95_without_a_policy_one_is_written_and_named_by_its_full_path() {
    let place = TestFolder::without_policy();
    for agent in ["claude-code", "gemini"] {
        assert_eq!(run(&place, &["hook", "install", agent, "--user"]).code, 0);
        let found = findings(&place, agent);
        assert!(
            found[0].0 == "good" && found[0].1.contains("blocked the self-test"),
            "{found:?}"
        );
    }
    let policy = place.path().join("home/.config/countersign/coding-agents.toml");
    let settings = std::fs::read_to_string(place.path().join("home/.claude/settings.json")).unwrap();
    for name in [
        format!("--policy {}", policy.display()),
        format!(
            "--store {}",
            place
                .path()
                .join("home/.local/state/countersign/countersign.db")
                .display()
        ),
        env!("CARGO_BIN_EXE_countersign").to_owned(),
    ] {
        assert!(settings.contains(&name), "{name}: {settings}");
    }
    // `install` does not overwrite a policy that the person changed.
    std::fs::write(&policy, "[tools.Read]\neffect = \"read\"\n").unwrap();
    assert_eq!(run(&place, &["hook", "install", "codex", "--user"]).code, 0);
    assert!(
        std::fs::read_to_string(&policy)
            .unwrap()
            .starts_with("[tools.Read]")
    );
    // The policy of a repository is not used without trust.
    place.write("countersign.toml", "[tools.Bash]\neffect = \"read\"\n");
    let mut command = place.implicit(&["hook", "install", "claude-code", "--project"]);
    let left = Left::of(command.output().unwrap());
    assert!(
        left.code == 1 && left.stderr.contains("countersign trust "),
        "{left:?}"
    );
    assert!(!place.path().join(".claude").exists());
}

/// Returns state and message of each finding that `hook status` reports in a folder of a project.
#[track_caller]
fn findings_in(place: &TestFolder, folder: &str, agent: &str) -> Vec<(String, String)> {
    let mut command = place.command(&["hook", "status", agent, "--json"]);
    let left = Left::of(command.current_dir(place.path().join(folder)).output().unwrap());
    let answer: Value = serde_json::from_str(&left.stdout).unwrap_or_else(|_| panic!("{left:?}"));
    let rows = answer["findings"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = rows
        .iter()
        .map(|row| (text(&row["state"]), text(&row["message"])));
    told.collect()
}

#[test]
fn in_the_home_folder_the_own_settings_are_found_once() {
    for agent in ["claude-code", "gemini"] {
        let place = installed(agent);
        let found = findings_in(&place, "home", agent);
        assert!(found.len() == 1 && found[0].0 == "good", "{found:?}");
    }
}

#[test]
fn an_empty_list_names_the_store_of_hooks() {
    let place = installed("claude-code");
    let list = |arguments: &[&str]| {
        let mut command = place.command(&["list"]);
        command.env_remove("COUNTERSIGN_STORE").args(arguments);
        let left = Left::of(command.output().unwrap());
        format!("{}{}", left.stdout, left.stderr)
    };
    let store = "home/.local/state/countersign/countersign.db";
    let said = list(&[]);
    assert!(
        said.contains("there is no store") && said.contains(store),
        "{said}"
    );
    place.good(&["propose", "x", "{}"]);
    let said = list(&["--state", "expired"]);
    assert!(
        said.contains("Nothing is expired") && said.contains(store),
        "{said}"
    );
    let said = list(&["--state", "expired", "--store", "countersign.db"]);
    assert!(!said.contains(store), "{said}");
}

#[test]
fn x21_status_below_the_projects_root_sees_the_roots_settings() {
    for (agent, file) in [
        ("claude-code", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
    ] {
        let place = agents();
        std::fs::create_dir_all(place.path().join("repo/.git")).unwrap();
        std::fs::create_dir_all(place.path().join("repo/a/b")).unwrap();
        let mut install = place.command(&["hook", "install", agent, "--project"]);
        let left = Left::of(install.current_dir(place.path().join("repo")).output().unwrap());
        assert_eq!(left.code, 0, "{left:?}");
        let root = place.path().canonicalize().unwrap().join("repo").join(file);
        let root = root.display().to_string();
        let below = findings_in(&place, "repo/a/b", agent);
        assert!(
            below.iter().any(|(_, said)| said.contains(&root)),
            "{agent}: {below:?}"
        );
        if agent != "codex" {
            let active = format!("active in `{root}`");
            assert!(
                below.iter().any(|(_, said)| said.contains(&active)),
                "{agent}: {below:?}"
            );
            let starts =
                |(state, said): &(String, String)| state == "warning" && said.contains("counts only where");
            assert!(below.iter().any(starts), "{agent}: {below:?}");
        }
        assert!(
            below.iter().all(|(_, said)| !said.contains("several settings")),
            "{below:?}"
        );
        // In the root itself nothing has to be said about that.
        let here = findings_in(&place, "repo", agent);
        assert!(
            here.iter().all(|(_, said)| !said.contains("counts only where")),
            "{here:?}"
        );
        // A folder above the root of the project is not looked at.
        std::fs::create_dir_all(place.path().join("repo/a/.git")).unwrap();
        let inside = findings_in(&place, "repo/a/b", agent);
        assert!(
            inside.iter().all(|(_, said)| !said.contains(&root)),
            "{agent}: {inside:?}"
        );
    }
}

#[test]
fn x21_a_switch_in_the_projects_root_is_found_from_below() {
    for (agent, file, text, key) in [
        (
            "claude-code",
            ".claude/settings.json",
            r#"{"disableAllHooks":true}"#,
            "disableAllHooks",
        ),
        (
            "gemini",
            ".gemini/settings.json",
            r#"{"hooksConfig":{"enabled":false}}"#,
            "hooksConfig.enabled",
        ),
    ] {
        let place = agents();
        std::fs::create_dir_all(place.path().join("repo/.git")).unwrap();
        std::fs::create_dir_all(place.path().join("repo/a")).unwrap();
        place.good(&["hook", "install", agent, "--user"]);
        let settings = place.path().join("repo").join(file);
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(&settings, text).unwrap();
        let found = findings_in(&place, "repo/a", agent);
        let is_off = |(state, said): &(String, String)| {
            state == "problem" && said.contains(key) && said.contains(&format!("repo/{file}"))
        };
        assert!(found.iter().any(is_off), "{agent}: {found:?}");
    }
}
