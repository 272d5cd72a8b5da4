//! Tests interfaces that others rely on: JSON output, help texts, and positions of errors in a policy.

use serde_json::Value;

use crate::test_folder::{MARIA, TestFolder};

#[test]
fn a_policy_is_checked_to_the_line() {
    let place = TestFolder::new();
    assert!(place.good(&["policy", "check"]).contains("5 tools, no problems"));
    place.write(
        "bad.toml",
        "[tools.x]\neffect = \"write\"\nrisc = \"low\"\nhold = \"args.a >\"\n[tools.y]\n",
    );
    let left = place.run(&["policy", "check", "bad.toml"]);
    assert_eq!(left.code, 1);
    for line in ["bad.toml:3:1: ", "bad.toml:4:", "bad.toml:5:8: "] {
        assert!(left.stdout.contains(line), "no `{line}` in {left:?}");
    }
    let left = place.run(&["policy", "check", "bad.toml", "--json"]);
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(answer["problems"][0]["line"], 3);
}

/// A filter or test that templates do not know is found when the policy is read, not when a person is to be asked.
#[test]
fn a_policy_with_an_unknown_filter_is_refused() {
    let place = TestFolder::new();
    place.write(
        "bad.toml",
        r#"
[tools.find]
effect = "read"

[tools.x]
effect = "write"
summary = "Rename {{ name | nosuch }}"
before = { tool = "find", arguments = { id = "{{ args.x | nosuchfilter }}" } }
undo = { tool = "x", arguments = { name = ["{{ args.name }}", "a {{ args.x is nosuchtest }}"] } }
"#,
    );
    let left = place.run(&["policy", "check", "bad.toml"]);
    assert_eq!(left.code, 1);
    for line in [
        "bad.toml:7:29: error: unknown filter `nosuch` in `summary` of tool `x`",
        "bad.toml:8:59: error: unknown filter `nosuchfilter` in `before` of tool `x`",
        "bad.toml:9:79: error: unknown test `nosuchtest` in `undo` of tool `x`",
    ] {
        assert!(left.stdout.contains(line), "no `{line}` in {left:?}");
    }
}

/// Replaces values that differ from run to run.
fn redacted(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut redacted = String::new();
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let word = piece.trim_end_matches(|c| !is_part(c));
        let (bare, position) = word.split_once('.').unwrap_or((word, ""));
        let is_id = bare.len() == 36 && bare.matches('-').count() == 4;
        let is_hash = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_time = word.len() == 24 && word.contains('T') && word.ends_with('Z');
        let number = word.trim_start_matches(':');
        if number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            redacted.push_str(&piece.replace(number, "[micros]"));
            continue;
        }
        let shown = match (is_id, is_hash, is_time) {
            (true, ..) if position.is_empty() => "[id]".to_owned(),
            (true, ..) => format!("[id].{position}"),
            (_, true, _) => "[hash]".to_owned(),
            (_, _, true) => "[time]".to_owned(),
            _ => word.to_owned(),
        };
        redacted.push_str(&shown);
        redacted.push_str(piece.strip_prefix(word).unwrap_or_default());
    }
    redacted
}

