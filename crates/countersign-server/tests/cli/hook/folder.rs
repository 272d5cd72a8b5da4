//! The working folder of a call: shown, part of what was approved, and where relative paths begin.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::served::Served;

const RM: &str = r#"{"command":"rm -rf build"}"#;

/// Returns the event of a coding agent before a call in this folder.
fn event(agent: &str, id: &str, folder: &Path, tool: &str, input: &str) -> String {
    let event = match agent {
        "gemini" => gemini("BeforeTool", tool, input, "").replace("03:00:00", &format!("03:00:0{id}")),
        _ => before(id, tool, input),
    };
    event.replace(r#""cwd":"/""#, &format!(r#""cwd":"{}""#, folder.display()))
}

fn shell(agent: &str) -> &'static str {
    match agent {
        "gemini" => "run_shell_command",
        _ => "Bash",
    }
}

fn folders(place: &TestFolder) -> [std::path::PathBuf; 2] {
    let root = place.path().canonicalize().unwrap();
    let folders = [root.join("scratch"), root.join("precious")];
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    folders
}

fn is_allowed(left: &Left) -> bool {
    let answer: Value = serde_json::from_str(&left.stdout).unwrap_or_default();
    answer["hookSpecificOutput"]["permissionDecision"] == "allow" || answer["decision"] == "allow"
}

#[test]
fn i3_an_approval_is_for_the_folder_that_was_shown() {
    for agent in ["claude-code", "codex", "gemini"] {
        let place = agents();
        let [scratch, precious] = folders(&place);
        let tool = shell(agent);
        let brief = [agent, "--hold", "10ms"];
        // Held in one folder, and approved there.
        let left = ask(&place, &brief, event(agent, "1", &scratch, tool, RM).as_bytes());
        assert!(left.stdout.contains("still waits"), "{left:?}");
        let id = pending(&place);
        let folder = scratch.display().to_string();
        let shown = place.json(&["show", &id]);
        assert_eq!(shown["calls"][0]["workingFolder"]["path"], folder, "{shown}");
        let note = format!("runs in the folder \"{folder}\"");
        assert!(shown["calls"][0]["notes"][0] == note, "{shown}");
        // The terminal wraps a long path.
        let card: String = place.good(&["show", &id]).split_whitespace().collect();
        let words: String = note.split_whitespace().collect();
        assert!(card.replace('│', "").contains(&words), "{card}");
        place.good(&["approve", &id]);
        // The same call in another folder of the same session is another question.
        let left = ask(&place, &brief, event(agent, "2", &precious, tool, RM).as_bytes());
        assert!(
            !is_allowed(&left) && left.stdout.contains("still waits"),
            "{agent} {left:?}"
        );
        let other = pending(&place);
        assert_ne!(other, id);
        assert_ne!(place.json(&["show", &other])["digest"], shown["digest"]);
        assert_eq!(state(&place, &id), "released");
        // In the folder that was shown, it runs.
        let left = ask(&place, &brief, event(agent, "3", &scratch, tool, RM).as_bytes());
        assert!(is_allowed(&left), "{agent} {left:?}");
        assert_eq!(state(&place, &id), "running");
        assert_eq!(state(&place, &other), "held");
    }
}

