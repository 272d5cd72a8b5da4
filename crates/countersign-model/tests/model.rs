//! Checks the model, and that it detects violations.
#![expect(clippy::print_stdout, reason = "how much was checked")]

use std::time::Instant;

use countersign_model::{Instance, Rule};
use stateright::{Checker as _, Model as _};

/// Returns an instance of the model that CI can check in seconds.
fn small() -> Instance {
    Instance {
        nodes: 2,
        approvals: 1,
        deciders: 2,
        quorum: 1,
        crashes: 1,
        propose_by: 0,
        without: None,
    }
}

/// Returns an instance with three nodes, two approvals, two deciders and one crash per node.
fn full() -> Instance {
    Instance {
        nodes: 3,
        approvals: 2,
        ..small()
    }
}

fn is_full() -> bool {
    std::env::var("COUNTERSIGN_TEST_MODEL").is_ok_and(|nodes| nodes == "3")
}

fn check(name: &str, instance: Instance) {
    let began = Instant::now();
    // Depth first: with breadth first, the queue of states would take gigabytes.
    let checker = instance.checker().threads(2).spawn_dfs().join();
    checker.assert_properties();
    assert!(checker.is_done(), "not every state was seen");
    println!(
        "model {} states={} violations=0 unique={} depth={} seconds={:.1}",
        name.replace(' ', "-"),
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f32()
    );
}

/// Checks that the property is violated in this instance.
fn check_broken(instance: Instance, property: &'static str) {
    let checker = instance.checker().threads(2).spawn_bfs().join();
    let path = checker.assert_any_discovery(property);
    println!("{property}: {} steps", path.into_actions().len());
}

#[test]
fn i1_to_i13_hold_in_a_small_world() {
    check("small", small());
}

#[test]
fn i1_to_i13_hold_when_two_have_to_approve() {
    check("quorum", Instance { quorum: 2, ..small() });
}

/// With two approvals, one supersedes the other, and their cards can be confused.
#[test]
fn i1_to_i13_hold_for_two_approvals() {
    check(
        "two approvals",
        Instance {
            nodes: 1,
            approvals: 2,
            deciders: 1,
            crashes: 0,
            ..small()
        },
    );
}

/// The instance of the fault matrix. Takes minutes, so it runs only on request.
#[test]
fn i1_to_i13_hold_in_the_full_world() {
    if is_full() {
        check("full", full());
    }
}

/// Control for X84: a node that does not check the deadline runs a call that others have given up.
#[test]
fn x84_without_a_look_at_the_deadline_the_model_fails() {
    let instance = Instance {
        without: Some(Rule::LookBeforeSending),
        ..small()
    };
    check_broken(instance, "I12 what was given up has no effect after that");
}

/// Control for I3: a store that reads its clock before it has the lock accepts a late approval.
#[test]
fn i3_with_a_clock_of_before_the_lock_the_model_fails() {
    let instance = Instance {
        without: Some(Rule::ClockAfterLock),
        ..small()
    };
    check_broken(instance, "I3 nothing is approved at or after expiry");
}
