//! Tests specific to the SQLite store: files, group commits, several processes. The rest is in the common suite.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "made for tests, where a panic is the report"
)]

mod fixture;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign::command::{Answer, Command};
use countersign::decision::{AuthorityBasis, Verdict};
use countersign::id::{Channel, Run, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::state::{CallState, State};
use countersign::store::{Audit, Cursor, Filter, Store, StoreError};
use countersign::time::{ManualClock, Time};
use countersign_store::sqlite::{OpenError, SqliteOptions, SqliteStore, audit_file};
use fixture::{decide, finish, id, new_id, propose, proposed, whole};
use rusqlite::Connection;
use tempfile::TempDir;

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    (folder, path)
}

/// Counts the events of all approvals.
async fn count(store: &SqliteStore) -> usize {
    let (tenant, mut count, mut from) = (Tenant::single(), 0, Cursor::default());
    loop {
        let events = store.feed(&tenant, from, 1_000).await.unwrap();
        let Some(last) = events.last() else { return count };
        (count, from) = (count + events.len(), last.cursor);
    }
}

/// Checks that opening the file fails and leaves it unchanged. Returns the error.
#[track_caller]
fn refused(path: &Path) -> OpenError {
    let before = std::fs::read(path).unwrap();
    let error = open(path).err().expect("a refusal");
    assert_eq!(std::fs::read(path).unwrap(), before, "the file was changed");
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn f08_another_programs_file_is_left_unchanged() {
    for mode in ["DELETE", "WAL"] {
        let (_folder, path) = folder();
        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "journal_mode", mode).unwrap();
        other.execute_batch("CREATE TABLE note (text)").unwrap();
        other.close().unwrap();
        assert!(matches!(refused(&path), OpenError::Foreign { found: 0 }));

        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "application_id", 4711).unwrap();
        other.close().unwrap();
        assert!(matches!(refused(&path), OpenError::Foreign { found: 4711 }));
    }
}

#[test]
fn f08_a_file_that_is_no_database_is_left_unchanged() {
    for text in ["hello", &"not a database\n".repeat(1000)] {
        let (_folder, path) = folder();
        std::fs::write(&path, text).unwrap();
        assert!(matches!(refused(&path), OpenError::NotADatabase(_)));
    }
}

