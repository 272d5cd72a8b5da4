//! Tests two services on one PostgreSQL: a proposal on one is decided on the other.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::served::Served;
use crate::test_folder::{Left, TestFolder, database};

#[test]
fn d2_two_nodes_on_one_postgresql_are_one_service() {
    let store = database("two_nodes");
    let (mut here, mut there) = (TestFolder::new(), TestFolder::new());
    for place in [&mut here, &mut there] {
        place.write("countersign-serve.toml", "[tools.create_contact]\necho = true\n");
        place.keep_in(&store);
    }
    let (one, other) = (Served::start(&here), Served::start(&there));
    let (agent, ana) = (one.agent(), one.person());
    let id = one.propose(&agent, &["create_contact", r#"{"name":"Maria"}"#]);
    // The agent waits at one node.
    let waits = one
        .command(&agent, &["--json", "wait", &id, "--finished", "--timeout", "30s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    // A person decides at the other, which accepts the same token.
    let began = Instant::now();
    other.good(&ana, &["approve", &id]);
    let left = Left::of(waits.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "woken, not timed out");
    let shown: serde_json::Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(shown["calls"][0]["state"], "succeeded");
    // Both nodes agree, and both refuse a second decision.
    for node in [&one, &other] {
        let late = node.run(&ana, &["deny", &id]);
        assert_eq!(late.code, 4, "{late:?}");
        assert!(late.stderr.contains("already approved by `ana`"), "{late:?}");
    }
    // A token revoked on one node no longer works on the other.
    let listed = here.good(&["--json", "token", "list"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let tokens = listed["tokens"].as_array().or(listed.as_array()).unwrap();
    for token in tokens {
        here.good(&["token", "revoke", token["id"].as_str().unwrap()]);
    }
    let refused = other.run(&ana, &["list"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("token"), "{refused:?}");
}

/// X98: two services with different policies do not run on one store, unless a person allows it.
#[test]
fn x98_a_service_with_another_policy_does_not_start_beside_one_that_runs() {
    let place = TestFolder::new();
    let first = Served::start(&place);
    place.write("countersign.toml", "[tools.create_contact]\neffect = \"read\"\n");
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let said = "a service with another policy is running on this store";
    assert!(refused.stderr.contains(said), "{refused:?}");
    assert!(refused.stderr.contains("--policy-change"), "{refused:?}");
    // The first service still applies its own policy.
    let agent = first.agent();
    let held = first.propose(&agent, &["create_contact", r#"{"name":"Maria","email":"m"}"#]);
    assert_eq!(place.json(&["show", &held])["status"], "pending");
    // With `--policy-change` both run; once neither is alive, the new policy is simply used.
    let rolling = Served::start_with(&place, &["serve", "--listen", "127.0.0.1:0", "--policy-change"]);
    first.kill();
    rolling.kill();
    let began = Instant::now();
    let next = Served::start(&place);
    assert!(began.elapsed() < Duration::from_secs(30), "a lease ends");
    next.kill();
    place.write(
        "countersign.toml",
        "[tools.create_contact]\neffect = \"external\"\n",
    );
    Served::start(&place).kill();
}
