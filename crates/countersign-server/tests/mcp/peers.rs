//! The gateway between third-party servers and third-party clients.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::{Client, approval, pending, text, until};
use crate::test_folder::TestFolder;

/// Folder in which `scripts/mcp-peers` installed the servers and clients.
pub fn peers() -> PathBuf {
    let place = std::env::var("COUNTERSIGN_TEST_MCP_PEERS").unwrap_or_else(|_| {
        panic!("COUNTERSIGN_TEST_MCP_PEERS is not set\nhint: export it as `$(scripts/mcp-peers)`, or run `scripts/test`")
    });
    place.into()
}

pub fn node() -> String {
    peers().join("node/node_modules/.bin/node").display().to_string()
}

pub fn package(path: &str) -> String {
    let packages = peers().join("node/node_modules/@modelcontextprotocol");
    packages.join(path).display().to_string()
}

pub fn filesystem(place: &TestFolder) -> [String; 3] {
    let folder = place.path().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    [
        node(),
        package("server-filesystem/dist/index.js"),
        folder.display().to_string(),
    ]
}

pub fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

/// Writes a policy made from the server's own tool list, with its annotations trusted, so that reads pass.
fn policy(place: &TestFolder, name: &str, command: &[String]) {
    let mut arguments = vec![
        "policy",
        "init",
        "--name",
        name,
        "--trust-annotations",
        "--output",
        "countersign.toml",
        "--",
    ];
    arguments.extend(words(command));
    place.good(&arguments);
}

#[test]
fn a1_the_filesystem_server_reads_at_once_and_writes_what_a_person_signed() {
    let place = TestFolder::without_policy();
    let command = filesystem(&place);
    let folder = &command[2];
    std::fs::write(format!("{folder}/a.txt"), "hello\n").unwrap();
    policy(&place, "files", &command);
    let checked = place.good(&["policy", "check"]);
    assert!(checked.contains("files/write_file"), "{checked}");
    let mut client = Client::start(&place, &["--name", "files", "--hold", "1s"], &words(&command));
    client.greet(json!({}));
    let tools = client.request("tools/list", json!({}));
    assert_eq!(
        tools["result"]["tools"].as_array().unwrap().len(),
        15,
        "14 and ours"
    );
    let read = client.call("read_text_file", json!({"path": format!("{folder}/a.txt")}));
    assert_eq!(text(&read), "hello\n");
    let write = json!({"path": format!("{folder}/b.txt"), "content": "written\n"});
    let id = approval(&client.call("write_file", write.clone()));
    assert!(!PathBuf::from(format!("{folder}/b.txt")).exists());
    place.good(&["approve", &id]);
    until("it is written", || {
        std::fs::read_to_string(format!("{folder}/b.txt")).is_ok_and(|text| text == "written\n")
    });
    let answer = client.call("countersign_wait", json!({"approval": id}));
    assert!(text(&answer).contains("Successfully wrote"), "{answer}");
    let call = client.begin(
        "move_file",
        json!({"source": format!("{folder}/a.txt"), "destination": format!("{folder}/c.txt")}),
    );
    place.good(&["deny", &pending(&place)]);
    assert_eq!(client.answer(call)["result"]["isError"], true);
    assert!(PathBuf::from(format!("{folder}/a.txt")).exists());
}

#[test]
fn lists_prompts_and_resources_of_the_everything_server_are_the_same_through_the_gateway() {
    let command = [
        node(),
        package("server-everything/dist/index.js"),
        "stdio".to_owned(),
    ];
    let asks = [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/get", json!({"name": "simple-prompt"})),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"message": "hello"}}),
        ),
        ("tools/call", json!({"name": "get-tiny-image", "arguments": {}})),
        (
            "tools/call",
            json!({"name": "get-annotated-message", "arguments": {"messageType": "error", "includeImage": true}}),
        ),
        ("x/unknown", json!({})),
    ];
    let place = TestFolder::without_policy();
    policy(&place, "everything", &command);
    let policy = std::fs::read_to_string(place.path().join("countersign.toml")).unwrap();
    place.write(
        "countersign.toml",
        policy
            .replace("\"destructive\"", "\"read\"")
            .replace("\"write\"", "\"read\""),
    );
    let lines = |mut client: Client| -> Vec<String> {
        client.greet(json!({"sampling": {}, "elicitation": {}, "roots": {}}));
        let lines = asks.iter().map(|(method, params)| {
            let id = client.ask(method, params.clone());
            let mut line = client
                .line(std::time::Instant::now() + crate::client::LONG)
                .unwrap();
            while !line.contains(&format!("\"id\":{id}")) || line.contains("\"method\"") {
                // Answer the server's own requests; they are not part of the comparison.
                if let Ok(question) = serde_json::from_str::<Value>(&line)
                    && question["method"] == "roots/list"
                {
                    client.send(
                        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}).to_string(),
                    );
                }
                line = client
                    .line(std::time::Instant::now() + crate::client::LONG)
                    .unwrap();
            }
            line
        });
        lines.collect()
    };
    let mut direct = Command::new(&command[0]);
    direct.args(&command[1..]);
    let direct = lines(Client::spawn(direct));
    let mut through = lines(Client::start(&place, &["--name", "everything"], &words(&command)));
    // The gateway's own tools come after the last tool; without them the list is byte for byte the server's.
    let added = through[0].len() - direct[0].len();
    let at = through[0]
        .find(",{\"annotations\":{\"openWorldHint\":false,\"readOnlyHint\":true},")
        .unwrap();
    let ours = through[0].drain(at..at + added).collect::<String>();
    assert!(ours.contains("\"countersign_wait\""), "{ours}");
    assert_eq!(direct, through);
}