#[test]
fn f08_a_damaged_file_is_refused_and_left_unchanged() {
    let (_folder, path) = folder();
    drop(open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    // Overwrites the page with the table definitions.
    bytes[100..4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(refused(&path), OpenError::NotADatabase(_)));
}

/// X91: a commit to a file that was deleted or moved is not acknowledged.
#[cfg(unix)]
#[tokio::test]
async fn x91_a_store_whose_file_is_gone_stops() {
    // Before the first write, and after the first acknowledgement.
    for (beside, count) in [
        ("store.db", 0),
        ("store.db", 1),
        ("store.db-wal", 0),
        ("store.db-wal", 1),
        ("store.db-shm", 0),
        ("store.db-shm", 1),
    ] {
        let (folder, path) = folder();
        let store = open(&path).unwrap();
        for _ in 0..count {
            proposed(&store, propose(new_id())).await.unwrap();
        }
        std::fs::rename(folder.path().join(beside), folder.path().join("away")).unwrap();
        let refused = proposed(&store, propose(new_id())).await;
        let Err(StoreError::Stopped(why)) = refused else {
            panic!("{beside}: {refused:?}");
        };
        assert!(why.contains(beside) && why.contains("was moved to"), "{why}");
        assert!(matches!(store.health(), Err(StoreError::Stopped(_))));
        assert!(proposed(&store, propose(new_id())).await.is_err());
    }
}

#[test]
fn f08_a_newer_schema_is_left_unchanged() {
    let (_folder, path) = folder();
    drop(open(&path).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    newer.close().unwrap();
    assert!(matches!(refused(&path), OpenError::Newer { found: 99, .. }));
}

#[test]
fn a_missing_folder_is_named() {
    let (folder, _) = folder();
    let error = open(&folder.path().join("no/store.db")).err().unwrap();
    assert!(matches!(error, OpenError::NoFolder(_)), "{error}");
    assert!(open(folder.path()).is_err(), "a folder is no file");
}

#[cfg(unix)]
#[test]
fn a_new_file_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = folder();
    let _store = open(&path).unwrap();
    for name in ["store.db", "store.db-wal"] {
        let mode = std::fs::metadata(path.with_file_name(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Without pauses between writes, the WAL must be checkpointed while it is written, and restart.
#[tokio::test]
async fn the_wal_stays_short_under_continuous_writes() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let log = path.with_file_name("store.db-wal");
    let mut longest = 0;
    for _ in 0..2_500 {
        proposed(&store, propose(new_id())).await.unwrap();
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    let written = count(&store).await;
    assert!(
        longest < 48 << 20,
        "{longest} bytes of log for {written} approvals"
    );
    store.close().await;
    assert!(!log.exists());
    let store = open(&path).unwrap();
    assert_eq!(count(&store).await, 2_500);
}

#[tokio::test]
async fn everything_survives_a_restart() {
    let (_folder, path) = folder();
    let tenant = Tenant::single();
    let (done, open_id) = (new_id(), new_id());
    let store = open(&path).unwrap();
    proposed(&store, propose(done)).await.unwrap();
    store.write(decide(done, Verdict::Approve)).await.unwrap();
    store.write(finish(done)).await.unwrap();
    proposed(&store, propose(open_id)).await.unwrap();
    let before = (
        store.approval(&tenant, done).await.unwrap(),
        store.events(&tenant, done).await.unwrap(),
        store.feed(&tenant, Cursor::default(), 100).await.unwrap(),
    );
    store.close().await;
    assert!(
        !path.with_file_name("store.db-wal").exists(),
        "closing leaves one file"
    );
    assert!(matches!(
        store.write(finish(done)).await,
        Err(StoreError::Stopped(_))
    ));

    let store = open(&path).unwrap();
    let after = (
        store.approval(&tenant, done).await.unwrap(),
        store.events(&tenant, done).await.unwrap(),
        store.feed(&tenant, Cursor::default(), 100).await.unwrap(),
    );
    assert_eq!(before, after);
    assert_eq!(after.0.unwrap().calls[0].state, CallState::Succeeded);
    assert_eq!(after.1.len(), 4);
    assert_eq!(after.2.len(), 5);
    let pending = store.list(&tenant, &Filter::pending()).await.unwrap();
    assert_eq!(
        pending.iter().map(|approval| approval.id).collect::<Vec<_>>(),
        [open_id]
    );
}

#[tokio::test]
async fn x47_time_does_not_go_back_after_a_restart() {
    let (_folder, path) = folder();
    let future = Time::from_micros(7_000_000_000_000_000);
    let clock = SqliteOptions {
        clock: Some(Arc::new(ManualClock::at(future))),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(&path, clock).unwrap();
    proposed(&store, propose(new_id())).await.unwrap();
    drop(store);
    assert!(open(&path).unwrap().now().await.unwrap() >= future);
}

#[tokio::test]
async fn a_group_keeps_each_commands_own_outcome() {
    let (_folder, path) = folder();
    let store = Arc::new(open(&path).unwrap());
    let twice = new_id();
    proposed(&*store, propose(twice)).await.unwrap();
    // All are queued before the writer has processed more than the first.
    let writes = (0..50).map(|number| {
        let id = if number % 10 == 3 { twice } else { new_id() };
        store.write(Command::Propose(Box::new(propose(id))))
    });
    let outcomes = futures_util::future::join_all(writes).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        match number % 10 {
            3 => assert!(matches!(outcome, Err(StoreError::Impossible(_))), "{outcome:?}"),
            _ => assert!(matches!(outcome, Ok(Answer::Propose(Ok(_)))), "{outcome:?}"),
        }
    }
    let filter = Filter {
        limit: Some(500),
        ..Filter::pending()
    };
    let pending = store.list(&Tenant::single(), &filter).await.unwrap();
    assert_eq!(pending.len(), 46);
}

#[tokio::test]
async fn one_channel_holds_one_pending_approval_also_within_a_group() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let channel = Channel::new("whatsapp:1").unwrap();
    let writes = (0..20).map(|_| {
        let mut propose = propose(new_id());
        propose.channel = Some(channel.clone());
        store.write(Command::Propose(Box::new(propose)))
    });
    for outcome in futures_util::future::join_all(writes).await {
        assert!(matches!(outcome, Ok(Answer::Propose(Ok(_)))), "{outcome:?}");
    }
    let tenant = Tenant::single();
    assert_eq!(store.list(&tenant, &Filter::pending()).await.unwrap().len(), 1);
    assert!(store.pending_in(&tenant, &channel).await.unwrap().is_some());
}

#[tokio::test]
async fn lists_are_pages_in_order() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let tenant = Tenant::single();
    let run = Run::new("run-1").unwrap();
    let ids: Vec<_> = (0..6).map(|_| new_id()).collect();
    for (number, id) in ids.iter().enumerate() {
        let mut propose = propose(*id);
        propose.run = (number % 2 == 0).then(|| run.clone());
        proposed(&store, propose).await.unwrap();
    }
    store.write(decide(ids[0], Verdict::Deny)).await.unwrap();
    let page = async |filter: Filter| -> Vec<_> {
        let found = store.list(&tenant, &filter).await.unwrap();
        found.iter().map(|approval| approval.id).collect()
    };
    let first = Filter {
        limit: Some(2),
        ..Filter::pending()
    };
    assert_eq!(page(first.clone()).await, ids[1..3]);
    let next = Filter {
        after: Some(ids[2]),
        ..first
    };
    assert_eq!(page(next).await, ids[3..5]);
    let of_run = Filter {
        run: Some(run),
        ..Filter::default()
    };
    assert_eq!(page(of_run.clone()).await, [ids[4], ids[2], ids[0]]);
    let after = Filter {
        after: Some(ids[4]),
        state: Some(State::Denied),
        ..of_run
    };
    assert_eq!(page(after).await, [ids[0]]);
    let other = Tenant::new("other").unwrap();
    assert!(store.list(&other, &Filter::default()).await.unwrap().is_empty());
    assert!(store.approval(&other, ids[0]).await.unwrap().is_none());
    assert!(store.events(&other, ids[0]).await.unwrap().is_empty());
    assert!(
        store
            .feed(&other, Cursor::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_decision_in_one_store_wakes_waiters_of_another() {
    let (_folder, path) = folder();
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    for _ in 0..20 {
        let id = new_id();
        proposed(&here, propose(id)).await.unwrap();
        let waiter = here.hub().wait_for(id);
        there.write(decide(id, Verdict::Approve)).await.unwrap();
        let decided = async {
            // A delayed notification may report the proposal first.
            while waiter.changed().await.unwrap().state == State::Pending {}
        };
        let woken = tokio::time::timeout(Duration::from_secs(3), decided);
        woken.await.expect("woken in time");
        // Both write, so that each store finds the other's events between its own.
        here.write(finish(id)).await.unwrap();
    }
}

/// The writer's cache of its own commits is dropped once another process has written.
#[tokio::test]
async fn x18_a_decision_of_another_store_is_final() {
    let (_folder, path) = folder();
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    for verdict in [Verdict::Deny, Verdict::Approve] {
        let id = new_id();
        proposed(&here, propose(id)).await.unwrap();
        let first = there.write(decide(id, verdict)).await.unwrap();
        assert_eq!(refusal(&first), None);
        let second = here.write(decide(id, Verdict::Approve)).await.unwrap();
        assert_eq!(refusal(&second), Some("already_decided"));
    }
}

/// X46 with a credential revoked by another process.
#[tokio::test]
async fn x46_a_credential_revoked_in_another_store_decides_nothing() {
    let (_folder, path) = folder();
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    let put = Entry {
        kind: Kind::Token,
        key: "alice's".to_owned(),
        tenant: Tenant::single(),
        body: Arc::from(&b"{}"[..]),
        version: 0,
        expires_at: None,
    };
    here.put_entry(put.clone()).await.unwrap();
    let resting_on_it = |id| match decide(id, Verdict::Approve) {
        Command::Decide(mut decide) => {
            decide.decision.decider.authority_bases = vec![AuthorityBasis::exactly(&put)];
            Command::Decide(decide)
        }
        other => other,
    };
    let ids = [new_id(), new_id(), new_id()];
    for id in ids {
        proposed(&here, propose(id)).await.unwrap();
    }
    // Twice: the first time the entry is read, the second time it is cached.
    for id in &ids[..2] {
        let answer = here.write(resting_on_it(*id)).await.unwrap();
        assert_eq!(refusal(&answer), None);
    }
    there.take_entry(put.kind, &put.key).await.unwrap().unwrap();
    let answer = here.write(resting_on_it(ids[2])).await.unwrap();
    assert_eq!(refusal(&answer), Some("not_allowed"));
    let left = here.approval(&Tenant::single(), ids[2]).await.unwrap().unwrap();
    assert_eq!(left.state, State::Pending);
}

/// X46 with an entry changed by the same store, both alone and in the same transaction.
#[tokio::test]
async fn x46_a_changed_credential_is_read_again() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let entry = |version| Entry {
        kind: Kind::Token,
        key: "alice's".to_owned(),
        tenant: Tenant::single(),
        body: Arc::from(&b"{}"[..]),
        version,
        expires_at: None,
    };
    assert_eq!(store.put_entry(entry(0)).await.unwrap(), Put::Written(1));
    assert_eq!(store.put_entry(entry(1)).await.unwrap(), Put::Written(2));
    // Queued together, so that they share a transaction.
    let (changed, again, taken) = tokio::join!(
        store.put_entry(entry(2)),
        store.put_entry(entry(2)),
        store.take_entry(Kind::Token, "alice's"),
    );
    assert_eq!(
        (changed.unwrap(), again.unwrap()),
        (Put::Written(3), Put::Conflict)
    );
    assert_eq!(taken.unwrap().unwrap().version, 3);
    assert_eq!(store.take_entry(Kind::Token, "alice's").await.unwrap(), None);
}

/// Returns the code of a decision's refusal.
fn refusal(answer: &Answer) -> Option<&'static str> {
    match answer {
        Answer::Decide(answer) => answer.refusal.as_ref().map(|refusal| refusal.code()),
        _ => Some("another answer"),
    }
}

#[tokio::test]
async fn d2_followers_learn_of_writes_of_another_store() {
    let (_folder, path) = folder();
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    let tenant = Tenant::single();
    let mut changes = here.hub().changes();
    for _ in 0..20 {
        let cursor = here.feed_end(&tenant).await.unwrap();
        let id = new_id();
        proposed(&there, propose(id)).await.unwrap();
        let heard = async {
            while here.feed(&tenant, cursor, 10).await.unwrap().is_empty() {
                assert!(changes.next().await);
            }
        };
        tokio::time::timeout(Duration::from_secs(3), heard)
            .await
            .expect("heard in time");
    }
    // Registry changes are in no feed, but still signal followers.
    let entry = Entry {
        kind: Kind::Token,
        key: "t".to_owned(),
        tenant,
        body: Arc::from(&b"x"[..]),
        version: 0,
        expires_at: None,
    };
    there.put_entry(entry).await.unwrap();
    let heard = async {
        while here.entry(Kind::Token, "t").await.unwrap().is_none() {
            assert!(changes.next().await);
        }
    };
    tokio::time::timeout(Duration::from_secs(3), heard)
        .await
        .expect("heard in time");
}

#[tokio::test]
async fn a_decision_of_another_process_wakes_waiters() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let id = id(0);
    proposed(&store, propose(id)).await.unwrap();
    let waiter = store.hub().wait_for(id);
    // Runs the deciding half in another process.
    let mut other = tokio::process::Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "decides_for_another_process", "--ignored"]);
    other.env("COUNTERSIGN_TEST_FILE", &path);
    assert!(other.output().await.unwrap().status.success());
    let woken = tokio::time::timeout(Duration::from_secs(3), waiter.changed());
    assert_eq!(woken.await.expect("woken in time").unwrap().state, State::Denied);
}

#[tokio::test]
#[ignore = "the other half of the test above"]
async fn decides_for_another_process() {
    if let Some(path) = std::env::var_os("COUNTERSIGN_TEST_FILE") {
        let store = open(Path::new(&path)).unwrap();
        store.write(decide(id(0), Verdict::Deny)).await.unwrap();
    }
}

/// Limits file size to 22 MB with the database nearly there, so that the checkpoint fails but the shorter WAL still
/// fits.
#[cfg(unix)]
#[tokio::test]
async fn f07_a_failed_checkpoint_stops_the_store_and_loses_nothing() {
    let (_folder, path) = folder();
    open(&path).unwrap().close().await;
    let ballast = Connection::open(&path).unwrap();
    ballast
        .execute_batch("CREATE TABLE ballast (b); INSERT INTO ballast VALUES (zeroblob(22750000))")
        .unwrap();
    ballast.close().unwrap();
    let mut other = tokio::process::Command::new("sh");
    // The limit is in blocks of 512 bytes. With the signal ignored, a write beyond it fails as on a broken disk.
    let limited = "trap '' XFSZ; ulimit -f 45056; exec \"$0\" --exact writes_until_the_store_stops --ignored";
    other.args(["-c", limited]).arg(std::env::current_exe().unwrap());
    other.env("COUNTERSIGN_TEST_FILE", &path);
    let output = other.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = std::fs::metadata(path.with_file_name("store.db-wal"))
        .unwrap()
        .len();
    assert!(log < 20 << 20, "it was the log that did not fit: {log}");
    let acknowledged = std::fs::read_to_string(path.with_extension("acknowledged")).unwrap();
    assert_eq!(count(&open(&path).unwrap()).await.to_string(), acknowledged);
}

#[tokio::test]
#[ignore = "the other half of the test above"]
async fn writes_until_the_store_stops() {
    let Some(path) = std::env::var_os("COUNTERSIGN_TEST_FILE") else {
        return;
    };
    let path = PathBuf::from(path);
    let store = open(&path).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match proposed(&store, propose(new_id())).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Stopped(_)), "{error}");
    let again = proposed(&store, propose(new_id())).await;
    assert!(matches!(again, Err(StoreError::Stopped(_))));
    std::fs::write(path.with_extension("acknowledged"), acknowledged.to_string()).unwrap();
}

