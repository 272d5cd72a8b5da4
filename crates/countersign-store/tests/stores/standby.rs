//! X90 and F10: a primary with a synchronous standby. Everything acknowledged is on the standby, even if the wait for
//! it is interrupted, so a fail-over loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use countersign::command::{Answer, Command, Propose};
use countersign::hash::Hash;
use countersign::id::{Key, Tenant};
use countersign::store::suite::sample;
use countersign::store::{Store, StoreError};
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::database::run;
use crate::figures::{report, rounds, say};
use crate::kill_server::{Node, Records, check_answers, check_end};
use crate::server::{Frozen, Server, connect_soon, signal};
use crate::workload::check;

/// SQL condition for a process whose commit waits for the standby.
const WAITS: &str = "wait_event = 'SyncRep'";
const TASKS: usize = 8;
const FAILOVERS: usize = 2;

struct Pair {
    primary: Server,
    standby: Server,
}

impl Pair {
    async fn start(names: &str) -> Pair {
        let primary = Server::start();
        // Set before the copy is made, so that the standby has the same setting once it is the primary.
        let client = primary.client().await;
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        run(&client, &set).await;
        run(&client, "SELECT pg_reload_conf()").await;
        let standby = primary.standby();
        let pair = Pair { primary, standby };
        pair.until_followed(names == "*").await;
        pair
    }

    /// Waits until the standby streams, as synchronous if expected.
    async fn until_followed(&self, is_synchronous: bool) {
        let client = connect_soon(&self.primary.url).await;
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND (sync_state = 'async') <> $1";
        let begun = Instant::now();
        while client
            .query_one(sql, &[&is_synchronous])
            .await
            .unwrap()
            .get::<_, i64>(0)
            == 0
        {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the standby does not follow"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the primary, and starts the standby, which was stopped, as the new primary.
    fn fail_over(self) -> Server {
        self.primary.kill();
        self.standby.restart();
        self.standby.promote();
        self.standby
    }
}

async fn open(server: &Server) -> PostgresStore {
    PostgresStore::connect(&server.url, PostgresOptions::default())
        .await
        .unwrap()
}

fn keyed(number: u64) -> Propose {
    Propose {
        key: Some((Key::new(format!("key-{number}")).unwrap(), Hash([9; 32]))),
        ..sample::propose(number)
    }
}

/// Proposes a call. Succeeds only if the proposal was acknowledged.
async fn propose(store: &PostgresStore, number: u64) -> Result<(), StoreError> {
    match store.write(Command::Propose(Box::new(keyed(number)))).await? {
        Answer::Propose(proposed) => {
            proposed.unwrap();
            Ok(())
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_not_acknowledged(answer: &Result<(), StoreError>, why: &str) {
    let told = matches!(
        answer,
        Err(StoreError::InDoubt(_) | StoreError::Unavailable(_) | StoreError::Busy(_))
    );
    assert!(told, "X90: {why}, and it was acknowledged: {answer:?}");
}

/// A crashed server forgets that a commit waited, so its data may be on no standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x90_a_crash_during_the_wait_for_the_standby_acknowledges_nothing() {
    let pair = Pair::start("*").await;
    let store = Arc::new(open(&pair.primary).await);
    propose(&store, 1).await.unwrap();
    tokio::task::block_in_place(|| pair.standby.stop());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { propose(&store, 2).await }
    });
    pair.primary.process(WAITS).await;
    tokio::task::block_in_place(|| {
        pair.primary.kill();
        pair.primary.restart();
    });
    let answer = waiting.await.unwrap();
    // The proposal is stored, but a retry must not be acknowledged either.
    let again = propose(&store, 2).await;
    let client = pair.primary.client().await;
    let there = client
        .query_one("SELECT count(*) FROM countersign.approval", &[])
        .await
        .unwrap();
    assert_eq!(there.get::<_, i64>(0), 2, "the primary has both");
    let promoted = tokio::task::block_in_place(|| pair.fail_over());
    let after = open(&promoted).await;
    let lost = after
        .approval(&sample::tenant(), sample::id(2))
        .await
        .unwrap()
        .is_none();
    assert!(lost, "the standby was away, so this is what a fail-over loses");
    assert_not_acknowledged(&answer, "it was lost at fail-over");
    assert_not_acknowledged(&again, "it was repeated, and lost at fail-over");
}

/// Cancelling the wait makes the COMMIT succeed with a warning that most clients ignore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x90_a_cancelled_wait_for_the_standby_acknowledges_nothing() {
    let pair = Pair::start("*").await;
    let (store, other) = (Arc::new(open(&pair.primary).await), open(&pair.primary).await);
    propose(&store, 1).await.unwrap();
    propose(&other, 2).await.unwrap();
    tokio::task::block_in_place(|| pair.standby.stop());
    for (number, end) in [(10, "pg_cancel_backend"), (11, "pg_terminate_backend")] {
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { propose(&store, number).await }
        });
        let process = pair.primary.process(WAITS).await;
        let client = pair.primary.client().await;
        run(&client, &format!("SELECT {end}({process})")).await;
        let answer = waiting.await.unwrap();
        assert_not_acknowledged(&answer, end);
        // A retry at another node finds it on record.
        let again = propose(&other, number).await;
        assert_not_acknowledged(&again, &format!("{end}, and then the same again elsewhere"));
    }
    // While the standby is away, connections do not accumulate.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let answer = propose(&store, 20).await;
        assert_not_acknowledged(&answer, "there is no standby");
    }
    let ours = pair.primary.processes("application_name = 'countersign'").await;
    assert!(ours.len() <= 24, "{} connections", ours.len());
    // Once the standby is back, writes succeed again, including retries of those in doubt.
    tokio::task::block_in_place(|| pair.standby.restart());
    pair.until_followed(true).await;
    let begun = Instant::now();
    while let Err(error) = propose(&store, 10).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    propose(&other, 11).await.unwrap();
    let promoted = tokio::task::block_in_place(|| {
        pair.primary.kill();
        pair.standby.promote();
        pair.standby
    });
    let after = open(&promoted).await;
    for number in [1, 2, 10, 11] {
        let there = after.approval(&sample::tenant(), sample::id(number)).await;
        assert!(there.unwrap().is_some(), "{number} was acknowledged");
    }
}

