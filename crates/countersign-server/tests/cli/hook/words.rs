//! Paths within commands and long texts: read as a shell reads them, followed through links, and held when in doubt.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::folder::{project, read};
use super::*;

const PASSES: &str = "[agents]\nmost_pending = \"unlimited\"\n[tools.Bash]\neffect = \"read\"\nplaces = [\"command\"]\n\
                      [tools.Look]\neffect = \"read\"\nplaces = [\"*\"]\n[tools.Write]\neffect = \"write\"\n";

#[test]
fn x81_a_path_with_spaces_in_a_command_is_followed() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    std::fs::write(ssh.join("config"), "key").unwrap();
    std::fs::create_dir(project.join("plain folder")).unwrap();
    symlink(&ssh, project.join("my notes")).unwrap();
    symlink("plain folder", project.join("other folder")).unwrap();
    for (id, (command, expected)) in [
        ("cat 'my notes/config'", true),
        ("cat \"my notes/config\"", true),
        ("cat my\\ notes/config", true),
        ("cat my\" \"notes/config", true),
        ("cat --file='my notes/config'", true),
        ("head -n1 <'my notes'/config | tail", true),
        ("cat 'other folder/a'", false),
        ("cat plain\\ folder/a", false),
        ("cargo test", false),
        // A shell may read these in another way.
        ("cat 'my notes", true),
        ("cat $'my\\x20notes/config'", true),
        ("echo \"$(cat \"my notes/config\")\"", true),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Bash", &json!({ "command": command }));
        assert_eq!(held, expected, "{command}: {notes}");
        assert!(
            !held || notes.contains("leads to") || notes.contains("another way"),
            "{notes}"
        );
    }
}

