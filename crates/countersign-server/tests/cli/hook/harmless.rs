//! Files beside sensitive ones that hold no secret, and filters for ordinary files: they pass where any file would.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::folder::{project, read};
use super::*;

#[test]
fn x81_samples_and_public_keys_pass_as_ordinary_files_do() {
    let place = agents();
    let [project, ssh] = project(&place);
    std::fs::write(project.join(".env"), "KEY=1").unwrap();
    std::fs::create_dir_all(project.join("a/id_rsa.pub")).unwrap();
    symlink(".env", project.join(".env.sample")).unwrap();
    symlink(ssh.join("id_rsa"), project.join("id_ecdsa.pub")).unwrap();
    symlink("docs/sample", project.join("id_dsa.pub")).unwrap();
    let absolute = project.join(".env.example").display().to_string();
    for (id, (name, expected)) in [
        (".env.example", false),
        ("config/.ENV.Template", false),
        (&*absolute, false),
        ("id_rsa.pub", false),
        ("keys/id_ed25519.pub", false),
        ("deploy.pub", false),
        // A link to another ordinary file.
        ("id_dsa.pub", false),
        // Links to what is sensitive.
        (".env.sample", true),
        ("id_ecdsa.pub", true),
        (".env.example/../.env", true),
        ("id_rsa.pub/../id_rsa", true),
        ("a/id_rsa.pub/x", true),
        ("a/id_rsa.pub/", true),
        ("id_rsa.pub/..", true),
        (".env.example\\..\\.env", true),
        (".env.example%00/../.env", true),
        ("id_rsa%00.pub", true),
        ("id_rsa\0.pub", true),
        ("id_rsa .pub", true),
        ("id_rsa", true),
        (".env", true),
        (".env.local", true),
        (".env.example.local", true),
        (".env.pub", true),
        ("credentials.pub", true),
        // Everything in such a folder is for people.
        ("~/.ssh/id_rsa.pub", true),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, "Read", &json!({ "file_path": name }));
        assert_eq!(held, expected, "{name}: {notes}");
    }
    let grep = json!({"pattern": "x", "path": ".env.example", "output_mode": "content"});
    let (held, notes) = read(&place, &project, 99, "Grep", &grep);
    assert!(!held, "{notes}");
    // A sample that becomes a link is held from then on.
    symlink(".env", project.join(".env.example")).unwrap();
    let (held, notes) = read(
        &place,
        &project,
        100,
        "Read",
        &json!({ "file_path": ".env.example" }),
    );
    assert!(held && notes.contains("leads to"), "{notes}");
}

#[test]
fn x81_a_policy_can_hold_what_is_usually_harmless() {
    let place = agents();
    let [project, _] = project(&place);
    let places = "[places]\nsensitive = [\".env.example\", \"*.pub\", \"settings.toml\"]\n";
    let policy = POLICY.replace("cool_down = \"2m\"", "");
    place.write("countersign.toml", format!("{places}{policy}"));
    for (id, (tool, input)) in [
        ("Read", json!({ "file_path": ".env.example" })),
        ("Read", json!({ "file_path": "id_rsa.pub" })),
        ("Glob", json!({ "pattern": "**/*.toml" })),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, tool, &input);
        assert!(held, "{input}: {notes}");
    }
}

#[test]
fn x81_filters_for_ordinary_files_pass() {
    let place = agents();
    let [project, _] = project(&place);
    for (id, (filter, expected)) in [
        ("*.{rs,toml}", false),
        ("**/*.{ts,tsx,json}", false),
        ("src/**/*.{yml,yaml}", false),
        ("*.toml", false),
        ("**/*.php", false),
        (".env.{example,sample,template}", false),
        ("id_{rsa,ed25519}.pub", false),
        ("*.{pub,pem}", true),
        ("*.{toml,key}", true),
        ("{.env,x}", true),
        (".env.{example,local}", true),
        ("id_rsa{,.pub}", true),
        ("id_rsa*", true),
        ("id_rsa.p*", true),
        (".env.*", true),
        (".env.ex*", true),
        ("s*.toml", true),
        ("secrets.*", true),
        ("*.db", true),
        ("*.toml/x", true),
        ("~/*.json", true),
        ("~/.docker/*.json", true),
        ("/etc/*.toml", true),
        ("../*.json", true),
        (".aws/*.toml", true),
        ("*.{rs,toml", true),
    ]
    .into_iter()
    .enumerate()
    {
        let glob = json!({ "pattern": filter });
        let grep = json!({"pattern": "x", "glob": filter});
        for (more, tool, input) in [(0, "Glob", glob), (100, "Grep", grep)] {
            let (held, notes) = read(&place, &project, id + more, tool, &input);
            assert_eq!(held, expected, "{tool} {filter}: {notes}");
        }
    }
}

#[test]
fn x81_commands_of_a_coding_agent_are_read_but_not_written() {
    let place = agents();
    let [project, ssh] = project(&place);
    let commands = project.join(".claude/commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::fs::write(commands.join("review.md"), "Review this.").unwrap();
    symlink(&ssh, commands.join("more")).unwrap();
    let absolute = commands.join("review.md").display().to_string();
    for (id, (tool, input, expected)) in [
        (
            "Read",
            json!({ "file_path": ".claude/commands/review.md" }),
            false,
        ),
        ("Read", json!({ "file_path": absolute }), false),
        ("Glob", json!({ "pattern": ".claude/commands/*.md" }), false),
        (
            "Grep",
            json!({"pattern": "x", "path": ".claude/commands", "glob": "*.md"}),
            false,
        ),
        ("Read", json!({ "file_path": ".claude/commands/more/x.md" }), true),
        (
            "Read",
            json!({ "file_path": ".claude/commands/../.credentials.json" }),
            true,
        ),
        ("Glob", json!({ "pattern": ".claude/*" }), true),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, &project, id, tool, &input);
        assert_eq!(held, expected, "{tool} {input}: {notes}");
    }
    let input = json!({"file_path": ".claude/commands/review.md", "content": "x"}).to_string();
    let event =
        before("w", "Write", &input).replace(r#""cwd":"/""#, &format!(r#""cwd":"{}""#, project.display()));
    let left = ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes());
    assert!(left.stdout.contains("the policy forbids this call"), "{left:?}");
}
