//! Several servers behind one gateway: prefixes say which server a name belongs to, and nothing of one server reaches
//! another.

mod bytes;
mod http;
mod ids;
mod life;
mod modern;
mod names;
mod peers;
mod tasks;

use std::time::Instant;

use serde_json::{Value, json};

use crate::client::{Client, LONG};
use crate::test_folder::TestFolder;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/several/peer.py");

/// Returns a policy under which every tool of these servers passes, except `send_email`.
fn policy(servers: &[&str]) -> String {
    let mut policy = String::new();
    for server in servers {
        for tool in ["read", "slow", "ask", "crash", "say", "steps"] {
            policy.push_str(&format!("[tools.\"{server}/{tool}\"]\neffect = \"read\"\n"));
        }
        policy.push_str(&format!(
            "[tools.\"{server}/send_email\"]\neffect = \"external\"\nsummary = \"Mail {{{{ to }}}}\"\n"
        ));
    }
    policy
}

/// Creates a folder with these test servers, given by name and mode.
fn place(servers: &[(&str, &str)]) -> TestFolder {
    let place = TestFolder::without_policy();
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    place.write("countersign.toml", policy(&names));
    let entry = |(name, mode): &(&str, &str)| {
        format!(
            "[servers.{name}]\ncommand = [\"python3\", \"-u\", \"{PEER}\", \"{name}\", \"{name}.journal\", \"{mode}\"]\nenv = {{ SIGN = \"{name}'s\" }}\n"
        )
    };
    place.write("servers.toml", servers.iter().map(entry).collect::<String>());
    place
}

fn two() -> TestFolder {
    place(&[("mail", ""), ("news", "")])
}

fn start(place: &TestFolder, options: &[&str]) -> Client {
    let mut all = vec!["mcp", "--servers", "servers.toml"];
    all.extend_from_slice(options);
    Client::spawn(place.command(&all))
}

fn greeted(place: &TestFolder, options: &[&str]) -> Client {
    let mut client = start(place, options);
    client.greet(json!({"sampling": {}}));
    client
}

/// Returns the lines that a server received and that contain `what`.
fn got(place: &TestFolder, server: &str, what: &str) -> Vec<String> {
    let journal = std::fs::read_to_string(place.path().join(format!("{server}.journal"))).unwrap_or_default();
    journal
        .lines()
        .filter(|line| line.contains(what))
        .map(str::to_owned)
        .collect()
}

fn names(answer: &Value, member: &str) -> Vec<String> {
    let items = answer["result"][member]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    items
        .iter()
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

fn raw_line(client: &mut Client, what: &str) -> String {
    let give_up = Instant::now() + LONG;
    loop {
        let line = client.line(give_up).unwrap_or_else(|| panic!("no `{what}`"));
        if line.contains(what) {
            return line;
        }
    }
}
