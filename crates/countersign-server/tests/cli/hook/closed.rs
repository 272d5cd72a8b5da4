//! Every failure blocks the call.

use super::*;

#[test]
fn x21_whatever_is_wrong_blocks_in_every_dialect() {
    let place = agents();
    let huge = before("t", "Bash", &format!(r#"{{"command":"{}"}}"#, "x".repeat(80_000)));
    let deep = before(
        "t",
        "Bash",
        &format!("{}1{}", "{\"a\":".repeat(80), "}".repeat(80)),
    );
    let twice = before("t", "Bash", r#"{"command":"ls","command":"rm"}"#);
    let escaped = before("t", "Bash", r#"{"command":"ls","\u0063ommand":"rm"}"#);
    let tools = before("t", "Read", "{}").replace("\"cwd\"", "\"tool_name\":\"Bash\",\"cwd\"");
    let unknown = before("t", "Read", "{}").replace("\"cwd\":\"/\"", "\"x\":1,\"x\":2");
    let events = [
        "",
        " ",
        "null",
        "[]",
        "{}",
        "x",
        "{\"hook_event_name\":\"PreToolUse\"}",
        "{\"session_id\":\"s\"}",
        &before("t", "Bash", "[]"),
        &before("t", "Bash", "\"ls\""),
        &before("t", "Bash", "null"),
        &before("t", "Ba sh", "{}"),
        &before("t", "", "{}"),
        &before("t", "Bash", "{}").replace("PreToolUse", "Stop"),
        &before("t", "Bash", "{}").replace("PreToolUse", "pretooluse"),
        &format!("{}{}", before("t", "Read", "{}"), "{}"),
        &before("t", "Read", "{}").replace("\"t\"}", "7}"),
        &before("t", "Read", "{}").replace("\"s1\"", "\"\""),
        &huge,
        &deep,
        &twice,
        &escaped,
        &tools,
        &unknown,
    ];
    for dialect in ["claude-code", "codex", "gemini"] {
        for event in events {
            let event = match dialect {
                "gemini" => event.replace("PreToolUse", "BeforeTool"),
                _ => event.to_owned(),
            };
            let left = ask(&place, &[dialect, "--hold", "10ms"], event.as_bytes());
            one(&left);
            assert!(
                blocks(dialect, &left),
                "{dialect} {}: {left:?}",
                &event[..event.len().min(200)]
            );
        }
        let left = ask(&place, &[dialect], b"{\"session_id\":\"\xff\"}");
        assert!(blocks(dialect, &left), "{dialect}: {left:?}");
    }
    assert!(
        !place.path().join("countersign.db").exists(),
        "something was proposed"
    );
}

#[test]
fn x21_a_store_a_policy_or_a_folder_that_does_not_work_blocks() {
    let event = before("t", "Read", r#"{"file_path":"/a"}"#);
    let check = |arguments: &[&str], prepare: fn(&TestFolder)| {
        let place = agents();
        prepare(&place);
        for dialect in ["claude-code", "codex", "gemini"] {
            let event = match dialect {
                "gemini" => event.replace("PreToolUse", "BeforeTool"),
                _ => event.clone(),
            };
            let all: Vec<&str> = [dialect].into_iter().chain(arguments.iter().copied()).collect();
            let left = ask(&place, &all, event.as_bytes());
            assert!(blocks(dialect, &left) && left.code == 2, "{all:?}: {left:?}");
        }
    };
    check(&["--store", "no/such/folder/c.db"], |_| {});
    check(&["--store", "postgres://nobody@127.0.0.1:1/none"], |_| {});
    check(&[], |place| {
        place.write(
            "countersign.db",
            "this is no database at all, and long enough to be read as one",
        )
    });
    check(&[], |place| {
        place.write("countersign.toml", "[tools.Read]\neffect = \"raed\"\n")
    });
    check(&["--policy", "gone.toml"], |_| {});
    check(&["--state", "countersign.toml/inside"], |_| {});
    check(&["--server", "http://127.0.0.1:9", "--token", "cst_x"], |_| {});
    check(&["--server", "http://127.0.0.1:9"], |_| {});
    // An invalid command line, also with `--json`: one coding agent would read the JSON error as an answer.
    check(&["--bogus"], |_| {});
    check(&["--json", "--bogus"], |_| {});
    check(&["--hold", "soon"], |_| {});
}