#[test]
fn i3_a_call_joins_no_pending_approval_of_another_folder() {
    // With `most_pending` in the policy, the gate itself joins equal calls of one agent.
    let place = agents();
    let [scratch, precious] = folders(&place);
    let waiting = fed(
        hook(&place, &["claude-code", "--hold", "30s"]),
        event("claude-code", "1", &scratch, "Bash", RM).as_bytes(),
    );
    let id = pending(&place);
    let elsewhere = event("claude-code", "2", &precious, "Bash", RM).replace("\"s1\"", "\"s2\"");
    let left = ask(&place, &["claude-code", "--hold", "10ms"], elsewhere.as_bytes());
    assert!(
        left.stdout.contains("still waits") && !left.stdout.contains(&id[..8]),
        "{left:?}"
    );
    place.good(&["approve", &id]);
    assert!(is_allowed(&Left::of(waiting.wait_with_output().unwrap())));
    let list = place.json(&["list"]);
    assert_eq!(list["approvals"].as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn i3_at_a_server_too_an_approval_is_for_one_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = agents();
    let [scratch, precious] = folders(&place);
    let served = Served::start(&place);
    let token = served.token(&["--agent", "coder", "--scope", "propose,wait"]);
    let host = place.path().join("host");
    place.write(
        "host",
        served.token(&["--name", "coder-host", "--scope", "execute"]),
    );
    std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ask = |id: &str, folder: &Path| {
        let options = [
            "claude-code",
            "--hold",
            "10ms",
            "--execute-token-file",
            host.to_str().unwrap(),
        ];
        let mut command = hook(&place, &options);
        command
            .env("COUNTERSIGN_SERVER", &served.url)
            .env("COUNTERSIGN_TOKEN", &token);
        let event = event("claude-code", id, folder, "Bash", RM);
        Left::of(fed(command, event.as_bytes()).wait_with_output().unwrap())
    };
    let left = ask("1", &scratch);
    assert!(left.stdout.contains("still waits"), "{left:?}");
    let id = pending(&place);
    let shown = served.good(&served.person(), &["show", &id, "--json"]);
    assert!(shown.contains(&scratch.display().to_string()), "{shown}");
    served.good(&served.person(), &["approve", &id]);
    let left = ask("2", &precious);
    assert!(
        !is_allowed(&left) && left.stdout.contains("still waits"),
        "{left:?}"
    );
    let left = ask("3", &scratch);
    assert!(is_allowed(&left), "{left:?}");
    assert_eq!(state(&place, &id), "running");
}

#[test]
fn i3_a_call_in_no_known_folder_is_blocked() {
    for agent in ["claude-code", "codex", "gemini"] {
        let place = agents();
        for folder in [
            "",
            r#""cwd":null,"#,
            r#""cwd":"","#,
            r#""cwd":".","#,
            r#""cwd":"p/q","#,
            r#""cwd":"~","#,
        ] {
            let event = event(agent, "1", Path::new("/"), shell(agent), RM);
            let event = event.replace(r#""cwd":"/","#, folder);
            let left = ask(&place, &[agent, "--hold", "10ms"], event.as_bytes());
            assert!(
                blocks(agent, &left) && left.code == 2,
                "{agent} {folder}: {left:?}"
            );
            assert!(left.stdout.contains("`cwd`"), "{left:?}");
        }
        assert!(!place.path().join("countersign.db").exists());
    }
}

/// Proposes a read through the hook. Returns whether it is held, and the notes on its card.
#[track_caller]
pub(super) fn read(
    place: &TestFolder,
    folder: &Path,
    id: usize,
    tool: &str,
    input: &Value,
) -> (bool, String) {
    let event = event("claude-code", &format!("r{id}"), folder, tool, &input.to_string());
    let left = ask(place, &["claude-code", "--hold", "10ms"], event.as_bytes());
    let held = left.stdout.contains("still waits for a person");
    assert!(
        held || one(&left) == serde_json::json!({}),
        "{tool} {input}: {left:?}"
    );
    let notes = match held {
        true => {
            let id = pending(place);
            let notes = place.json(&["show", &id])["calls"][0]["notes"].to_string();
            place.good(&["deny", &id]);
            notes
        }
        false => String::new(),
    };
    (held, notes)
}

#[test]
fn x81_a_link_to_a_sensitive_file_is_held_like_the_file() {
    let place = agents();
    place.write("countersign.toml", POLICY.replace("cool_down = \"2m\"", ""));
    let root = place.path().canonicalize().unwrap();
    let project = root.join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::create_dir_all(root.join("home/.ssh")).unwrap();
    std::fs::write(root.join("home/.ssh/id_rsa"), "key").unwrap();
    std::fs::write(project.join("src/main.rs"), "fn main() {}").unwrap();
    symlink(root.join("home/.ssh/id_rsa"), project.join("notes.txt")).unwrap();
    symlink("../home/.ssh", project.join("docs")).unwrap();
    symlink("src", project.join("source")).unwrap();
    symlink(&project, root.join("way")).unwrap();
    let absolute = |name: &str| project.join(name).display().to_string();
    let reads = [
        ("Read", serde_json::json!({"file_path": "notes.txt"}), true),
        (
            "Read",
            serde_json::json!({"file_path": absolute("notes.txt")}),
            true,
        ),
        (
            "Read",
            serde_json::json!({"file_path": "./src/../notes.txt"}),
            true,
        ),
        ("Grep", serde_json::json!({"pattern": "x", "path": "docs"}), true),
        ("LS", serde_json::json!({"path": absolute("docs")}), true),
        ("Read", serde_json::json!({"file_path": "src/main.rs"}), false),
        ("Read", serde_json::json!({"file_path": "source/main.rs"}), false),
        ("Read", serde_json::json!({"file_path": "nothing.txt"}), false),
    ];
    for (id, (tool, input, expected)) in reads.iter().enumerate() {
        for (more, folder) in [(0, &project), (100, &root.join("way"))] {
            let (held, notes) = read(&place, folder, id + more, tool, input);
            assert_eq!(held, *expected, "{tool} {input} in {}: {notes}", folder.display());
            if held {
                assert!(notes.contains("leads to") && notes.contains(".ssh"), "{notes}");
            }
        }
    }
}

#[test]
fn x81_a_relative_path_begins_in_the_working_folder() {
    let place = agents();
    let policy = std::fs::read_to_string(place.path().join("countersign.toml")).unwrap();
    let places = "[places]\nsensitive = [\"/srv/keys\"]\n";
    place.write("countersign.toml", format!("{places}{policy}"));
    let file = |name: &str| serde_json::json!({ "file_path": name });
    for (id, (folder, name, expected)) in [
        ("/srv/www", "../keys/a", true),
        ("/srv", "keys/a", true),
        ("/srv/www", "keys/a", false),
        ("/etc", "shadow", true),
        ("/etc", "hosts", false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, Path::new(folder), id, "Read", &file(name));
        assert_eq!(held, expected, "{name} in {folder}: {notes}");
    }
}

/// Creates a project folder and, next to it, a home folder with `.ssh`. Returns the project and `.ssh`.
pub(super) fn project(place: &TestFolder) -> [std::path::PathBuf; 2] {
    place.write("countersign.toml", POLICY.replace("cool_down = \"2m\"", ""));
    let root = place.path().canonicalize().unwrap();
    let folders = [root.join("project"), root.join("home/.ssh")];
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    folders
}

#[test]
fn x81_a_file_that_is_not_there_yet_is_followed_through_its_links() {
    let place = agents();
    let [project, ssh] = project(&place);
    std::fs::create_dir_all(project.join("src/deep")).unwrap();
    symlink(&ssh, project.join("docs")).unwrap();
    symlink("../home/.ssh/authorized_keys", project.join("NOTES.md")).unwrap();
    symlink("NOTES.md", project.join("second.md")).unwrap();
    symlink("src/deep", project.join("deep")).unwrap();
    symlink("loop", project.join("loop")).unwrap();
    let keys = ssh.join("authorized_keys").display().to_string();
    let deep = project.join("src/new.txt").display().to_string();
    for (id, (name, target)) in [
        ("docs/authorized_keys", Some(&keys)),
        ("docs/./new/../authorized_keys", Some(&keys)),
        ("NOTES.md", Some(&keys)),
        ("second.md", Some(&keys)),
        // The kernel follows `deep` before it goes up.
        ("deep/../new.txt", Some(&deep)),
        ("src/new.txt", None),
        ("new/folder/a.txt", None),
        ("loop", None),
    ]
    .into_iter()
    .enumerate()
    {
        for (more, name) in [
            (0, name.to_owned()),
            (100, format!("{}/{name}", project.display())),
        ] {
            let input = serde_json::json!({"file_path": name, "content": "x"});
            let (held, notes) = read(&place, &project, id + more, "Write", &input);
            assert!(held, "{name}");
            match target {
                Some(target) => assert!(
                    notes.contains(&format!("leads to \\\"{target}")),
                    "{name}: {notes}"
                ),
                None => assert!(!notes.contains("leads to"), "{name}: {notes}"),
            }
            // A read is checked by where it leads.
            let input = serde_json::json!({ "file_path": name });
            let (held, notes) = read(&place, &project, id + more + 1000, "Read", &input);
            assert_eq!(held, target == Some(&keys), "{name}: {notes}");
        }
    }
}

#[test]
fn i3_a_link_that_leads_elsewhere_is_another_question_also_for_a_new_file() {
    let place = agents();
    let [scratch, precious] = folders(&place);
    let project = place.path().canonicalize().unwrap();
    symlink(&scratch, project.join("docs")).unwrap();
    let brief = ["claude-code", "--hold", "10ms"];
    let write = |id: &str| {
        let input = r#"{"file_path":"docs/new.txt","content":"x"}"#;
        ask(
            &place,
            &brief,
            event("claude-code", id, &project, "Write", input).as_bytes(),
        )
    };
    assert!(write("1").stdout.contains("still waits"));
    let id = pending(&place);
    place.good(&["approve", &id]);
    std::fs::remove_file(project.join("docs")).unwrap();
    symlink(&precious, project.join("docs")).unwrap();
    let left = write("2");
    assert!(
        !is_allowed(&left) && left.stdout.contains("still waits"),
        "{left:?}"
    );
    assert_ne!(pending(&place), id);
    std::fs::remove_file(project.join("docs")).unwrap();
    symlink(&scratch, project.join("docs")).unwrap();
    assert!(is_allowed(&write("3")));
}

#[test]
fn i3_too_many_links_are_named_as_the_problem() {
    let place = agents();
    let [project, ssh] = project(&place);
    let names: Vec<String> = (0..65).map(|number| format!("link{number}")).collect();
    for name in &names {
        symlink(&ssh, project.join(name)).unwrap();
    }
    let input = serde_json::json!({ "command": format!("cat {}", names.join(" ")) }).to_string();
    let event = event("claude-code", "1", &project, "Bash", &input);
    let left = ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes());
    assert!(blocks("claude-code", &left), "{left:?}");
    assert!(
        left.stdout.contains("symbolic links") && !left.stdout.contains("cwd"),
        "{left:?}"
    );
}

#[test]
fn the_message_to_the_person_names_the_store() {
    let place = agents();
    let [project, _] = project(&place);
    let store = place.path().join("elsewhere.db").display().to_string();
    let event = event("claude-code", "1", &project, "Bash", RM);
    let brief = ["claude-code", "--hold", "10ms", "--store", &store];
    let left = ask(&place, &brief, event.as_bytes());
    let told = one(&left)["systemMessage"].as_str().unwrap().to_owned();
    assert!(told.contains(&format!("--store {store}`")), "{told}");
}

#[test]
fn x81_a_card_shows_both_readings_of_a_path_that_climbs_behind_a_link() {
    let place = agents();
    let [project, ssh] = project(&place);
    std::fs::create_dir_all(project.join("src/deep")).unwrap();
    symlink("src/deep", project.join("deep")).unwrap();
    symlink(&ssh, project.join("keys")).unwrap();
    let [followed, shortened] = ["src/new.txt", "new.txt"].map(|name| project.join(name));
    let input = serde_json::json!({"file_path": "deep/../new.txt", "content": "x"});
    let (held, notes) = read(&place, &project, 1, "Write", &input);
    assert!(held);
    for target in [followed, shortened] {
        assert!(notes.contains(&format!("to \\\"{}", target.display())), "{notes}");
    }
    // Either reading may be the sensitive one.
    std::fs::create_dir_all(ssh.join("deep")).unwrap();
    symlink(ssh.join("deep"), project.join("below")).unwrap();
    for (id, name) in [(2, "below/../config"), (3, "deep/../keys/config")] {
        let (held, notes) = read(
            &place,
            &project,
            id,
            "Read",
            &serde_json::json!({ "file_path": name }),
        );
        assert!(held && notes.contains(".ssh"), "{name}: {notes}");
    }
}

#[test]
fn x81_a_link_to_a_name_that_is_not_utf8_is_held() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = agents();
    let [project, _] = project(&place);
    let target = |name: &[u8]| project.join(std::ffi::OsStr::from_bytes(name));
    symlink(target(b"a\xff"), project.join("odd")).unwrap();
    symlink(target(b"plain"), project.join("even")).unwrap();
    for (id, name, expected) in [(1, "odd", true), (2, "even", false)] {
        let (held, notes) = read(
            &place,
            &project,
            id,
            "Read",
            &serde_json::json!({ "file_path": name }),
        );
        assert_eq!(held, expected, "{name}: {notes}");
    }
    // Another target of that kind is another question.
    let write = |id: &str| {
        let input = r#"{"file_path":"odd","content":"x"}"#;
        let event = event("claude-code", id, &project, "Write", input);
        ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes())
    };
    write("3");
    let id = pending(&place);
    place.good(&["approve", &id]);
    std::fs::remove_file(project.join("odd")).unwrap();
    symlink(target(b"a\xfe"), project.join("odd")).unwrap();
    let left = write("4");
    assert!(!is_allowed(&left), "{left:?}");
}

