//! One call id acts once, whichever permit it comes with.

use std::sync::Arc;

use countersign::decision::Verdict;
use countersign::executor::{Executor as _, Outcome, Permit};
use countersign_examples::{OpenError, Setup, World, cms, crm, ranch};

use crate::stage::{decision, first, over, sqlite};

/// Returns two permits for one call, from a store that was copied after the decision, as a careless backup would do.
pub async fn two_permits(setup: &'static Setup, tool: &str, arguments: &str) -> [Permit; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.db"));
    let store = sqlite(&path);
    let stage = over(setup, store.clone(), World::in_memory(setup).unwrap());
    let held = stage.hold(tool, arguments).await;
    stage
        .gate
        .decide(decision(&held, Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    store.close().await;
    drop((stage, store));
    std::fs::copy(&path, &copy).unwrap();

    let mut permits = Vec::new();
    for path in [path, copy] {
        let store = sqlite(&path);
        let stage = over(setup, store.clone(), World::in_memory(setup).unwrap());
        permits.push(
            stage
                .gate
                .start(&held.tenant, first(&held))
                .await
                .unwrap()
                .unwrap(),
        );
        store.close().await;
    }
    permits.try_into().unwrap()
}

#[tokio::test]
async fn x12_one_call_id_acts_once_and_answers_the_same_twice() {
    let cases = [
        (&crm::SETUP, "create_contact", r#"{"name":"Ann"}"#),
        (&cms::SETUP, "cms_deletePage", r#"{"slug":"about"}"#),
        (&ranch::SETUP, "carpeta/delete-potreros", r#"{"ids":[102]}"#),
        // A failure is repeated too.
        (
            &crm::SETUP,
            "log_activity",
            r#"{"kind":"call","contact_id":99,"contact_name":"x","note":"x"}"#,
        ),
    ];
    for (setup, tool, arguments) in cases {
        let [first, second] = two_permits(setup, tool, arguments).await;
        assert_eq!(first.call(), second.call());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("world.db");
        let world = World::open(setup, &path).unwrap();
        let answer = world.run(first).await;
        let after = world.hash().unwrap();
        drop(world);
        // Also after a restart.
        let world = World::open(setup, &path).unwrap();
        assert_eq!(world.run(second).await, answer, "`{tool}`");
        assert_eq!(world.hash().unwrap(), after, "`{tool}` acted twice");
    }
}

#[tokio::test]
async fn x12_a_call_id_that_comes_with_another_call_is_refused() {
    // The id was used before with another tool and other arguments.
    let [first, _] = two_permits(&crm::SETUP, "create_contact", r#"{"name":"Ann"}"#).await;
    let id = first.call().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.db");
    let world = World::open(&crm::SETUP, &path).unwrap();
    let before = world.hash().unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_countersign-world"))
        .args(["crm", path.to_str().unwrap()])
        .env("COUNTERSIGN_TOOL", "create_task")
        .env("COUNTERSIGN_CALL_ID", &id)
        .stdin(arguments(folder.path(), r#"{"title":"x"}"#))
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    assert_ne!(world.hash().unwrap(), before);
    let after = world.hash().unwrap();
    assert_eq!(
        world.run(first).await,
        Outcome::failed(format!("call `{id}` was another call"))
    );
    assert_eq!(world.hash().unwrap(), after);
}

#[test]
fn the_command_runs_one_call_and_says_why_it_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.db");
    let run = |tool: &str, given: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_countersign-world"))
            .args(["ranch", path.to_str().unwrap()])
            .env("COUNTERSIGN_TOOL", tool)
            .env_remove("COUNTERSIGN_CALL_ID")
            .stdin(arguments(folder.path(), given))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, told, _) = run("carpeta/get-potrero", r#"{"id":105}"#);
    assert!(code == Some(0) && told.contains("El Bajo"), "{told}");
    let (code, told, why) = run("carpeta/get-potrero", r#"{"id":1}"#);
    assert_eq!(
        (code, told.as_str(), why.trim()),
        (Some(1), "", "no hay un potrero 1; no se cambió nada")
    );
    assert_eq!(
        run("carpeta/nothing", "{}").2.trim(),
        "there is no tool `carpeta/nothing` here"
    );
}

#[test]
fn a_file_that_is_not_this_worlds_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.db");
    drop(World::open(&crm::SETUP, &path).unwrap());
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(
        World::open(&cms::SETUP, &path),
        Err(OpenError::Foreign("cms"))
    ));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "these are my notes, and no database at all".repeat(50)).unwrap();
    assert!(matches!(
        World::open(&cms::SETUP, &text),
        Err(OpenError::Failed(_))
    ));
}

#[tokio::test]
async fn what_happened_is_still_so_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.db");
    let store = Arc::new(countersign::store::memory::MemoryStore::default());
    let stage = over(
        &crm::SETUP,
        store.clone(),
        World::open(&crm::SETUP, &path).unwrap(),
    );
    let held = stage.hold("create_contact", r#"{"name":"Ann"}"#).await;
    drop(stage);
    let stage = over(&crm::SETUP, store, World::open(&crm::SETUP, &path).unwrap());
    stage.approve(&held).await;
    let after = stage.hash();
    drop(stage);
    assert_eq!(
        World::open(&crm::SETUP, &path)
            .unwrap()
            .hash()
            .unwrap()
            .to_string(),
        after
    );
}

fn arguments(folder: &std::path::Path, text: &str) -> std::fs::File {
    let path = folder.join("arguments.json");
    std::fs::write(&path, text).unwrap();
    std::fs::File::open(path).unwrap()
}
