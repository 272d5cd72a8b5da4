//! The command line as a person uses it: the real binary, in an empty folder, over a real file.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A folder to work in.
struct Place(TempDir);

/// What a command left behind.
#[derive(Debug)]
struct Left {
    code: i32,
    stdout: String,
    stderr: String,
}

const POLICY: &str = r#"
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

impl Place {
    fn new() -> Place {
        let place = Place::without_policy();
        place.write("countersign.toml", POLICY);
        place
    }

    fn without_policy() -> Place {
        Place(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn script(&self, name: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(name, format!("#!/bin/sh\n{body}\n"));
        let path = self.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.current_dir(self.path()).args(arguments);
        for name in ["STORE", "POLICY", "SEAL_KEY", "SEAL_KEY_FILE"] {
            command.env_remove(format!("COUNTERSIGN_{name}"));
        }
        command.env_remove("NO_COLOR").env("USER", "ana");
        command
    }

    fn run(&self, arguments: &[&str]) -> Left {
        self.run_with(arguments, b"")
    }

    fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Left {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read is fine.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Left::of(child.wait_with_output().unwrap())
    }

    #[track_caller]
    fn good(&self, arguments: &[&str]) -> String {
        let left = self.run(arguments);
        assert_eq!(left.code, 0, "{arguments:?}: {left:?}");
        left.stdout
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        // In front: all that stands behind `--exec` belongs to the command.
        arguments.insert(0, "--json");
        serde_json::from_str(&self.good(&arguments)).unwrap()
    }

    /// Proposes and gives the id.
    #[track_caller]
    fn propose(&self, arguments: &[&str]) -> String {
        let arguments: Vec<&str> = ["propose"].iter().chain(arguments).copied().collect();
        let answer = self.json(&arguments);
        answer["approval"]["id"].as_str().unwrap().to_owned()
    }

    fn contact(&self) -> String {
        self.propose(&["create_contact", MARIA, "--agent", "crm"])
    }

    /// Everything that was ever written, for comparing.
    fn written(&self) -> Option<String> {
        let is_there = self.path().join("countersign.db").exists();
        is_there.then(|| self.good(&["list", "--all", "--json"]))
    }
}

impl Left {
    fn of(output: std::process::Output) -> Left {
        Left {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

const MARIA: &str = r#"{"name":"Maria Garcia","email":"maria@acme.com"}"#;

/// Refused or failed: this code, this on standard error, and nothing written.
#[track_caller]
fn check_bad(place: &Place, arguments: &[&str], code: i32, message: &str) {
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

#[test]
fn a9_a_whole_life_from_proposal_to_undo() {
    let place = Place::new();
    let id = place.contact();
    let short = &id[id.len() - 8..];
    let list = place.good(&["list"]);
    assert!(
        list.contains(short) && list.contains("Create contact Maria Garcia, maria@acme.com"),
        "{list}"
    );
    assert!(!list.contains('{'), "people see no raw JSON: {list}");
    let card = place.good(&["show", short]);
    for text in [
        "medium risk",
        "can be undone",
        "/email",
        "maria@acme.com",
        "crm",
        "ana",
        "digest",
    ] {
        assert!(card.contains(text), "no `{text}` in {card}");
    }
    place.script("tool", "cat > got; printf '{\"id\": 7, \"key\": \"%s\", \"tool\": \"%s\"}' \"$COUNTERSIGN_CALL_ID\" \"$COUNTERSIGN_TOOL\"");
    place.good(&["approve", short, "--comment", "fine"]);
    let answer = place.json(&["wait", short, "--exec", "./tool"]);
    let call = format!("{id}.1");
    assert_eq!(answer["calls"][0]["state"], "succeeded");
    assert_eq!(answer["calls"][0]["result"]["key"], call.as_str());
    assert_eq!(answer["calls"][0]["result"]["tool"], "create_contact");
    assert_eq!(std::fs::read_to_string(place.path().join("got")).unwrap(), MARIA);
    // It ran once: nobody can run it again.
    std::fs::remove_file(place.path().join("got")).unwrap();
    place.good(&["wait", short, "--exec", "./tool"]);
    assert!(!place.path().join("got").exists());

    let undo = place.json(&["undo", short]);
    assert_eq!(undo["approval"]["description"], "Delete contact 7");
    assert_eq!(undo["approval"]["undoes"], call.as_str());
    let undo = undo["approval"]["id"].as_str().unwrap();
    place.good(&["approve", undo]);
    place.good(&["wait", undo, "--exec", "./tool"]);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "undone");
    let history = place.good(&["show", &id, "--events"]);
    for word in ["proposed", "approved", "started", "succeeded", "undone"] {
        assert!(history.contains(word), "no `{word}` in {history}");
    }
}

#[test]
fn d2_three_terminals_are_a_whole_system() {
    let place = Place::new();
    place.script("tool", "cat");
    let id = place.contact();
    let mut wait = place.command(&["wait", &id, "--exec", "./tool"]);
    let wait = wait
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    place.good(&["approve", &id]);
    let left = Left::of(wait.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(left.stdout.contains("succeeded"), "{left:?}");
    assert!(
        left.stdout.contains(MARIA),
        "the result is what the tool wrote: {left:?}"
    );
}

#[test]
fn d5_denied_expired_and_timed_out_have_their_own_exit_codes() {
    let place = Place::new();
    let id = place.contact();
    let left = place.run(&["wait", &id, "--timeout", "50ms"]);
    assert_eq!(left.code, 6, "{left:?}");
    place.good(&["deny", &id, "--comment", "wrong Maria"]);
    let left = place.run(&["wait", &id, "--json"]);
    assert_eq!(left.code, 5, "{left:?}");
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(
        (answer["status"].as_str(), answer["comment"].as_str()),
        (Some("denied"), Some("wrong Maria"))
    );
    let id = place.propose(&["quick", "{}"]);
    let left = place.run(&["wait", &id]);
    assert_eq!(left.code, 5, "{left:?}");
    assert!(left.stdout.contains("expired"), "{left:?}");
}

#[test]
fn b7_each_refusal_says_what_is_so() {
    let place = Place::new();
    let id = place.contact();
    place.good(&["approve", &id, "--as", "bob"]);
    let left = place.run(&["approve", &id]);
    assert_eq!(left.code, 4);
    assert!(
        left.stderr.contains("was already approved by `bob` at 20"),
        "{left:?}"
    );
    assert!(
        left.stderr.contains("hint: ask the agent to propose it again"),
        "{left:?}"
    );
    let left = place.run(&["deny", &id, "--json"]);
    let error: Value = serde_json::from_str(&left.stderr).unwrap();
    assert_eq!(
        (left.code, error["error"]["code"].as_str()),
        (4, Some("already_decided"))
    );

    let id = place.propose(&["quick", "{}"]);
    std::thread::sleep(Duration::from_millis(1100));
    let left = place.run(&["approve", &id]);
    assert_eq!(left.code, 4);
    assert!(left.stderr.contains("expired at"), "{left:?}");

    let first = place.propose(&["create_contact", MARIA, "--channel", "c"]);
    let second = place.propose(&["create_contact", MARIA, "--channel", "c"]);
    let left = place.run(&["approve", &first]);
    assert_eq!(left.code, 4);
    assert!(left.stderr.contains("superseded"), "{left:?}");
    place.good(&["withdraw", &second]);
    let left = place.run(&["approve", &second]);
    assert!(left.code == 4 && left.stderr.contains("withdrawn"), "{left:?}");

    let id = place.propose(&["refund", r#"{"amount":5}"#]);
    let left = place.run(&["approve", &id]);
    assert!(
        left.code == 4 && left.stderr.contains("may not decide"),
        "{left:?}"
    );
    assert!(left.stderr.contains("finance"), "says who may: {left:?}");
    let left = place.run(&["approve", &id, "--group", "finance", "--digest", "000000000000"]);
    assert!(left.code == 4 && left.stderr.contains("another card"), "{left:?}");
    let digest = place.json(&["show", &id])["digest"].as_str().unwrap()[..12].to_owned();
    let approve = ["approve", &id, "--group", "finance", "--digest", &digest];
    // X34: a refund is critical, and who asked for one cannot approve it.
    let left = place.run(&approve);
    assert!(
        left.code == 4 && left.stderr.contains("somebody else has to approve it"),
        "{left:?}"
    );
    place.good(&[&approve[..], &["--as", "bob"]].concat());
}

#[test]
fn a16_part_of_a_batch_and_an_edit() {
    let place = Place::new();
    let lines: Vec<String> = (1..=3)
        .map(|n| format!(r#"{{"tool":"create_contact","arguments":{{"name":"N{n}","email":"n{n}@x.org"}}}}"#))
        .collect();
    place.write("batch.jsonl", lines.join("\n"));
    place.script("tool", "cat");
    let id = place.propose(&["--calls", "batch.jsonl"]);
    let edit = r#"3={"name":"Three","email":"3@x.org"}"#;
    let answer = place.json(&["approve", &id, "--only", "1,3", "--edit", edit]);
    assert_eq!(answer["calls"][1]["state"], "refused");
    let answer = place.json(&["wait", &id, "--exec", "./tool"]);
    let states: Vec<_> = (0..3)
        .map(|at| answer["calls"][at]["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["succeeded", "refused", "succeeded"]);
    assert_eq!(answer["calls"][2]["edited"], true);
    assert_eq!(answer["calls"][2]["result"]["name"], "Three");
    let id = place.contact();
    place.write("edit.json", r#"{"name":"From a file","email":"f@x.org"}"#);
    let answer = place.json(&["approve", &id, "--edit", "1=@edit.json"]);
    assert_eq!(answer["description"], "Create contact From a file, f@x.org");
}

#[test]
fn i3_arguments_keep_every_byte() {
    let place = Place::new();
    place.script("tool", "cat");
    // Numbers no float can hold, keys out of order, odd white space, escapes, and a newline at the end.
    let odd = "{ \"z\":9007199254740993 ,\"a\" : 1e400,\n\t\"u\":\"\\u00e9é\", \"n\":-0.10 }\n";
    place.write("odd.json", odd);
    let stdin = place.run_with(&["propose", "odd", "-", "--json"], odd.as_bytes());
    let stdin: Value = serde_json::from_str(&stdin.stdout.replace("1e400", "0")).unwrap();
    let ids = [
        place.good_id_of_file(),
        stdin["approval"]["id"].as_str().unwrap().to_owned(),
    ];
    for id in ids {
        assert_eq!(place.good(&["show", &id, "--raw", "1"]), odd);
        let json = place.good(&["show", &id, "--json"]);
        assert!(json.contains(odd.trim_end()), "{json}");
        let listed = place.good(&["list", "--json"]);
        assert!(listed.contains(odd.trim_end()), "{listed}");
        place.good(&["approve", &id]);
        place.script("keep", "cat > kept");
        place.good(&["wait", &id, "--exec", "./keep"]);
        assert_eq!(std::fs::read_to_string(place.path().join("kept")).unwrap(), odd);
    }
    let inner = odd.trim_end().replace('\n', " ");
    place.write(
        "batch.jsonl",
        format!("\n{{\"tool\":\"odd\", \"arguments\" : {inner}}}\n"),
    );
    place.good(&["propose", "--calls", "batch.jsonl", "--key", "batch"]);
    let again = place.run(&["propose", "--calls", "batch.jsonl", "--key", "batch", "--json"]);
    let at = again.stdout.find("\"id\": \"").unwrap() + 7;
    assert_eq!(
        place.good(&["show", &again.stdout[at..at + 36], "--raw", "1"]),
        inner
    );
}

impl Place {
    fn good_id_of_file(&self) -> String {
        let stdout = self.good(&["propose", "odd", "@odd.json", "--json"]);
        let at = stdout.find("\"id\": \"").unwrap() + 7;
        stdout[at..at + 36].to_owned()
    }
}

#[test]
fn x15_nothing_acts_on_the_terminal() {
    let place = Place::new();
    let evil = "\\u001b[31mred\\u001b]8;;http://x\\u0007\\r\\u009b2J\\u202eabc\\u0008";
    let raw = "\u{202e}\u{9b}31m\u{200b}";
    let arguments = format!(r#"{{"name":"{evil}{raw}","email":"{evil}","{raw}":"k"}}"#);
    let claim = "\u{1b}[2Jtrust me\u{202e}";
    let id = place.propose(&[
        "create_contact",
        &arguments,
        "--claim",
        claim,
        "--agent",
        "a\u{202e}b",
    ]);
    place.script(
        "tool",
        "printf '\\033[2J\\033]0;x\\007' >&2; printf 'out\\033[2J'; exit 3",
    );
    let mut seen = String::new();
    let commands: [&[&str]; 7] = [
        &["list"],
        &["show", &id],
        &["show", &id, "--full", "--events"],
        &["policy", "try", "create_contact", &arguments],
        &["approve", &id, "--comment", "\u{1b}[2J"],
        &["wait", &id, "--exec", "./tool"],
        &["show", "\u{1b}[2J"],
    ];
    for command in commands {
        let left = place.run(command);
        seen.push_str(&left.stdout);
        seen.push_str(&left.stderr);
    }
    let acts = |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    assert_eq!(seen.chars().find(acts), None, "{seen:?}");
    assert!(
        seen.contains("\\u{1b}[31m") && seen.contains("\\u{202e}"),
        "{seen}"
    );
    assert!(seen.contains("warning:"), "{seen}");
    // Colours are ours alone, and only when asked for.
    let colored = place.good(&["list", "--all", "--color", "always"]);
    assert!(
        colored.contains('\u{1b}') && !colored.contains("[31mred\u{1b}"),
        "{colored:?}"
    );
}

#[test]
fn x08_long_values_say_that_they_are_cut() {
    let place = Place::new();
    let long = format!("{}{}rm -rf", "a".repeat(3000), " ".repeat(4000));
    let id = place.propose(&["create_contact", &format!(r#"{{"name":"{long}","email":"e"}}"#)]);
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("bytes not shown") && card.contains("rm -rf") && card.contains("--full"),
        "{card}"
    );
    let full = place.good(&["show", &id, "--full"]);
    assert!(
        full.contains(&"a".repeat(3000)) && full.contains("\\u{20×4000}rm -rf"),
        "{full}"
    );
}

#[test]
fn x31_secrets_are_shown_to_nobody_but_the_tool() {
    let place = Place::new();
    let canary = "canary-7f3c";
    let arguments = format!(r#"{{"name":"M","email":"m","api_key":"{canary}"}}"#);
    let id = place.propose(&["create_contact", &arguments]);
    let commands: [&[&str]; 6] = [
        &["list"],
        &["show", &id, "--full", "--events"],
        &["show", &id, "--json", "--events"],
        &["list", "--json"],
        &["approve", &id],
        &["policy", "try", "create_contact", &arguments],
    ];
    for command in commands {
        let left = place.run(command);
        assert!(!format!("{left:?}").contains(canary), "{command:?}: {left:?}");
    }
    let view = place.json(&["show", &id]);
    assert_eq!(view["hidden"], true);
    assert!(view.get("toolArguments").is_none() && view["calls"][0].get("arguments").is_none());
    assert!(place.good(&["show", &id, "--raw", "1"]).contains(canary));
    place.script("tool", &format!("grep -q {canary}"));
    place.good(&["wait", &id, "--exec", "./tool"]);
}

#[test]
fn a15_a_sealed_secret_reaches_the_tool_alone() {
    let place = Place::new();
    let propose = |place: &Place| {
        let mut command = place.command(&[
            "propose",
            "create_contact",
            MARIA,
            "--secret-env",
            "TOKEN",
            "--json",
        ]);
        Left::of(command.env("TOKEN", "canary-9b1d").output().unwrap())
    };
    let left = propose(&place);
    assert_eq!(left.code, 1);
    assert!(left.stderr.contains("no sealing key"), "{left:?}");
    assert!(
        place
            .written()
            .is_none_or(|list| list.contains("\"approvals\": []"))
    );
    let key = place.good(&["key", "generate"]);
    place.write("countersign.key", &key);
    let with_key = |place: &Place, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command
            .env("COUNTERSIGN_SEAL_KEY_FILE", "countersign.key")
            .env("TOKEN", "canary-9b1d");
        Left::of(command.output().unwrap())
    };
    // Everybody can read it: refused.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |bits| {
        std::fs::set_permissions(
            place.path().join("countersign.key"),
            std::fs::Permissions::from_mode(bits),
        )
        .unwrap();
    };
    mode(0o644);
    let propose = [
        "propose",
        "create_contact",
        MARIA,
        "--secret-env",
        "TOKEN",
        "--json",
    ];
    let left = with_key(&place, &propose);
    assert!(
        left.code == 1 && left.stderr.contains("can be read by everybody"),
        "{left:?}"
    );
    mode(0o600);
    let left = with_key(&place, &propose);
    assert_eq!(left.code, 0, "{left:?}");
    assert!(!left.stdout.contains("canary"));
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    let id = answer["approval"]["id"].as_str().unwrap();
    place.good(&["approve", id]);
    place.script(
        "tool",
        "test \"$COUNTERSIGN_SECRET\" = canary-9b1d && test -z \"$COUNTERSIGN_SEAL_KEY\"",
    );
    let left = with_key(&place, &["wait", id, "--exec", "./tool"]);
    assert_eq!(left.code, 0, "{left:?}");
    let database = std::fs::read(place.path().join("countersign.db")).unwrap();
    assert!(
        !database.windows(11).any(|window| window == b"canary-9b1d"),
        "a secret on disk in the clear"
    );
}

#[test]
fn x21_bad_input_is_named_and_nothing_is_written() {
    let place = Place::new();
    let id = place.contact();
    let batch = vec![r#"{"tool":"search","arguments":{}}"#; 101].join("\n");
    place.write("long.jsonl", batch);
    place.write(
        "broken.jsonl",
        "{\"tool\":\"search\",\"arguments\":{}}\n{\"tool\":\"x\",\"arguments\":[]}\n",
    );
    place.write("unknown.jsonl", r#"{"tool":"x","args":{}}"#);
    place.write(
        "foreign.db",
        "this is not a database at all, just a text that somebody wrote",
    );
    place.write("bad.toml", "[tools.x]\neffect = \"write\"\nrisc = \"low\"\n");
    place.write("cel.toml", "[tools.x]\neffect = \"write\"\nhold = \"args.a >\"\n");
    place.write(
        "template.toml",
        "[tools.x]\neffect = \"write\"\nsummary = \"{{ a\"\n",
    );
    let cases: &[(&[&str], i32, &str)] = &[
        (&["propose", "x", "{"], 1, "ends too early"),
        (&["propose", "x", "[1]"], 1, "not a JSON object"),
        (&["propose", "x", r#"{"a":1,"\u0061":2}"#], 1, "occurs twice"),
        (
            &["propose", "x", "@nowhere.json"],
            1,
            "cannot read `nowhere.json`",
        ),
        (&["propose", "x", "{}", "--definition", "12"], 2, "64 hex digits"),
        (
            &["propose", "x", "{}", "--secret-env", "NOT_SET"],
            1,
            "`NOT_SET` is not set",
        ),
        (
            &["propose", "x", "{}", "--exec", "./nowhere"],
            1,
            "no command `./nowhere`",
        ),
        (&["propose", "--calls", "long.jsonl"], 1, "this one has 101"),
        (&["propose", "--calls", "broken.jsonl"], 1, "broken.jsonl:2: "),
        (
            &["propose", "--calls", "unknown.jsonl"],
            1,
            "unknown field `args`",
        ),
        (
            &["propose", "x", "{}", "--policy", "nowhere.toml"],
            1,
            "cannot read the policy",
        ),
        (
            &["propose", "x", "{}", "--policy", "bad.toml"],
            1,
            "bad.toml:3:1: ",
        ),
        (&["propose", "x", "{}", "--policy", "cel.toml"], 1, "cel.toml:3:"),
        (
            &["propose", "x", "{}", "--policy", "template.toml"],
            1,
            "template.toml:3:",
        ),
        (
            &["propose", "x", "{}", "--store", "foreign.db"],
            1,
            "not an SQLite database",
        ),
        (
            &["propose", "x", "{}", "--store", "no/such/folder.db"],
            1,
            "there is no folder",
        ),
        (
            &["list", "--store", "postgres://nobody@127.0.0.1:1/x"],
            1,
            "cannot be reached",
        ),
        (
            &["list", "--store", "nowhere.db"],
            1,
            "there is no store at `nowhere.db`",
        ),
        (&["show", "ffff0000"], 1, "there is no approval `ffff0000`"),
        (&["show", "abc"], 1, "is not the id of an approval"),
        (&["show", &id, "--raw", "2"], 1, "has no call 2"),
        (&["approve", &id, "--edit", "1={"], 1, "ends too early"),
        (&["approve", &id, "--edit", "x"], 2, "does not say which call"),
        (&["approve", &id, "--only", "7"], 2, "has no call 7"),
        (&["approve", &id, "--digest", "12"], 2, "12 to 64 hex digits"),
        (&["undo", &id], 4, "cannot be undone"),
        (&["reconcile", &id, "--failed"], 4, "is held"),
        (&["wait", &id, "--exec", "./nowhere"], 1, "no command"),
        (&["list", "--as", ""], 0, ""),
        (&["approve", &id, "--as", ""], 1, "must not be empty"),
    ];
    for (arguments, code, message) in cases.iter().filter(|(_, code, _)| *code != 0) {
        check_bad(&place, arguments, *code, message);
    }
    let foreign = std::fs::read_to_string(place.path().join("foreign.db")).unwrap();
    assert!(foreign.starts_with("this is not"), "a foreign file is left alone");
}

#[test]
fn unclear_ids_are_not_guessed() {
    let place = Place::new();
    let (first, second) = (place.contact(), place.contact());
    let common: String = first
        .chars()
        .zip(second.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    check_bad(&place, &["approve", &common], 1, "fits 2 approvals");
    place.good(&["approve", &first]);
    // Pending ones are meant first.
    assert_eq!(place.json(&["show", &common])["id"], second.as_str());
}

#[test]
fn a2_without_a_policy_everything_is_held_and_said_so() {
    let place = Place::without_policy();
    let left = place.run(&["propose", "search", "{}"]);
    assert_eq!(left.code, 0);
    assert!(
        left.stderr.contains("there is no policy: every call is held"),
        "{left:?}"
    );
    assert!(left.stdout.contains("held"), "{left:?}");
}

#[test]
fn a1_reads_pass_and_the_forbidden_are_not_asked() {
    let place = Place::new();
    place.script("tool", "echo found");
    assert!(place.good(&["propose", "search", "{}"]).contains("pass"));
    assert!(
        place
            .good(&["propose", "search", "{}", "--exec", "./tool"])
            .contains("found")
    );
    let left = place.run(&["propose", "refund", r#"{"amount":5000}"#]);
    assert_eq!(left.code, 3);
    assert!(left.stdout.contains("forbidden"), "{left:?}");
    assert_eq!(
        place.good(&["list", "--all"]),
        "Nothing was ever proposed here.\n"
    );
}

#[test]
fn a_tool_that_fails_failed_and_one_that_is_killed_is_unknown() {
    let place = Place::new();
    let ran = |script: &str| {
        place.script("tool", script);
        let id = place.contact();
        place.good(&["approve", &id]);
        let left = place.run(&["wait", &id, "--exec", "./tool"]);
        assert_eq!(left.code, 7, "{left:?}");
        (id, left)
    };
    let (_, left) = ran("echo no such mailbox; exit 9");
    assert!(
        left.stdout.contains("failed") && left.stdout.contains("no such mailbox"),
        "{left:?}"
    );
    let (id, left) = ran("kill -9 $$");
    assert!(left.stdout.contains("unknown"), "{left:?}");
    place.good(&["reconcile", &id, "--succeeded", "--note", "seen in the mailbox"]);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "succeeded");
}

#[test]
fn d7_the_sweep_counts() {
    let place = Place::new();
    place.propose(&["quick", "{}"]);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(place.good(&["list"]), "Nothing waits for a decision.\n");
    let swept = place.json(&["expire"]);
    assert_eq!(
        (swept["expired"].as_u64(), swept["unknown"].as_u64()),
        (Some(1), Some(0))
    );
}

#[test]
fn propose_and_wait_in_one_command() {
    let place = Place::new();
    place.script("tool", "cat");
    let mut propose = place.command(&["propose", "create_contact", MARIA, "--json", "--exec", "./tool"]);
    let propose = propose
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = loop {
        std::thread::sleep(Duration::from_millis(50));
        if place.path().join("countersign.db").exists() {
            let left = place.run(&["list", "--json"]);
            let list: Value = serde_json::from_str(&left.stdout).unwrap_or_default();
            if let Some(id) = list["approvals"][0]["id"].as_str() {
                break id.to_owned();
            }
        }
    };
    place.good(&["approve", &id]);
    let left = Left::of(propose.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(answer["approval"]["calls"][0]["state"], "succeeded");
    assert!(
        left.stderr.contains(&id),
        "the id is told before the end: {left:?}"
    );
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Place::new();
    let id = place.contact();
    for arguments in [
        &["list", "--all"][..],
        &["show", &id, "--json"],
        &["--help"],
        &["policy", "check"],
    ] {
        let mut command = place.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let left = Left::of(child.wait_with_output().unwrap());
        assert!(
            left.code == 0 && left.stderr.is_empty(),
            "{arguments:?}: {left:?}"
        );
    }
}

#[test]
fn ctrl_c_ends_a_wait() {
    let place = Place::new();
    let id = place.contact();
    let mut wait = place.command(&["wait", &id]);
    let wait = wait
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let status = Command::new("kill")
        .args(["-INT", &wait.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let left = Left::of(wait.wait_with_output().unwrap());
    assert_eq!((left.code, left.stderr.as_str()), (130, ""), "{left:?}");
}

#[test]
fn a_policy_is_checked_to_the_line() {
    let place = Place::new();
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

#[test]
fn an_unknown_person_is_asked_for_a_name() {
    let place = Place::new();
    let id = place.contact();
    let nameless = || {
        let mut command = place.command(&["approve", &id]);
        command.env_remove("USER").env_remove("LOGNAME");
        command
    };
    // Without a PATH there is nobody to ask for the account's name.
    let left = Left::of(nameless().env("PATH", "").output().unwrap());
    assert_eq!(left.code, 1);
    assert!(left.stderr.contains("--as NAME"), "{left:?}");
    let left = Left::of(nameless().output().unwrap());
    assert_eq!(left.code, 0, "the system knows the account: {left:?}");
}

/// Replaces what differs from run to run.
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
    let place = Place::new();
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
        "quorum": 1,
        "approvals": [],
        "calls": [
          {
            "id": "[id].1",
            "tool": "create_contact",
            "arguments": {"name":"Maria Garcia","email":"maria@acme.com"},
            "effect": "write",
            "risk": "medium",
            "summary": "Create contact Maria Garcia, maria@acme.com",
            "state": "held",
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
        ]
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
          "effect": "write",
          "risk": "medium",
          "summary": "Create contact Maria Garcia, maria@acme.com",
          "state": "released",
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
      ]
    }
    "##);
}

#[test]
fn c4_a_reply_is_read_with_its_reason() {
    let place = Place::without_policy();
    let read = |arguments: &[&str]| place.good(arguments).trim().to_owned();
    assert_eq!(
        read(&["read", "Yes, go ahead", "--prompt", "Delete it?"]),
        "yes: `yes`, `go ahead`"
    );
    assert_eq!(
        read(&["read", "ok", "--destructive", "--prompt", "Delete it?"]),
        "other: `ok` is too little here"
    );
    assert_eq!(
        read(&["read", "Sí, borrar", "--yes", "Sí, borrar", "--language", "es"]),
        "yes: `sí borrar` is what was offered"
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
    let place = Place::without_policy();
    insta::assert_snapshot!(place.good(&["--help"]), @r##"
    An AI agent proposes tool calls; only your recorded decision on those exact bytes lets them run, at
    most once

    Usage: countersign [OPTIONS] <COMMAND>

    Commands:
      serve      Run the service: the API and the inbox page
      token      Tokens: credentials for agents and other programs
      person     People who sign in and decide
      propose    Propose tool calls, as an agent does
      list       List what waits for a decision
      show       Show an approval: what would run, who asks, what became of it
      approve    Let calls run, with exactly the arguments shown
      deny       Say no
      wait       Wait until an approval is decided, and run what it releases
      undo       Propose to undo a call that succeeded
      withdraw   Take a pending approval back
      reconcile  Say how a call ended whose outcome is unknown
      expire     End everything whose time is up, now
      trace      Show where each value of a call came from
      read       Say what a reply means: yes, no or something else, and which words decided
      policy     Check a policy, or try a call against it
      key        Keys for secrets that calls come with
      bench      Measure how fast the gate is on this machine
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Global options:
          --store <PATH|URL>
              The store: a file, or a `postgres://` URL; `countersign.db` if you do not say
              
              [env: COUNTERSIGN_STORE]

          --policy <FILE>
              The policy; `countersign.toml` if it is there, else everything is held
              
              [env: COUNTERSIGN_POLICY]

          --tenant <NAME>
              Whose world
              
              [default: main]

          --as <NAME>
              Who you are; the account's name if you do not say

          --group <NAME>
              A group you are in, besides `approvers`; may be given several times

          --seal-key-file <FILE>
              The key for secrets that calls come with; or `COUNTERSIGN_SEAL_KEY`
              
              [env: COUNTERSIGN_SEAL_KEY_FILE]

          --json
              Answer in JSON

          --color <WHEN>
              When to use colours

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never
              
              [default: auto]

    Examples:
      countersign propose send_mail '{"to":"maria@acme.com"}'   an agent asks
      countersign list                                          you look
      countersign show 4f1c                                     you look closer
      countersign approve 4f1c                                  you sign
      countersign wait 4f1c --exec ./send-mail                  it runs, once

    Exit codes:
      0 done   1 error   2 wrong usage   3 forbidden by the policy   4 refused by the gate
      5 not approved   6 timed out   7 a call failed, or nobody knows   130 interrupted

    Whoever can open the store can decide: run agents under another account.
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