/// Runs a third-party client against the gateway, and approves or denies every pending approval.
pub fn drive(place: &TestFolder, mut client: Command, decide: Option<&str>) -> Vec<Value> {
    let mut child = client
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_over = AtomicBool::new(false);
    let mut lines = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let (Some(decide), true) = (decide, place.path().join("countersign.db").exists()) {
                    let listed = place.json(&["list"]);
                    for approval in listed["approvals"].as_array().unwrap() {
                        place.run(&[decide, approval["id"].as_str().unwrap()]);
                    }
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            lines.push(serde_json::from_str(&line.unwrap()).unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let left = child.wait_with_output().unwrap();
    assert!(
        left.status.success(),
        "{lines:?}\n{}",
        String::from_utf8_lossy(&left.stderr)
    );
    lines
}

/// Returns the command that starts a gateway on this place's store and policy, for third-party clients.
pub fn gateway(place: &TestFolder, options: &[&str]) -> Value {
    let at = |file: &str| place.path().join(file).display().to_string();
    let (store, policy) = (at("countersign.db"), at("countersign.toml"));
    let common = [
        env!("CARGO_BIN_EXE_countersign"),
        "mcp",
        "--store",
        &store,
        "--policy",
        &policy,
        "--as",
        "ana",
    ];
    Value::from([&common[..], options].concat())
}

pub fn python(folder: &str, mode: &str, gateway: &Value, calls: &Value) -> Command {
    let mut command = Command::new(peers().join(folder).join("bin/python"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peers/client.py"));
    command.args([mode, &gateway.to_string(), &calls.to_string()]);
    command
}

pub fn typescript(mode: &str, gateway: &Value, calls: &Value) -> Command {
    let mut command = Command::new(node());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peers/client.mjs"));
    let folder = peers().join("node").display().to_string();
    command.args([&folder, mode, &gateway.to_string(), &calls.to_string()]);
    command
}

/// Runs a read and a held write through a third-party client, and checks the results.
fn check(
    name: &str,
    client: impl Fn(&Value, &Value) -> Command,
    decide: Option<&str>,
    expected: &str,
) -> Vec<Value> {
    let place = TestFolder::without_policy();
    let command = filesystem(&place);
    let folder = command[2].clone();
    std::fs::write(format!("{folder}/a.txt"), "hello\n").unwrap();
    policy(&place, "files", &command);
    let mut options = vec!["--name", "files", "--hold", "20s", "--"];
    options.extend(words(&command));
    let gateway = gateway(&place, &options);
    let calls = json!([
        ["read_text_file", {"path": format!("{folder}/a.txt")}],
        ["create_directory", {"path": format!("{folder}/new")}],
    ]);
    let lines = drive(&place, client(&gateway, &calls), decide);
    let tools = lines[0]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 15, "{name}: {lines:?}");
    let results: Vec<&Value> = lines.iter().filter(|line| line.get("asked").is_none()).collect();
    assert_eq!(results[1]["result"]["text"][0], "hello\n", "{name}: {lines:?}");
    let said = results[2]["result"]["text"][0]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: {lines:?}"));
    assert!(said.contains(expected), "{name}: {lines:?}");
    let is_made = PathBuf::from(format!("{folder}/new")).exists();
    assert_eq!(is_made, expected.contains("Success"), "{name}");
    lines
}

const DONE: &str = "Successfully created directory";

#[test]
fn the_python_clients_old_and_new() {
    for (folder, mode) in [
        ("python-legacy", "session"),
        ("python", "session"),
        ("python", "legacy"),
        ("python", "auto"),
    ] {
        let client = |gateway: &Value, calls: &Value| python(folder, mode, gateway, calls);
        check(&format!("{folder} {mode}"), client, Some("approve"), DONE);
    }
    let client = |gateway: &Value, calls: &Value| python("python", "auto", gateway, calls);
    check("denied", client, Some("deny"), "denied");
}

#[test]
fn the_typescript_clients_old_and_new() {
    for mode in ["v1", "legacy", "auto"] {
        let client = |gateway: &Value, calls: &Value| typescript(mode, gateway, calls);
        check(mode, client, Some("approve"), DONE);
    }
    let client = |gateway: &Value, calls: &Value| typescript("v1", gateway, calls);
    check("denied", client, Some("deny"), "denied");
}

#[test]
fn clients_that_show_forms_ask_their_own_person() {
    let python_legacy =
        |gateway: &Value, calls: &Value| python("python-legacy", "session+yes", gateway, calls);
    let python_new = |gateway: &Value, calls: &Value| python("python", "legacy+yes", gateway, calls);
    let typescript_old = |gateway: &Value, calls: &Value| typescript("v1+yes", gateway, calls);
    let typescript_new = |gateway: &Value, calls: &Value| typescript("legacy+yes", gateway, calls);
    type Make<'a> = &'a dyn Fn(&Value, &Value) -> Command;
    let all: [(&str, Make<'_>); 4] = [
        ("python-legacy", &python_legacy),
        ("python", &python_new),
        ("v1", &typescript_old),
        ("v2", &typescript_new),
    ];
    for (name, client) in all {
        let lines = check(name, client, None, DONE);
        let asked = lines.iter().find_map(|line| line["asked"].as_str()).unwrap();
        assert!(asked.contains("files/create_directory"), "{name}: {asked}");
    }
}