#[tokio::test]
async fn f08_a_lock_held_too_long_is_reported_within_five_seconds() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let write = proposed(&store, propose(new_id()));
    let answer = tokio::time::timeout(Duration::from_secs(5), write);
    assert!(matches!(
        answer.await.expect("an answer"),
        Err(StoreError::Busy(_))
    ));
    other.execute_batch("ROLLBACK").unwrap();
    proposed(&store, propose(new_id())).await.unwrap();
}

#[tokio::test]
async fn an_erased_credential_is_overwritten() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let id = new_id();
    let mut propose = propose(id);
    let secret = b"sealed-credential-that-must-go".repeat(3);
    propose.calls[0].sealed = Some(Arc::from(secret.as_slice()));
    proposed(&store, propose).await.unwrap();
    store.write(decide(id, Verdict::Approve)).await.unwrap();
    store.write(finish(id)).await.unwrap();
    whole(&store).await.unwrap();
    store.close().await;
    let file = std::fs::read(&path).unwrap();
    assert!(!file.windows(secret.len()).any(|bytes| bytes == secret));
}

async fn is_consistent(path: &Path) -> bool {
    let audited = audit_file(path, &Audit::default(), &|_| ()).await;
    audited.is_ok_and(|audited| audited.is_sound())
}

/// I16: the audit detects a change of any byte of an approval's rows and events. Of long values every third byte is
/// tried.
#[tokio::test]
async fn i16_any_changed_byte_of_a_row_is_detected() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let mut whole = propose(new_id());
    whole.channel = Some(Channel::new("c").unwrap());
    whole.run = Some(Run::new("r").unwrap());
    whole.claim = Some("claim".to_owned());
    let approval = proposed(&store, whole).await.unwrap();
    store.write(decide(approval.id, Verdict::Approve)).await.unwrap();
    store.write(finish(approval.id)).await.unwrap();
    store.close().await;
    assert!(is_consistent(&path).await);
    let file = Connection::open(&path).unwrap();
    let columns = [
        ("approval", "seq", "tenant id channel agent run body"),
        ("call", "id", "tool arguments result body"),
        ("event", "seq", "by what link content"),
    ];
    let mut tried = 0;
    for (table, key, names) in columns {
        for name in names.split(' ') {
            let sql = format!(
                "SELECT {key}, CAST({name} AS BLOB), typeof({name}) FROM {table} WHERE {name} IS NOT NULL"
            );
            let rows: Vec<(i64, Vec<u8>, String)> = file
                .prepare(&sql)
                .unwrap()
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            for (row, bytes, kind) in rows {
                let sql = format!("UPDATE {table} SET {name} = CAST(?2 AS {kind}) WHERE {key} = ?1");
                let step = if bytes.len() > 40 { 3 } else { 1 };
                for at in (tried % step..bytes.len()).step_by(step) {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1;
                    file.execute(&sql, (row, changed)).unwrap();
                    assert!(
                        !is_consistent(&path).await,
                        "byte {at} of {table}.{name} in row {row}"
                    );
                    tried += 1;
                }
                file.execute(&sql, (row, bytes)).unwrap();
            }
        }
    }
    assert!(tried > 400, "{tried}");
    assert!(is_consistent(&path).await);
}