#[test]
fn x81_settings_of_coding_agents_are_forbidden_by_every_name() {
    let place = agents();
    let [project, _] = project(&place);
    let settings = project.join(".claude");
    std::fs::create_dir_all(settings.join("hooks")).unwrap();
    symlink(".claude/settings.json", project.join("notes.json")).unwrap();
    symlink(".claude", project.join("Docs")).unwrap();
    symlink(&settings, project.join("way")).unwrap();
    symlink("src", project.join("source")).unwrap();
    let file = |name: &str| serde_json::json!({"file_path": name, "content": "see notes.json"}).to_string();
    let patch = |name: &str| {
        let command = format!("*** Begin Patch\n*** Update File: {name}\n+see notes.json\n*** End Patch\n");
        serde_json::json!({ "command": command }).to_string()
    };
    let calls = [
        (&project, ".claude/settings.json", true),
        (&project, "notes.json", true),
        (&project, "Docs/settings.json", true),
        (&settings, "settings.json", true),
        (&settings.join("hooks"), "../settings.json", true),
        (&project.join("way"), "settings.json", true),
        (&project, "source/a.json", false),
        (&project, "settings.json", false),
    ];
    for (number, (folder, name, is_forbidden)) in calls.into_iter().enumerate() {
        for (agent, tool, input) in [
            ("claude-code", "Write", file(name)),
            ("codex", "apply_patch", patch(name)),
        ] {
            let event = event(agent, &format!("{tool}{number}"), folder, tool, &input);
            let left = ask(&place, &[agent, "--hold", "10ms"], event.as_bytes());
            let case = format!("{tool} {name} in {}: {left:?}", folder.display());
            assert!(blocks(agent, &left), "{case}");
            assert_eq!(
                left.stdout.contains("the policy forbids this call"),
                is_forbidden,
                "{case}"
            );
            assert_eq!(left.stdout.contains("still waits"), !is_forbidden, "{case}");
        }
    }
}
