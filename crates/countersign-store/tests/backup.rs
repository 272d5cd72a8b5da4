//! Backups of the SQLite store: complete, checksummed, without erased content, and voided on restore.

#![expect(clippy::unwrap_used, reason = "made for tests, where a panic is the report")]

#[expect(dead_code, reason = "shared with other tests, which use all of it")]
mod fixture;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign::call::Arguments;
use countersign::decision::Verdict;
use countersign::event::verify;
use countersign::hash::Hash;
use countersign::id::{Actor, Tenant};
use countersign::store::{Filter, Purge, Store};
use countersign_store::sqlite::{BackupError, OpenError, SqliteOptions, SqliteStore, check_backup};
use fixture::{decide, new_id, propose, proposed};
use tempfile::TempDir;

fn open(path: &std::path::Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    (folder, path)
}

#[tokio::test]
async fn h21_erased_content_is_in_no_file() {
    let (folder, path) = folder();
    let store = open(&path).unwrap();
    let secret = "canary that must go ".repeat(500);
    let id = new_id();
    let mut propose = propose(id);
    let arguments = format!("{{\"text\":\"{secret}\"}}");
    propose.calls[0].arguments = Arguments::parse(arguments.into_bytes()).unwrap();
    propose.claim = Some("canary that must go ".to_owned());
    proposed(&store, propose).await.unwrap();
    store.write(decide(id, Verdict::Deny)).await.unwrap();
    let purge = Purge {
        tenant: Tenant::single(),
        before: store.now().await.unwrap().plus(Duration::from_secs(1)),
        after: None,
        limit: 100,
        by: Actor::Gate,
        policy: Hash::of(b"policy"),
        dry_run: false,
    };
    assert_eq!(store.purge(&purge).await.unwrap().erased, 1);
    let backup = folder.path().join("backup.db");
    store.backup_to(&backup).await.unwrap();
    store.close().await;
    drop(store);
    let mut files = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        files += 1;
        assert!(!bytes.windows(19).any(|bytes| bytes == b"canary that must go"));
    }
    assert_eq!(files, 3, "the store, the backup and its checksum; no log is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f22_a_backup_under_load_is_whole_and_is_voided_when_restored() {
    let rounds: usize = std::env::var("COUNTERSIGN_TEST_F22").map_or(1, |text| text.parse().unwrap());
    for _ in 0..rounds {
        back_up_under_load().await;
    }
    println!("F22 sqlite rounds={rounds} violations=0");
}

async fn back_up_under_load() {
    let (folder, path) = folder();
    let store = Arc::new(open(&path).unwrap());
    for _ in 0..50 {
        proposed(&*store, propose(new_id())).await.unwrap();
    }
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let id = new_id();
                proposed(&*store, propose(id)).await.unwrap();
                store.write(decide(id, Verdict::Approve)).await.unwrap();
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let backup = folder.path().join("backup.db");
    let made = store.backup_to(&backup).await.unwrap();
    writing.abort();
    let again = store.backup_to(&backup).await;
    assert!(
        matches!(again, Err(BackupError::Exists(_))),
        "nothing is overwritten"
    );
    assert_eq!(check_backup(&backup).unwrap(), made);
    assert!(made.bytes > 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // The restored store verifies, both before and after open approvals are voided.
    let restored = open(&backup).unwrap();
    let all = Filter {
        limit: Some(500),
        ..Filter::default()
    };
    let listed = restored.list(&Tenant::single(), &all).await.unwrap();
    assert!(listed.len() >= 50);
    let voided = restored.void_open(Hash::of(b"policy")).await.unwrap();
    assert!(voided.pending >= 50);
    let pending = restored.list(&Tenant::single(), &Filter::pending()).await;
    assert_eq!(pending.unwrap(), []);
    for approval in restored.list(&Tenant::single(), &all).await.unwrap() {
        let events = restored.events(&approval.tenant, approval.id).await.unwrap();
        assert_eq!(verify(&approval, &events), Ok(()));
        assert!(approval.is_finished());
    }
}

#[tokio::test]
async fn h15_a_changed_backup_is_detected() {
    let (folder, path) = folder();
    let store = open(&path).unwrap();
    proposed(&store, propose(new_id())).await.unwrap();
    let backup = folder.path().join("backup.db");
    store.backup_to(&backup).await.unwrap();
    let mut bytes = std::fs::read(&backup).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&backup, &bytes).unwrap();
    assert!(check_backup(&backup).is_err());
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&backup, &bytes).unwrap();
    assert!(check_backup(&backup).is_err());
    assert!(check_backup(&folder.path().join("none")).is_err());
    let nowhere = folder.path().join("no/such/folder/backup.db");
    assert!(matches!(
        store.backup_to(&nowhere).await,
        Err(BackupError::File { .. })
    ));
}

#[cfg(unix)]
#[tokio::test]
async fn x94_temporary_names_are_unguessable_and_links_not_followed() {
    use std::os::unix::fs::symlink;
    let (folder, path) = folder();
    let store = open(&path).unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("victim"), "mine").unwrap();
    // Name that earlier versions used for an unfinished copy.
    symlink(at("victim"), at("backup.db.partial")).unwrap();
    store.backup_to(&at("backup.db")).await.unwrap();
    check_backup(&at("backup.db")).unwrap();
    for (taken, backup) in [("linked.db", "linked.db"), ("summed.db.sha256", "summed.db")] {
        symlink(at("nowhere"), at(taken)).unwrap();
        let made = store.backup_to(&at(backup)).await;
        assert!(matches!(made, Err(BackupError::Exists(_))), "{made:?}");
    }
    assert_eq!(std::fs::read(at("victim")).unwrap(), b"mine");
    assert!(!at("nowhere").exists());
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let hidden = left.filter(|file| file.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "nothing half made is left");
}