/// X63: a writer with an approval in its cache still detects changes by another process.
#[tokio::test]
async fn x63_rows_of_other_processes_are_checked_before_a_start() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let (forged, honest) = (new_id(), new_id());
    for id in [forged, honest] {
        proposed(&store, propose(id)).await.unwrap();
    }
    let file = Connection::open(&path).unwrap();
    let sql = "UPDATE call SET tool = 'delete_everything' WHERE id = 129";
    assert_eq!(file.execute(sql, []).unwrap(), 1);
    // Queued together to share a transaction; the forged one must not affect the other.
    let (one, other) = (
        store.write(decide(forged, Verdict::Approve)),
        store.write(decide(honest, Verdict::Approve)),
    );
    let (one, other) = tokio::join!(one, other);
    let error = one.expect_err("a forged card is not decided");
    assert!(
        matches!(&error, StoreError::Impossible(why) if why.contains("changed by something other")),
        "{error}"
    );
    assert!(error.hint().contains("countersign verify"));
    assert!(matches!(other.unwrap(), Answer::Decide(answer) if answer.started == Some(1)));
    // The sweep skips the forged approval and counts it as broken.
    let sweep = countersign::command::Sweep {
        limit: 10,
        policy: fixture::POLICY,
    };
    file.execute("UPDATE approval SET due_at = 1 WHERE seq = 1", [])
        .unwrap();
    match store.write(Command::Sweep(sweep)).await.unwrap() {
        Answer::Sweep(swept) => assert_eq!((swept.broken, swept.expired), (1, 0)),
        other => panic!("{other:?}"),
    }
    // It does not take the place of another one, even though it has been due for longer.
    proposed(&store, propose(new_id())).await.unwrap();
    let void = countersign::command::Void {
        limit: 1,
        policy: fixture::POLICY,
        changed_after: None,
    };
    match store.write(Command::Void(void)).await.unwrap() {
        Answer::Void(voided) => assert_eq!(voided.pending + voided.running, 1),
        other => panic!("{other:?}"),
    }
    store.close().await;
}

/// Several stores on one file append to one log.
#[tokio::test]
async fn i16_processes_that_take_turns_write_one_log() {
    let (_folder, path) = folder();
    let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
    for _ in 0..3 {
        whole(&one).await.unwrap();
        whole(&other).await.unwrap();
        whole(&other).await.unwrap();
    }
    let head = one.log_head().await.unwrap();
    assert_eq!(head.size, 9 * 4);
    assert!(is_consistent(&path).await);
    // Simulates an older version of this program, which appends events without updating the log.
    let file = Connection::open(&path).unwrap();
    file.execute("UPDATE log SET size = 0, last = 0, frontier = x''", [])
        .unwrap();
    assert!(!is_consistent(&path).await);
    whole(&one).await.unwrap();
    assert!(is_consistent(&path).await);
    assert_eq!(one.log_head().await.unwrap().size, 10 * 4);
    one.close().await;
    other.close().await;
}