#[test]
fn d3_the_json_of_a_proposal_and_of_an_approval_is_a_contract() {
    let place = TestFolder::new();
    let who = [
        "--agent",
        "crm",
        "--channel",
        "c1",
        "--run",
        "r1",
        "--session",
        "s1",
    ];
    let what = [
        "--json",
        "propose",
        "create_contact",
        MARIA,
        "--claim",
        "as you said",
    ];
    let arguments: Vec<&str> = what.into_iter().chain(who).collect();
    let proposed = place.good(&arguments);
    insta::assert_snapshot!(redacted(&proposed), @r##"
    {
      "calls": [
        {
          "tool": "create_contact",
          "ruling": "held",
          "id": "[id].1"
        }
      ],
      "approval": {
        "id": "[id]",
        "runId": "r1",
        "agentName": "crm",
        "toolName": "create_contact",
        "toolArguments": {"name":"Maria Garcia","email":"maria@acme.com"},
        "riskLevel": "medium",
        "description": "Create contact Maria Garcia, maria@acme.com",
        "status": "pending",
        "comment": null,
        "createdAt": "[time]",
        "expiresAt": "[time]",
        "decidedAt": null,
        "requestedBy": "ana",
        "decidedBy": null,
        "onBehalfOf": null,
        "channel": "c1",
        "session": "s1",
        "claim": "as you said",
        "digest": "[hash]",
        "version": 1,
        "endedAt": null,
        "decidedOn": null,
        "replaces": null,
        "supersededBy": null,
        "undoes": null,
        "order": "given",
        "quorum": 1,
        "approvals": [],
        "calls": [
          {
            "id": "[id].1",
            "tool": "create_contact",
            "arguments": {"name":"Maria Garcia","email":"maria@acme.com"},
            "argumentsText": "{\"name\":\"Maria Garcia\",\"email\":\"maria@acme.com\"}",
            "effect": "write",
            "risk": "medium",
            "summary": "Create contact Maria Garcia, maria@acme.com",
            "state": "held",
            "end": null,
            "because": null,
            "notes": [],
            "warnings": [],
            "provenance": null,
            "approvers": [
              "approvers"
            ],
            "fourEyes": false,
            "surface": "text",
            "undoable": true,
            "edited": false,
            "digest": "[hash]",
            "startedAt": null,
            "endedAt": null,
            "result": null,
            "undoneBy": null
          }
        ],
        "now": "[time]"
      }
    }
    "##);
    let answer: Value = serde_json::from_str(&proposed).unwrap();
    let id = answer["approval"]["id"].as_str().unwrap();
    place.good(&["approve", id, "--comment", "ok"]);
    insta::assert_snapshot!(redacted(&place.good(&["show", id, "--json", "--events"])), @r##"
    {
      "id": "[id]",
      "runId": "r1",
      "agentName": "crm",
      "toolName": "create_contact",
      "toolArguments": {"name":"Maria Garcia","email":"maria@acme.com"},
      "riskLevel": "medium",
      "description": "Create contact Maria Garcia, maria@acme.com",
      "status": "approved",
      "comment": "ok",
      "createdAt": "[time]",
      "expiresAt": "[time]",
      "decidedAt": "[time]",
      "requestedBy": "ana",
      "decidedBy": "ana",
      "onBehalfOf": null,
      "channel": "c1",
      "session": "s1",
      "claim": "as you said",
      "digest": "[hash]",
      "version": 2,
      "endedAt": "[time]",
      "decidedOn": "command_line",
      "replaces": null,
      "supersededBy": null,
      "undoes": null,
      "order": "given",
      "quorum": 1,
      "approvals": [
        {
          "by": "ana",
          "at": "[time]",
          "on": "command_line",
          "comment": "ok"
        }
      ],
      "calls": [
        {
          "id": "[id].1",
          "tool": "create_contact",
          "arguments": {"name":"Maria Garcia","email":"maria@acme.com"},
          "argumentsText": "{\"name\":\"Maria Garcia\",\"email\":\"maria@acme.com\"}",
          "effect": "write",
          "risk": "medium",
          "summary": "Create contact Maria Garcia, maria@acme.com",
          "state": "released",
          "end": null,
          "because": null,
          "notes": [],
          "warnings": [],
          "provenance": null,
          "approvers": [
            "approvers"
          ],
          "fourEyes": false,
          "surface": "text",
          "undoable": true,
          "edited": false,
          "digest": "[hash]",
          "startedAt": null,
          "endedAt": null,
          "result": null,
          "undoneBy": null
        }
      ],
      "events": [
        {
          "number": 1,
          "at": "[time]",
          "by": "agent:crm",
          "event": {"what":"proposed","calls":1,"expiresAt":[micros],"digest":"[hash]"},
          "link": "[hash]"
        },
        {
          "number": 2,
          "at": "[time]",
          "by": "person:ana",
          "event": {"what":"approved","digest":"[hash]","surface":"command_line"},
          "link": "[hash]"
        }
      ],
      "now": "[time]"
    }
    "##);
}

#[test]
fn c4_a_reply_is_read_with_its_reason() {
    let place = TestFolder::without_policy();
    let read = |arguments: &[&str]| {
        let said = place.good(arguments);
        let (reading, note) = said.trim().split_once('\n').unwrap();
        assert_eq!(note, "nothing was decided; a real card is read more strictly");
        reading.to_owned()
    };
    assert_eq!(
        read(&["read", "Yes, go ahead", "--prompt", "Delete it?"]),
        "yes: │ `yes`, `go ahead`"
    );
    assert_eq!(
        read(&["read", "ok", "--destructive", "--prompt", "Delete it?"]),
        "other: │ `ok` is too little here"
    );
    assert_eq!(
        read(&["read", "Sí, borrar", "--yes", "Sí, borrar", "--language", "es"]),
        "yes: │ `sí borrar` is what was offered"
    );
    let lines = concat!(
        r#"{"id":"a","lang":"en","prompt":"Delete it?","reply":"no, thanks","label":"ignored"}"#,
        "\n\n",
        r#"{"id":7,"prompt":"","reply":"what?"}"#,
        "\n"
    );
    let left = place.run_with(&["read", "--jsonl"], lines.as_bytes());
    assert_eq!(
        left.stdout,
        "{\"id\":\"a\",\"decision\":\"decline\",\"why\":\"`no thanks`\"}\n{\"id\":7,\"decision\":\"other\",\"why\":\"it asks something\"}\n"
    );
    let left = place.run_with(&["read", "--jsonl"], b"nonsense");
    assert!(left.stderr.contains("line 1"), "{}", left.stderr);
}

#[test]
fn the_help_is_a_contract() {
    let place = TestFolder::without_policy();
    insta::assert_snapshot!(place.good(&["--help"]), @r##"
    An AI agent proposes tool calls; only your recorded decision on those exact bytes lets them run, at
    most once

    Usage: countersign [OPTIONS] <COMMAND>

    Commands:
      serve      Run the service: the API and the inbox page
      chat       Chat with an agent; you approve or deny each change it proposes
      mcp        Run the MCP gateway: calls that are not reads wait for a person's approval
      hook       Install or run the hook for a coding agent (Claude Code, Codex, Gemini CLI)
      token      Manage tokens: credentials for agents and other programs
      person     Manage the accounts of people who sign in and decide
      propose    Propose tool calls, as an agent does
      list       List approvals, by default those waiting for a decision
      show       Show one approval: its calls, who proposed them, and its state
      approve    Approve calls, so that they run once with exactly the arguments shown
      deny       Deny an approval: none of its calls will run
      wait       Wait until an approval is decided; optionally run its approved calls
      inbox      Open the full-screen inbox in this terminal
      watch      Print events as they happen
      undo       Propose to undo a call that succeeded
      withdraw   Withdraw a pending approval, so that nobody can decide it
      reconcile  Record the outcome of a call that ended as unknown
      expire     Expire overdue approvals now (a running service does this by itself)
      trace      Show where each value of a call came from
      read       Show how a chat reply would be read: yes, no or something else, and why
      guide      Print instructions for an agent's prompt: how to work with calls that wait for a person
      policy     Check a policy, test a call against it, or create a first one
      key        Generate keys that encrypt the credentials stored with calls
      trust      Trust files, stores and servers that were found rather than named by you
      doctor     Check settings, store, policy and installed hooks for problems
      clock      Compare the store's clock with this machine's clock, or reset it
      verify     Verify that nobody has tampered with the stored history
      backup     Back up the store to a file; works while a service runs
      restore    Restore a store from a backup; all open approvals in it are cancelled
      purge      Erase arguments, results and comments of approvals that ended long ago
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Global options:
          --store <PATH|URL>
              Store to use: the full path of a SQLite file, or a `postgres://` URL [default:
              countersign.db in this folder]
              
              [env: COUNTERSIGN_STORE]

          --server <URL>
              URL of a Countersign server to use instead of a store, such as
              https://countersign.example.com
              
              [env: COUNTERSIGN_SERVER]

          --token <TOKEN>
              Token for the server; visible to other processes, so prefer the variable or --token-file
              
              [env: COUNTERSIGN_TOKEN]

          --token-file <FILE>
              File that contains the token for the server
              
              [env: COUNTERSIGN_TOKEN_FILE]

          --policy <FILE>
              Full path of the policy [default: countersign.toml in this folder, if trusted]; without a
              policy, every call is held
              
              [env: COUNTERSIGN_POLICY]

          --tenant <NAME>
              Tenant to use [default: main]

          --as <NAME>
              Your name [default: your account on this machine]

          --group <NAME>
              A group you belong to, besides `approvers` (repeatable)

          --seal-key-file <FILE>
              File with the key that encrypts credentials; or set `COUNTERSIGN_SEAL_KEY` to the key
              
              [env: COUNTERSIGN_SEAL_KEY_FILE]

          --json
              Print JSON

          --color <WHEN>
              When to use colours

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never
              
              [default: auto]

    Examples:
      countersign propose send_mail '{"to":"maria@acme.com"}'   an agent proposes
      countersign list                                          you see it
      countersign show 4f1c                                     you read it
      countersign approve 4f1c                                  you approve
      countersign wait 4f1c --exec ./send-mail                  it runs, once

    Exit codes:
      0 done   1 error   2 wrong usage   3 forbidden by the policy   4 refused by the gate
      5 not approved   6 timed out   7 a call failed, or its outcome is unknown   130 interrupted

    Anyone who can open the store's file can approve: run agents under another account.
    "##);
    for command in [
        "propose", "list", "show", "approve", "deny", "wait", "undo", "policy",
    ] {
        assert!(
            place.good(&[command, "--help"]).contains("Usage: countersign"),
            "{command}"
        );
    }
    assert!(place.good(&["--version"]).starts_with("countersign 0."));
}
