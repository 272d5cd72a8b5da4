//! Answers to coding agents, with a store and with a server.

use super::*;
use crate::served::Served;

#[test]
fn the_answers_are_a_contract() {
    let place = agents();
    let said = |arguments: &[&str], event: &str| {
        let left = ask(&place, arguments, event.as_bytes());
        one(&left);
        assert_eq!((left.code, left.stderr.as_str()), (0, ""), "{left:?}");
        left.stdout.trim().to_owned()
    };
    let read = before("t1", "Read", r#"{"file_path":"/a"}"#);
    let forbidden = before(
        "t2",
        "Write",
        r#"{"file_path":"/p/.claude/settings.json","content":""}"#,
    );
    // A call that passes is left to the coding agent's own rules: "allow" would skip its prompts.
    assert_eq!(said(&["claude-code"], &read), "{}");
    assert_eq!(said(&["codex"], &read), "{}");
    assert_eq!(
        said(
            &["gemini"],
            &gemini("BeforeTool", "glob", r#"{"dir_path":"/p"}"#, "")
        ),
        "{}"
    );
    insta::assert_snapshot!(said(&["claude-code"], &forbidden), @r##"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"the policy forbids this call of `Write`: it would change the settings of a coding agent or the files of Countersign, which only people may do; hint: no one can approve it; propose something else"}}"##);
    let pattern = r#"{"file_path":"/p/.gemini/settings.json","content":""}"#;
    insta::assert_snapshot!(said(&["gemini"], &gemini("BeforeTool", "write_file", pattern, "")), @r##"{"decision":"deny","reason":"the policy forbids this call of `write_file`: it would change the settings of a coding agent or the files of Countersign, which only people may do; hint: no one can approve it; propose something else"}"##);
    let short = |text: String| {
        let id = pending(&place);
        text.replace(&id[id.len() - 8..], "[id]")
    };
    let held = before("t3", "Bash", LS);
    insta::assert_snapshot!(short(said(&["claude-code", "--hold", "10ms"], &held)), @r##"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not approved yet: approval [id] still waits for a person after 0s. Nothing was run. Do not look for another way. Later, make exactly the same call again: it joins this approval and gets its answer."},"systemMessage":"countersign: Bash waits for you as approval [id]: `countersign show [id]`, then `approve` or `deny`"}"##);
    place.good(&["deny", &pending(&place), "--comment", "use the staging copy"]);
    insta::assert_snapshot!(said(&["claude-code"], &held), @r##"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by ana: use the staging copy. Nothing was run."}}"##);
}

#[test]
fn what_is_forbidden_is_told_in_words_without_the_condition() {
    let place = agents();
    for (agent, event) in [
        ("claude-code", before("t1", "Bash", r#"{"command":"rm -rf /"}"#)),
        (
            "gemini",
            gemini("BeforeTool", "run_shell_command", r#"{"command":"rm -rf /"}"#, ""),
        ),
        (
            "codex",
            before(
                "t2",
                "apply_patch",
                r#"{"command":"*** Add File: .codex/hooks.json"}"#,
            ),
        ),
    ] {
        let left = ask(&place, &[agent], event.as_bytes());
        assert!(blocks(agent, &left), "{left:?}");
        for part in ["args.", "paths.", "matches(", "(?i)", "[^"] {
            assert!(!left.stdout.contains(part), "{part}: {left:?}");
        }
        for part in ["the policy forbids this call of `", "hint: no one can approve it"] {
            assert!(left.stdout.contains(part), "{part}: {left:?}");
        }
        assert!(left.stdout.len() < 600, "{left:?}");
    }
    // The operator sees the condition.
    let bash = ["policy", "try", "Bash", r#"{"command":"rm -rf /"}"#];
    let text: String = place.run(&bash).stdout.split_whitespace().collect();
    assert!(text.contains("args.command.matches("), "{text}");
    let json = place.run(&[&bash[..], &["--json"]].concat()).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let condition = json["deny"].as_str().unwrap();
    assert!(condition.starts_with("args.command.matches("), "{json}");
    assert!(!json["reason"].as_str().unwrap().contains("args."), "{json}");
    // Without words in the policy, the arguments that the condition is about are named.
    place.write(
        "countersign.toml",
        "[tools.Bash]\neffect = \"write\"\ndeny = \"args.command.contains('secret-word') && args.n > 7\"\n",
    );
    let event = before("t3", "Bash", r#"{"command":"echo secret-word","n":8}"#);
    let left = ask(&place, &["codex", "--store", "other.db"], event.as_bytes());
    let expected =
        "the policy forbids this call of `Bash`: its `command` and `n` meet a `deny` condition; hint";
    assert!(left.stdout.contains(expected), "{left:?}");
    assert!(!left.stdout.contains("secret-word"), "{left:?}");
}

#[test]
fn a_held_read_says_why_it_waits() {
    use std::os::unix::fs::symlink;
    let place = agents();
    let [project, ssh] = super::folder::project(&place);
    std::fs::write(ssh.join("id_rsa"), "PRIVATE-KEY").unwrap();
    std::fs::write(project.join(".env"), "TOKEN=hunter2").unwrap();
    symlink(ssh.join("id_rsa"), project.join("notes.txt")).unwrap();
    let target = ssh.join("id_rsa").display().to_string();
    let led = format!(
        "`file_path` leads through a link to a sensitive place: `.ssh` (\\\"notes.txt\\\" leads to \\\"{target}\\\")"
    );
    for (id, (tool, input, expected)) in [
        (
            "Read",
            r#"{"file_path":".env"}"#,
            "held because `file_path` names a sensitive place: `.env*`.",
        ),
        ("Read", r#"{"file_path":"notes.txt"}"#, &*led),
        (
            "Grep",
            r#"{"pattern":"x","glob":".+(e)nv"}"#,
            "`glob` has a pattern that cannot be read for sure",
        ),
        ("mcp__x__y", "{}", "not in the policy"),
    ]
    .into_iter()
    .enumerate()
    {
        let event = before(&format!("t{id}"), tool, input);
        let event = event.replace(r#""cwd":"/""#, &format!(r#""cwd":"{}""#, project.display()));
        let left = ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes());
        assert!(left.stdout.contains("still waits for a person"), "{left:?}");
        assert!(left.stdout.contains(expected), "{expected}: {left:?}");
        assert!(!left.stdout.contains("runs in the folder"), "{left:?}");
        for secret in ["PRIVATE-KEY", "hunter2"] {
            assert!(!left.stdout.contains(secret), "{left:?}");
        }
    }
}

#[test]
fn a_run_without_a_person_is_deferred_and_resumed() {
    let place = agents();
    let run = |entry: &str, event: &str, arguments: &[&str]| {
        let all: Vec<&str> = ["claude-code", "--hold", "10ms"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let mut command = hook(&place, &all);
        command.env("CLAUDE_CODE_ENTRYPOINT", entry);
        Left::of(fed(command, event.as_bytes()).wait_with_output().unwrap())
    };
    let event = before("t1", "Bash", LS);
    let deferred = run("sdk-cli", &event, &["--defer"]);
    insta::assert_snapshot!(deferred.stdout.trim(), @r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}"#);
    // If the agent would ignore the deferral and decide by other means, the call is denied.
    for mode in ["bypassPermissions", "acceptEdits", "dontAsk", "auto", "new"] {
        let event = event.replace("\"default\"", &format!("\"{mode}\""));
        assert!(
            blocks("claude-code", &run("sdk-cli", &event, &["--defer"])),
            "{mode}"
        );
    }
    assert!(blocks("claude-code", &run("cli", &event, &["--defer"])));
    assert!(blocks("claude-code", &run("sdk-cli", &event, &[])));
    let id = pending(&place);
    place.good(&["approve", &id]);
    assert!(run("sdk-cli", &event, &["--defer"]).stdout.contains("\"allow\""));
}

#[test]
fn over_a_server_it_is_the_same() {
    let place = agents();
    let served = Served::start(&place);
    let token = served.token(&["--agent", "coder", "--scope", "propose,wait"]);
    let host = served.token(&["--name", "coder-host", "--scope", "execute"]);
    let private = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        place.write(name, text);
        let path = place.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    private("host", &host);
    private("agent", &token);
    let over = |event: &str, hold: &str, host: &str| {
        let host = place.path().join(host);
        let host = host.to_str().unwrap();
        let mut command = hook(
            &place,
            &["claude-code", "--hold", hold, "--execute-token-file", host],
        );
        command
            .env("COUNTERSIGN_SERVER", &served.url)
            .env("COUNTERSIGN_TOKEN", &token);
        fed(command, event.as_bytes())
    };
    let left = |child: Child| Left::of(child.wait_with_output().unwrap());
    let read = before("t0", "Read", r#"{"file_path":"/a"}"#);
    assert_eq!(left(over(&read, "1s", "host")).stdout, "{}\n");
    let event = before("t1", "Bash", LS);
    assert!(
        left(over(&event, "10ms", "host"))
            .stdout
            .contains("not approved yet")
    );
    let waiting = over(&event, "30s", "host");
    let id = pending(&place);
    assert_eq!(place.json(&["show", &id])["agentName"], "coder");
    served.good(&served.person(), &["approve", &id]);
    let allowed = left(waiting);
    assert!(
        allowed.stdout.contains("\"allow\"") && allowed.stdout.contains(LS),
        "{allowed:?}"
    );
    assert!(blocks("claude-code", &left(over(&event, "10ms", "host"))));
    let end = after("PostToolUse", "t1", r#""tool_response":{"stdout":"x"}"#);
    assert_eq!(left(over(&end, "1s", "host")).stdout, "{}\n");
    assert_eq!(state(&place, &id), "succeeded");
    // A token without the `execute` scope starts nothing, nor does a token file that does not exist.
    let waiting = over(&before("t2", "Bash", LS), "30s", "agent");
    let id = pending(&place);
    served.good(&served.person(), &["approve", &id]);
    let refused = left(waiting);
    assert!(
        blocks("claude-code", &refused) && refused.code == 2,
        "{refused:?}"
    );
    assert_eq!(state(&place, &id), "released");
    assert_eq!(left(over(&read, "1s", "gone")).code, 2);
    // The self-test contacts the server and writes nothing.
    let settings = [
        "hook",
        "install",
        "claude-code",
        "--settings",
        "s.json",
        "--server",
        &served.url,
        "--token-file",
        "agent",
        "--execute-token-file",
        "host",
    ];
    place.good(&settings);
    let count = || {
        place.json(&["list", "--all"])["approvals"]
            .as_array()
            .unwrap()
            .len()
    };
    let earlier = count();
    let status = place.run(&["hook", "status", "claude-code", "--settings", "s.json"]);
    assert!(status.stdout.contains("blocked the self-test"), "{status:?}");
    assert_eq!(count(), earlier);
}
