//! F21: two nodes on PostgreSQL are restarted in turn while agents and people go on working.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gone::{Service, World, request};
use crate::test_folder::database;

const CLIENTS: u64 = 4;
/// Time in which a client has to get an answer from one of the nodes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Addresses of the nodes. A node that is being restarted has none.
type Hosts = Mutex<[Option<String>; 2]>;

/// Sends a request to one node after the other until one of them answers, as a load balancer would. Repeating is safe:
/// proposals carry an idempotency key, and an approval is decided once.
fn ask_any(hosts: &Hosts, token: &str, method_and_path: &str, headers: &str, body: &str) -> (u16, Value) {
    let begun = Instant::now();
    for attempt in 0_usize.. {
        let host = hosts.lock().unwrap()[attempt % 2].clone();
        let answer = host.and_then(|host| request(&host, token, method_and_path, headers, body));
        match answer {
            // A node that is stopping, or one that limits the rate, says so.
            Some((503 | 429, _)) | None => std::thread::sleep(Duration::from_millis(10)),
            Some(answer) => return answer,
        }
        assert!(begun.elapsed() < PATIENCE, "no node answers {method_and_path}");
    }
    unreachable!("the loop ends with an answer or an assertion")
}

/// Proposes and approves call `number`, and waits for its end. Returns the status of the call.
fn approve(world: &World, hosts: &Hosts, number: u64) -> String {
    let proposal = format!("{{\"calls\":[{{\"tool\":\"pay\",\"arguments\":{{\"n\":{number}}}}}]}}");
    let key = format!("idempotency-key: call-{number}\r\n");
    let (status, proposed) = ask_any(hosts, &world.agent, "POST /v1/calls", &key, &proposal);
    assert_eq!(status, 200, "{number}: {proposed}");
    let id = proposed["approval"]["id"].as_str().unwrap().to_owned();
    let digest = proposed["approval"]["digest"].as_str().unwrap();
    let decision = format!("{{\"approved\":true,\"digest\":\"{digest}\"}}");
    let path = format!("POST /v1/approvals/{id}");
    let (status, decided) = ask_any(hosts, &world.ana, &path, "", &decision);
    // The node may have stopped after it had recorded the decision and before it answered.
    let is_decided = status == 200 || decided["error"]["code"] == "already_decided";
    assert!(is_decided, "{number}: {status} {decided}");
    let begun = Instant::now();
    loop {
        let path = format!("GET /v1/approvals/{id}?wait=2s&waitFor=finished");
        let (status, approval) = ask_any(hosts, &world.agent, &path, "", "");
        assert_eq!(status, 200, "{number}: {approval}");
        let state = approval["calls"][0]["state"].as_str().unwrap_or_default();
        if !matches!(state, "released" | "running") || begun.elapsed() > PATIENCE {
            return state.to_owned();
        }
    }
}

#[test]
fn f21_nodes_that_restart_in_turn_lose_nothing() {
    let rounds: usize = std::env::var("COUNTERSIGN_TEST_F21").map_or(4, |count| count.parse().unwrap());
    let world = World::with(|place| place.keep_in(&database("rolling")));
    let start = || Service::start(&world.place, |_| {}).0;
    let mut nodes = [start(), start()];
    let hosts: Hosts = Mutex::new([nodes[0].host.clone(), nodes[1].host.clone()]);
    let (is_over, last) = (AtomicBool::new(false), AtomicU64::new(0));
    let done: Mutex<BTreeSet<u64>> = Mutex::default();
    let mut slowest = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let number = last.fetch_add(1, Ordering::Relaxed) + 1;
                    let state = approve(&world, &hosts, number);
                    assert_eq!(state, "succeeded", "call {number}");
                    done.lock().unwrap().insert(number);
                }
            });
        }
        for round in 0..rounds {
            let at = round % 2;
            std::thread::sleep(Duration::from_millis(300));
            hosts.lock().unwrap()[at] = None;
            let begun = Instant::now();
            let pid = nodes[at].child.id().to_string();
            let told = std::process::Command::new("kill").args(["-TERM", &pid]).status();
            assert!(told.unwrap().success());
            let (code, said) = nodes[at].end();
            slowest = slowest.max(begun.elapsed());
            assert_eq!(code, Some(0), "round {round}: {said}");
            nodes[at] = start();
            hosts.lock().unwrap()[at] = nodes[at].host.clone();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let done = done.into_inner().unwrap();
    let mut effects = world.effects.lock().unwrap().clone();
    effects.sort_unstable();
    assert_eq!(
        effects,
        done.iter().copied().collect::<Vec<_>>(),
        "each call ran exactly once"
    );
    assert!(
        done.len() >= rounds,
        "only {} calls in {rounds} rounds",
        done.len()
    );
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    println!(
        "F21 postgres rounds={rounds} violations=0 calls={} slowest_stop_ms={}",
        done.len(),
        slowest.as_millis()
    );
}