#[test]
fn x81_what_is_too_long_to_follow_is_held() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    symlink(&ssh, project.join("notes")).unwrap();
    let words = |count: usize| {
        (0..count)
            .map(|at| format!("w{at}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (id, (text, expected)) in [
        (format!("{} notes/config", words(500)), "leads to"),
        (words(500), ""),
        (format!("{} notes/config", words(1000)), "too long to follow"),
        (format!("{} notes/config", "x".repeat(5000)), "too long to follow"),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Look", &json!({ "query": text }));
        assert_eq!(held, !expected.is_empty(), "{notes}");
        assert!(notes.contains(expected), "{notes}");
    }
    // Many words in one argument hide no link in another.
    let input = json!({"content": words(1500), "file_path": "notes/authorized_keys"});
    let (held, notes) = read(&place, &project, 10, "Write", &input);
    assert!(held && notes.contains("leads to"), "{notes}");
}

#[test]
fn x81_a_card_says_that_links_in_a_long_text_were_not_followed() {
    let place = agents();
    let [project, _] = project(&place);
    place.write("countersign.toml", PASSES);
    let note = "`content` is too long to follow all links in it";
    for (id, (tool, length, expected)) in [
        ("Write", 5000, true),
        ("Write", 50, false),
        ("Unlisted", 5000, true),
        ("Unlisted", 50, false),
    ]
    .into_iter()
    .enumerate()
    {
        let input = json!({"file_path": "a.txt", "content": "x".repeat(length)});
        let (held, notes) = read(&place, &project, id, tool, &input);
        assert!(held, "{tool}");
        assert_eq!(notes.contains(note), expected, "{tool} {length}: {notes}");
    }
}

#[test]
fn x81_names_in_another_case_are_places_too() {
    let place = agents();
    let [project, ssh] = project(&place);
    let policy = "[tools.Open]\neffect = \"read\"\nplaces = [\"path\", \"name?\", \"!note\"]\n";
    place.write("countersign.toml", format!("{PASSES}{policy}"));
    symlink(&ssh, project.join("notes")).unwrap();
    for (id, (input, expected)) in [
        (json!({"path": "a.txt", "Path": ".env"}), true),
        (json!({"path": "a.txt", "PATH": "notes/config"}), true),
        (json!({"path": "a.txt", "Path": "b.txt"}), true),
        (json!({"path": "a.txt", "NAME": ".env"}), true),
        (json!({"path": "a.txt", "note": ".env"}), false),
        (json!({"path": "a.txt", "name": "b.txt"}), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Open", &input);
        assert_eq!(held, expected, "{input}: {notes}");
    }
}

#[test]
fn x81_relative_paths_also_begin_in_the_folder_that_another_argument_names() {
    let place = agents();
    let [project, ssh] = project(&place);
    let places = "[places]\nsensitive = [\"/srv/keys\"]\n";
    place.write("countersign.toml", format!("{PASSES}{places}"));
    std::fs::create_dir(project.join("sub")).unwrap();
    symlink(ssh.join("config"), project.join("sub/inner.txt")).unwrap();
    let names = [
        "path",
        "cwd",
        "Cwd",
        "root",
        "base",
        "base_path",
        "basePath",
        "working_directory",
        "workdir",
        "folder",
        "dir",
        "dir_path",
        "directory",
    ];
    for (id, name) in names.into_iter().enumerate() {
        for (more, folder, file, expected) in [
            (0, "sub", "inner.txt", true),
            (100, "sub", "other.txt", false),
            (200, "/srv/www", "../keys/a", true),
            (300, "/srv/www", "keys/a", false),
        ] {
            let input = json!({ name: folder, "file": file });
            let (held, notes) = read(&place, &project, id + more, "Look", &input);
            assert_eq!(held, expected, "{input}: {notes}");
        }
    }
}

#[test]
fn x81_names_of_members_are_places_as_their_values_are() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    symlink(&ssh, project.join("notes")).unwrap();
    for (id, (input, expected)) in [
        (json!({"files": {"notes/config": {"line": 1}}}), true),
        (json!({"files": [{"notes": true}]}), true),
        (json!({"files": {".env": "x"}}), true),
        (json!({"notes/config": 1}), true),
        (json!({"files": {"src/a.rs": "x"}}), false),
        // What a tool calls its arguments is no path.
        (json!({"credentials": "none", "notes": 1}), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Look", &input);
        assert_eq!(held, expected, "{input}: {notes}");
    }
}

#[test]
fn x81_names_that_a_shell_puts_together_are_held() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    symlink(&ssh, project.join("notes")).unwrap();
    for (id, (command, expected)) in [
        ("cat .e${X}nv", true),
        ("cat .e$X", true),
        ("cat \"n$X/config\"", true),
        ("cat $(echo bm90ZXM= | base64 -d)/config", true),
        ("cat `x`/config", true),
        ("cat n{o,x}tes/config", true),
        ("cd sub && cat config", true),
        ("pushd sub; cat config", true),
        ("cat 'a$b' c\\$d", false),
        ("grep 'a$' src/a.rs", false),
        ("cat '{a,b}'", false),
        ("ls src", false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Bash", &json!({ "command": command }));
        assert_eq!(held, expected, "{command}: {notes}");
    }
    // The policy of `hook policy` holds every command.
    let place = agents();
    for (id, command) in [(100, "cat .e${X}nv"), (101, "cd sub && cat config"), (102, "ls")] {
        let (held, _) = read(&place, &project, id, "Bash", &json!({ "command": command }));
        assert!(held, "{command}");
    }
}

#[test]
fn x81_base_folders_nested_commands_and_other_spellings_are_followed() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    std::fs::create_dir_all(project.join("sub/deep")).unwrap();
    std::fs::write(project.join(".env"), "KEY=1").unwrap();
    symlink(&ssh, project.join("sub/k")).unwrap();
    symlink("sub/deep", project.join("d")).unwrap();
    symlink(".env", project.join("e1")).unwrap();
    for (id, (tool, arguments, expected)) in [
        ("Look", json!({ "path": "k/x", "cwd": "d/.." }), true),
        ("Look", json!({ "path": "k/x", "cwd": ["sub"] }), true),
        ("Look", json!({ "path": "k/x", "opts": { "cwd": "sub" } }), true),
        ("Look", json!({ "path": "k/x", "root_dir": "sub" }), true),
        ("Look", json!({ "path": "x", "root_dir": "sub" }), false),
        ("Look", json!({ "path": "e1\0" }), true),
        ("Look", json!({ "path": "/proc/self/cwd/x" }), true),
        ("Look", json!({ "shell": "cat .e${X}nv" }), true),
        (
            "Look",
            json!({ "path": "x", "input": { "command": "cat $X" } }),
            true,
        ),
        (
            "Look",
            json!({ "path": "x", "input": { "command": "cat x" } }),
            false,
        ),
        ("Bash", json!({ "command": "sh -c \"cd sub; cat k/x\"" }), true),
        (
            "Bash",
            json!({ "command": "sh -c '\"c\"\"d\" sub; cat k/x'" }),
            true,
        ),
        ("Bash", json!({ "command": "cat ~+/e1" }), true),
        ("Bash", json!({ "command": "grep -rn 'a b' src" }), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, tool, &arguments);
        assert_eq!(held, expected, "{arguments}: {notes}");
    }
}

#[test]
fn x81_a_file_with_spaces_in_a_patch_is_followed() {
    let place = agents();
    let [project, ssh] = project(&place);
    place.write("countersign.toml", PASSES);
    symlink(&ssh, project.join("my link")).unwrap();
    let patch = json!({ "command": "*** Begin Patch\n*** Update File: my link\n+x\n*** End Patch" });
    let (held, notes) = read(&place, &project, 1, "Write", &patch);
    assert!(held && notes.contains("leads to"), "{notes}");
}
