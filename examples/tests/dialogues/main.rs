//! Dialogues of the scripted agents in their worlds, compared word for word.
//!
//! Each world has a `dialogues.txt`. Lines after `>` are what the person says, `[…]` is a pressed button, and the rest
//! is the expected output. `COUNTERSIGN_UPDATE=1` rewrites the files; review the difference before committing it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "made for tests, where a panic is the report"
)]

mod talk;

use countersign_agent::file::{AgentFile, Provider};
use countersign_examples::{Setup, WORLDS, cms, crm, ranch};
use talk::Talk;

/// Runs every dialogue of a file, each in a new world.
async fn check(setup: &'static Setup) {
    let path = format!("{}/{}/dialogues.txt", env!("CARGO_MANIFEST_DIR"), setup.name);
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut talked = String::new();
    let mut talk = Talk::new(setup);
    for line in expected.lines() {
        if line.starts_with('#') {
            talk = Talk::new(setup);
            let gap = if talked.is_empty() { "" } else { "\n" };
            talked.push_str(&format!("{gap}{line}\n"));
        } else if let Some(said) = line.strip_prefix("> ") {
            talked.push_str(&format!("\n{line}\n{}\n", talk.says(said).await));
        } else if let Some(label) = line.strip_prefix("[").and_then(|line| line.strip_suffix("]")) {
            talked.push_str(&format!("\n{line}\n{}\n", talk.presses(label).await));
        }
    }
    if std::env::var_os("COUNTERSIGN_UPDATE").is_some() {
        std::fs::write(&path, &talked).unwrap();
    }
    assert!(talked == expected, "`{path}` is not what is said now:\n{talked}");
}

#[test]
fn every_agent_is_complete() {
    for setup in WORLDS {
        let agent = AgentFile::parse(setup.agent, setup.definitions, Some(setup.script));
        let agent = agent.unwrap_or_else(|problem| panic!("{}: {problem}", setup.name));
        assert_eq!(agent.name(), setup.name);
        let plan = agent.config(&Provider::Script).unwrap();
        let given = plan.specialists.iter().flat_map(|specialist| &specialist.tools);
        let given: std::collections::BTreeSet<&str> = given.map(|tool| tool.name.as_str()).collect();
        let offered: std::collections::BTreeSet<&str> =
            agent.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(given, offered, "{}: somebody has every tool", setup.name);
    }
}

#[tokio::test]
async fn a7_a13_a16_a17_a18_the_crms_dialogues() {
    check(&crm::SETUP).await;
}

#[tokio::test]
async fn c8_the_cms_dialogues() {
    check(&cms::SETUP).await;
}

#[tokio::test]
async fn b4_b6_b10_the_ranchs_dialogues() {
    check(&ranch::SETUP).await;
}
