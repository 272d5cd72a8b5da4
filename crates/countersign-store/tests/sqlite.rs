//! What only the SQLite store has: files, group commits, other processes. All else is in the common suite.

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
use countersign::decision::{Ground, Verdict};
use countersign::id::{Channel, Run, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::state::{CallState, State};
use countersign::store::{Cursor, Filter, Store, StoreError};
use countersign::time::{ManualClock, Time};
use countersign_store::sqlite::{OpenError, SqliteOptions, SqliteStore};
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

/// How many approvals were ever proposed.
async fn count(store: &SqliteStore) -> usize {
    let (tenant, mut count, mut from) = (Tenant::single(), 0, Cursor::default());
    loop {
        let events = store.feed(&tenant, from, 1_000).await.unwrap();
        let Some(last) = events.last() else { return count };
        (count, from) = (count + events.len(), last.cursor);
    }
}

/// Expects that opening is refused, and that the file is as it was.
#[track_caller]
fn refused(path: &Path) -> OpenError {
    let before = std::fs::read(path).unwrap();
    let error = open(path).err().expect("a refusal");
    assert_eq!(std::fs::read(path).unwrap(), before, "the file was changed");
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn f08_another_programs_file_is_left_alone() {
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
fn f08_what_is_no_database_is_left_alone() {
    for text in ["hello", &"not a database\n".repeat(1000)] {
        let (_folder, path) = folder();
        std::fs::write(&path, text).unwrap();
        assert!(matches!(refused(&path), OpenError::NotADatabase(_)));
    }
}

#[test]
fn f08_a_newer_schema_is_left_alone() {
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
fn a_new_file_is_its_owners_alone() {
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

/// Nobody pauses here, so no quiet moment helps: the log is moved while it is written, and begins anew.
#[tokio::test]
async fn the_log_stays_short_while_one_write_follows_another() {
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
async fn a_restart_keeps_everything() {
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
async fn x47_time_does_not_go_back_over_a_restart() {
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
    // All are queued before the writer can have served more than the first.
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
async fn a_decision_through_one_store_wakes_who_waits_at_another() {
    let (_folder, path) = folder();
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    for _ in 0..20 {
        let id = new_id();
        proposed(&here, propose(id)).await.unwrap();
        let waiter = here.hub().wait_for(id);
        there.write(decide(id, Verdict::Approve)).await.unwrap();
        let decided = async {
            // A late look may tell of the proposal first.
            while waiter.changed().await.unwrap().state == State::Pending {}
        };
        let woken = tokio::time::timeout(Duration::from_secs(3), decided);
        woken.await.expect("woken in time");
        // Both write, so that each finds the other's events between its own.
        here.write(finish(id)).await.unwrap();
    }
}

/// The writer knows without looking what it committed itself. Once somebody else has written, it looks.
#[tokio::test]
async fn x18_what_another_store_decided_is_not_decided_again() {
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

/// X46, with the credential taken back by another process.
#[tokio::test]
async fn x46_a_credential_that_another_store_took_back_decides_nothing() {
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
            decide.decision.decider.grounds = vec![Ground::exactly(&put)];
            Command::Decide(decide)
        }
        other => other,
    };
    let ids = [new_id(), new_id(), new_id()];
    for id in ids {
        proposed(&here, propose(id)).await.unwrap();
    }
    // Twice: the first time it is read, the second time it is known.
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

/// The same where this very store changes it, alone or together with the decision.
#[tokio::test]
async fn x46_a_credential_that_changed_here_is_read_anew() {
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
    assert_eq!(store.put_entry(entry(0)).await.unwrap(), Put::Kept(1));
    assert_eq!(store.put_entry(entry(1)).await.unwrap(), Put::Kept(2));
    // Queued together, so that they share a transaction.
    let (changed, again, taken) = tokio::join!(
        store.put_entry(entry(2)),
        store.put_entry(entry(2)),
        store.take_entry(Kind::Token, "alice's"),
    );
    assert_eq!((changed.unwrap(), again.unwrap()), (Put::Kept(3), Put::Changed));
    assert_eq!(taken.unwrap().unwrap().version, 3);
    assert_eq!(store.take_entry(Kind::Token, "alice's").await.unwrap(), None);
}

/// The code of the refusal of a decision.
fn refusal(answer: &Answer) -> Option<&'static str> {
    match answer {
        Answer::Decide(answer) => answer.refusal.as_ref().map(|refusal| refusal.code()),
        _ => Some("another answer"),
    }
}

#[tokio::test]
async fn d2_who_follows_hears_of_what_another_store_writes() {
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
    // What is in no feed is a change, too.
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
async fn a_decision_of_another_process_wakes_who_waits_here() {
    let (_folder, path) = folder();
    let store = open(&path).unwrap();
    let id = id(0);
    proposed(&store, propose(id)).await.unwrap();
    let waiter = store.hub().wait_for(id);
    // This test again, in another process, as the one who decides.
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

/// The file may not grow beyond 22 MB, and is nearly there: what fails is the moving of the log, which is shorter.
#[cfg(unix)]
#[tokio::test]
async fn f07_when_the_log_cannot_be_moved_the_store_stops_and_nothing_is_lost() {
    let (_folder, path) = folder();
    open(&path).unwrap().close().await;
    let ballast = Connection::open(&path).unwrap();
    ballast
        .execute_batch("CREATE TABLE ballast (b); INSERT INTO ballast VALUES (zeroblob(22750000))")
        .unwrap();
    ballast.close().unwrap();
    let mut other = tokio::process::Command::new("sh");
    // In blocks of 512 bytes. Without the signal, a write beyond that fails as on a broken disk.
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
async fn f08_a_lock_held_too_long_is_said_within_five_seconds() {
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
