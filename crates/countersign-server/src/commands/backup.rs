//! `backup` and `restore`: make a complete copy of the store, and a new store from such a copy.
//!
//! Calls that were pending, approved or running when the backup was made may have run since. So restoring ends every
//! open approval and revokes every token, session and link before anybody can use the store (X33).

use std::path::Path;

use countersign::command::Voided;
use countersign::hash::Hash;
use countersign::store::Store as _;
use countersign_store::sqlite::{BackupError, SqliteOptions, check_backup, check_unused};

use crate::cli::{Backup, Global, Restore};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{Missing, Watch};
use crate::trust::StorePlace;
use crate::{policy, private_file, store};

pub async fn make(global: &Global, options: Backup, output: &mut Output) -> Result<Exit, Failure> {
    let place = file(global, "pg_dump --format=custom")?;
    if matches!(Path::new(place).try_exists(), Ok(false)) {
        let message = format!("there is no store at `{place}`");
        return Err(Failure::error("no_store", message).hint("name another store with `--store`"));
    }
    let place = StorePlace::find(Path::new(place))?;
    let store = store::open_sqlite(&place.path, SqliteOptions::default())?;
    let made = store.backup_to(&options.file).await.map_err(failed)?;
    match output.is_json {
        true => {
            let sha256 = made.sha256.to_string();
            output
                .json(&serde_json::json!({ "file": options.file, "bytes": made.bytes, "sha256": sha256 }))?;
        }
        false => output.line(&format!("{} bytes, SHA-256 {}", made.bytes, made.sha256)),
    }
    Ok(Exit::Done)
}

pub async fn restore(global: &Global, options: Restore, output: &mut Output) -> Result<Exit, Failure> {
    let policy = policy::load(global.policy.as_deref())?.policy.hash();
    let voided = match &options.file {
        Some(backup) => from_file(global, backup, policy).await?,
        None => {
            at_store(global)?;
            let store = store::open(global.store(), Missing::Refuse, Watch::Nobody).await?;
            store.void_open(policy).await?
        }
    };
    let (pending, released, running) = (voided.pending, voided.released, voided.running);
    match output.is_json {
        true => output
            .json(&serde_json::json!({ "pending": pending, "released": released, "running": running }))?,
        false => output.line(&format!(
            "restored; voided: {pending} pending, {released} approved and not started, {running} running. \
             Every token, session and link is taken back."
        )),
    }
    Ok(Exit::Done)
}

async fn from_file(global: &Global, backup: &Path, policy: Hash) -> Result<Voided, Failure> {
    let place = file(global, "pg_restore, and then `countersign restore --in-place`")?;
    check_backup(backup).map_err(failed)?;
    let target = Path::new(place);
    refuse_files(place)?;
    let found = StorePlace::find(target)?;
    // The store is prepared under a temporary name and then renamed. So a crash never leaves a store with open
    // approvals at the target.
    let half = private_file::temporary_path(target).map_err(|error| unwritable(target, &error))?;
    let voided = void(backup, &half, policy).await;
    if voided.is_err() {
        remove(&half);
    }
    let voided = voided?;
    if let Err(failure) = refuse_files(place).and_then(|()| check_unused(&half).map_err(failed)) {
        remove(&half);
        return Err(failure);
    }
    std::fs::rename(&half, target).map_err(|error| unwritable(target, &error))?;
    private_file::sync_parent(target).map_err(|error| unwritable(target, &error))?;
    found.remember();
    check_unused(target).map_err(failed)?;
    Ok(voided)
}

/// Fails if the target exists, or if there is a file that SQLite would take for part of the target. For example, SQLite
/// would apply another store's WAL to the restored store.
fn refuse_files(place: &str) -> Result<(), Failure> {
    let files = ["", "-wal", "-shm", "-journal"].map(|end| format!("{place}{end}"));
    let is_there = |file: &String| Path::new(file).symlink_metadata().is_ok();
    let found: Vec<String> = files.into_iter().filter(is_there).collect();
    let Some(first) = found.first() else { return Ok(()) };
    let message = match first == place {
        true => format!("a store already exists at `{place}` and is not overwritten"),
        false => format!(
            "`{first}` exists without its store, and SQLite would take it for part of the restored one"
        ),
    };
    Err(Failure::error("exists", message).hint(format!(
        "stop the service, then move all of it away together: `mkdir old && mv {} old/`; or name another with `--store`",
        found.join(" ")
    )))
}

async fn void(backup: &Path, half: &Path, policy: Hash) -> Result<Voided, Failure> {
    copy(backup, half).map_err(|error| unwritable(half, &error))?;
    let store = store::open_sqlite(half, SqliteOptions::default())?;
    let voided = store.void_open(policy).await;
    // Closing the store moves the content of the WAL into the main file, so that there is only one file to rename.
    store.close().await;
    Ok(voided?)
}

/// Copies a file to a new one that only its owner can read.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut to = private_file::create_new(to)?;
    std::io::copy(&mut std::fs::File::open(from)?, &mut to)?;
    to.sync_all()
}

fn remove(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
}

fn at_store(global: &Global) -> Result<(), Failure> {
    match global.server {
        None => Ok(()),
        Some(_) => Err(
            Failure::usage("backups need direct access to the store and cannot use a server")
                .hint("leave out `--server` and COUNTERSIGN_SERVER"),
        ),
    }
}

/// Returns the path of the SQLite store. Fails for PostgreSQL; the hint then names the tool to use `instead`.
fn file<'g>(global: &'g Global, instead: &str) -> Result<&'g str, Failure> {
    at_store(global)?;
    let place = global.store();
    if store::is_postgres(place) {
        let message = "PostgreSQL is backed up and restored with its own programs";
        return Err(Failure::usage(message).hint(format!("use {instead}; see docs/command-line.md")));
    }
    Ok(place)
}

fn failed(error: BackupError) -> Failure {
    let hint = error.hint();
    Failure::error("backup", error.to_string()).hint(hint)
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::error(
        "backup",
        format!("`{}` cannot be written: {error}", file.display()),
    )
    .hint("check the path, the free disk space and the permissions")
}