/// A commit in doubt is acknowledged once the standby has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x90_a_doubt_ends_well_when_the_standby_is_there() {
    let pair = Pair::start("*").await;
    let store = Arc::new(open(&pair.primary).await);
    propose(&store, 1).await.unwrap();
    let sender = pair.primary.process("backend_type = 'walsender'").await;
    let frozen = Frozen::new(vec![sender]);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { propose(&store, 2).await }
    });
    pair.primary.process(WAITS).await;
    tokio::task::block_in_place(|| {
        pair.primary.kill();
        signal("-KILL", sender);
        pair.primary.restart();
    });
    drop(frozen);
    let answer = waiting.await.unwrap();
    // On a busy machine the standby may reconnect too late for the first attempt; then it is retried.
    let begun = Instant::now();
    let mut answered = answer;
    while answered.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{answered:?}");
        answered = propose(&store, 2).await;
    }
    let promoted = tokio::task::block_in_place(|| {
        pair.primary.kill();
        pair.standby.promote();
        pair.standby
    });
    let there = open(&promoted)
        .await
        .approval(&sample::tenant(), sample::id(2))
        .await;
    assert!(there.unwrap().is_some());
}

/// Commits use their own `synchronous_commit` setting, not the role's.
#[tokio::test]
async fn x90_commits_wait_for_the_standby_whatever_the_role_says() {
    let server = Server::start();
    let admin = server.client().await;
    for (number, (given, used)) in (100..).zip([
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ]) {
        run(
            &admin,
            &format!("ALTER ROLE postgres SET synchronous_commit = {given}"),
        )
        .await;
        run(&admin, "DROP TABLE IF EXISTS public.seen").await;
        let store = open(&server).await;
        propose(&store, 1).await.ok();
        // A trigger records the setting from within a lane's commit.
        run(
            &admin,
            "CREATE TABLE public.seen (setting text);
             CREATE OR REPLACE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END$$;
             CREATE OR REPLACE TRIGGER see BEFORE INSERT ON countersign.event FOR EACH ROW EXECUTE FUNCTION public.see()",
        )
        .await;
        propose(&store, number).await.unwrap();
        let seen = admin
            .query_one("SELECT max(setting) FROM public.seen", &[])
            .await
            .unwrap();
        assert_eq!(seen.get::<_, String>(0), used, "{given}");
        run(&admin, "DROP TRIGGER see ON countersign.event").await;
    }
}

