//! After an erasure, nothing in the store's files confirms a guess at the content.

use std::collections::HashSet;

use countersign::command::denial_key;
use countersign::hash::{Fields, Hash};
use countersign::id::{Agent, Tenant};

use crate::test_folder::TestFolder;

const PIN: &str = "7291";

fn arguments(pin: &str) -> String {
    format!("{{\"pin\":\"{pin}\"}}")
}

/// Returns the hashes that the program would compute of content with this PIN, without a salt or with a salt that is
/// kept.
fn hashes(pin: &str) -> Vec<Hash> {
    let arguments = arguments(pin);
    let mut found = Vec::new();
    for text in [pin, &format!("{pin}\n"), &format!("\"{pin}\""), &arguments] {
        found.push(Hash::of(text.as_bytes()));
        for salt in [&[][..], &[0; 16]] {
            let fields = Fields::new("countersign/result/1").field(salt);
            found.push(fields.field(text.as_bytes()).finish());
        }
    }
    for (tenant, agent) in [("main", "bot"), ("default", "bot"), ("local", "bot")] {
        let (tenant, agent) = (Tenant::new(tenant).unwrap(), Agent::new(agent).unwrap());
        for tool in ["set_pin", "drop_pin"] {
            found.push(denial_key(&tenant, &agent, tool, arguments.as_bytes()));
            let old = Fields::new("countersign/denial/1")
                .field(tenant.as_str().as_bytes())
                .field(agent.as_str().as_bytes());
            found.push(old.field(tool.as_bytes()).field(arguments.as_bytes()).finish());
        }
    }
    for tool in ["set_pin", "drop_pin"] {
        let fields = Fields::new("countersign/submission/1");
        let fields = fields.optional(None).optional(None).optional(None).number(1);
        let fields = fields.field(tool.as_bytes()).optional(None);
        found.push(fields.field(arguments.as_bytes()).finish());
    }
    found
}

/// Tries all PINs of four digits, and returns the first one of which a hash occurs in the bytes.
fn confirmed(left: &[u8]) -> Option<String> {
    let raw: HashSet<&[u8]> = left.windows(32).collect();
    let hex: HashSet<&[u8]> = left.windows(64).collect();
    let is_there = |hash: &Hash| raw.contains(&hash.0[..]) || hex.contains(hash.to_string().as_bytes());
    let guesses = (0..10_000).map(|number| format!("{number:04}"));
    let mut guesses = guesses.filter(|guess| hashes(guess).iter().any(is_there));
    guesses.next()
}

/// Returns all bytes of the store's files.
fn left(place: &TestFolder) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in place.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("countersign.db") {
            bytes.extend(std::fs::read(path).unwrap());
        }
    }
    bytes
}

#[test]
fn x83_the_file_confirms_no_pin_after_a_purge() {
    let place = TestFolder::without_policy();
    place.write(
        "countersign.toml",
        "[tools.set_pin]\neffect = \"write\"\n[tools.drop_pin]\neffect = \"write\"\n[agents]\ncool_down = \"1d\"\n",
    );
    place.script("tool", &format!("printf {PIN}"));
    let arguments = arguments(PIN);
    let id = place.propose(&["set_pin", &arguments, "--key", "k1", "--agent", "bot"]);
    place.good(&["approve", &id, "--comment", PIN, "--key", "d1"]);
    place.good(&["wait", &id, "--exec", "./tool"]);
    let denied = place.propose(&[
        "drop_pin", &arguments, "--key", "k2", "--agent", "bot", "--claim", PIN,
    ]);
    place.good(&["deny", &denied, "--comment", PIN]);
    assert_eq!(
        confirmed(&left(&place)).as_deref(),
        Some(PIN),
        "the attack works before"
    );
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let purged = place.good(&["purge", "--older-than", "1s", "--yes"]);
    assert!(purged.contains("2 approvals"), "{purged}");
    let left = left(&place);
    assert_eq!(confirmed(&left), None);
    // Search for the whole arguments: four digits alone may occur in any hash.
    let plain = arguments.as_bytes();
    assert!(!left.windows(plain.len()).any(|bytes| bytes == plain));
    // The history is complete.
    let shown = place.json(&["show", &id, "--events"]);
    let events = shown["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["event"]["what"], "erased");
    place.good(&["show", &denied, "--events"]);
}