/// Kills primaries under load while the standby lags, and promotes the standby. Returns how many facts were
/// acknowledged, and how many of them are lost.
async fn fail_over(names: &str, rounds: usize) -> (usize, usize) {
    let is_synchronous = names == "*";
    let mut pair = Pair::start(names).await;
    let database = |server: &Server| server.url.rsplit_once('@').unwrap().1.replace("/postgres", "");
    let url = format!(
        "postgresql://postgres@{},{}/postgres?target_session_attrs=read-write",
        database(&pair.primary),
        database(&pair.standby)
    );
    let (mut facts, mut lost) = (0, 0);
    for _ in 0..rounds {
        let (acks, effects, answer_log): Records = Default::default();
        let nodes = [
            Node::connect(&url, &acks, &effects, &answer_log).await,
            Node::connect(&url, &acks, &effects, &answer_log).await,
        ];
        let over = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (client, over) = (nodes[task % 2].client.clone(), over.clone());
                tokio::spawn(async move {
                    for life in 0u64.. {
                        if over.load(Ordering::SeqCst) {
                            return;
                        }
                        if client.run_one(life).await.is_err() {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                })
            })
            .collect();
        for node in &nodes {
            node.answers(20, Duration::from_secs(60)).await;
        }
        // The standby falls behind, then the primary is killed for good.
        let sender = pair.primary.process("backend_type = 'walsender'").await;
        assert!(signal("-STOP", sender));
        tokio::time::sleep(Duration::from_millis(300)).await;
        pair.primary.kill();
        signal("-KILL", sender);
        over.store(true, Ordering::SeqCst);
        tokio::task::block_in_place(|| pair.standby.promote());
        // The new primary gets a standby to wait for; nodes find the new primary by themselves.
        tokio::task::block_in_place(|| pair.primary.follow(&pair.standby));
        std::mem::swap(&mut pair.primary, &mut pair.standby);
        pair.until_followed(is_synchronous).await;
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(60), task)
                .await
                .expect("a node finds the new primary")
                .unwrap();
        }
        for node in &nodes {
            node.client
                .run_one(3)
                .await
                .expect("the node works at the new primary");
        }
        let store = open(&pair.primary).await;
        let (acks, effects) = (acks.lock().unwrap().clone(), effects.lock().unwrap().clone());
        facts += acks.len();
        for ack in &acks {
            let there = store.approval(&Tenant::single(), ack.approval()).await.unwrap();
            lost += usize::from(there.is_none());
        }
        if is_synchronous {
            for node in &nodes {
                node.settle().await;
            }
            check(&store, &acks, &effects).await;
            let answer_log = answer_log.lock().unwrap().clone();
            check_answers(&store, &answer_log).await;
        }
    }
    if is_synchronous {
        check_end(&pair.primary.url, &[]).await;
    }
    (facts, lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_a_synchronous_fail_over_loses_nothing() {
    let rounds = rounds("F10", FAILOVERS);
    let (facts, lost) = fail_over("*", rounds).await;
    assert_eq!(lost, 0, "I5: of {facts} acknowledged facts");
    report("F10", "postgres", rounds, &format!("acknowledged={facts}"));
}

/// Control: without a synchronous standby the same harness must detect losses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_an_asynchronous_fail_over_loses_something() {
    let rounds = rounds("F10", FAILOVERS);
    let (facts, lost) = fail_over("", rounds).await;
    say(&format!(
        "F10 postgres-asynchronous-control rounds={rounds} lost={lost} acknowledged={facts}"
    ));
    assert!(lost > 0, "the control shows no loss among {facts} facts");
}
