//! Backups: consistent copies of the database file, made while it is in use.
//!
//! Input: the path of the copy. Output: a database file that passed an integrity check, and next to it its SHA-256 in
//! the format of `sha256sum -c`.
//! Restoring a backup is not done here: everything that was open in the backup must be voided first; see
//! `Store::void_open`.
//!
//! The copy has no WAL, no free pages, and nothing that was erased.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use countersign::hash::Hash;
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use super::open::{self, OpenError};
use super::schema::FileHeader;
use crate::private_file;

/// Size and checksum of a backup that was made or checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: Hash,
}

/// Reason why a backup could not be made or cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file at the target path exists already; nothing is overwritten.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// The file cannot be read or written.
    #[error("`{}`: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error message of the operating system or of SQLite.
        reason: String,
    },
    /// The file is not a Countersign store, or it is damaged; with the reason.
    #[error("the copy cannot be used: {0}")]
    Damaged(String),
    /// The file at this path does not match its checksum.
    #[error("`{}` does not fit its checksum", .0.display())]
    ChecksumMismatch(PathBuf),
}

impl BackupError {
    /// Returns advice for the operator.
    pub fn hint(&self) -> &'static str {
        match self {
            BackupError::Exists(_) => "give another path, or remove the file",
            BackupError::File { .. } => "check the path, the free disk space and the permissions",
            BackupError::Damaged(_) => "use another backup, and keep this one to look at",
            BackupError::ChecksumMismatch(_) => "copy it again from its source, or use another backup",
        }
    }
}

/// Copies the store at `from` to the new file `to`, checks the copy, and writes its checksum next to it.
pub(super) fn create(from: &Path, to: &Path) -> Result<Backup, BackupError> {
    let checksum_file = checksum_path(to);
    for taken in [to, &checksum_file] {
        if taken.symlink_metadata().is_ok() {
            return Err(BackupError::Exists(taken.to_owned()));
        }
    }
    // The copy has a temporary name until it is complete, so that a file with the final name is always a whole backup.
    let partial = private_file::temporary_path(to).map_err(|error| failed(to, &error))?;
    let copied = copy(from, &partial).and_then(|()| check_file(&partial));
    let finished = copied.and_then(|backup| {
        write_checksum(&checksum_file, to, backup.sha256)?;
        std::fs::rename(&partial, to).map_err(|error| {
            let _ = std::fs::remove_file(&checksum_file);
            failed(to, &error)
        })?;
        private_file::sync_parent(to).map_err(|error| failed(to, &error))?;
        Ok(backup)
    });
    if finished.is_err() {
        // If the copy cannot be removed, its name still shows that it is temporary.
        let _ = std::fs::remove_file(&partial);
    }
    finished
}

/// Checks that the file at `path` is an intact store and matches the checksum file next to it. Returns its size and
/// checksum. Fails if the checksum file cannot be read.
pub fn check_backup(path: &Path) -> Result<Backup, BackupError> {
    let checksum_file = checksum_path(path);
    let text = std::fs::read_to_string(&checksum_file).map_err(|error| failed(&checksum_file, &error))?;
    let expected = text.split_whitespace().next().and_then(Hash::from_hex);
    let backup = check_file(path)?;
    match expected == Some(backup.sha256) {
        true => Ok(backup),
        false => Err(BackupError::ChecksumMismatch(path.to_owned())),
    }
}

/// Runs SQLite's integrity check on a file that is not in use, without creating files next to it.
pub fn check_unused(path: &Path) -> Result<(), BackupError> {
    check_file(path).map(drop)
}

fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    // The copy is as confidential as the store, so only its owner can read it.
    let file = private_file::create_new(to).map_err(|error| failed(to, &error))?;
    let target = to.to_str().ok_or_else(|| BackupError::File {
        path: to.to_owned(),
        reason: "its name is not Unicode".to_owned(),
    })?;
    let connection = open::reader(from).map_err(|error| BackupError::Damaged(error.to_string()))?;
    connection
        .execute("VACUUM INTO ?1", [target])
        .map_err(|error| BackupError::File {
            path: to.to_owned(),
            reason: error.to_string(),
        })?;
    drop(connection);
    // SQLite opens the file by name, so make sure that it is still the file created above.
    let is_same = private_file::is_same_file(&file, to).map_err(|error| failed(to, &error))?;
    if !is_same {
        let reason = "another file was put in its place".to_owned();
        let path = to.to_owned();
        return Err(BackupError::File { path, reason });
    }
    file.sync_all().map_err(|error| failed(to, &error))
}

/// Checks that the file is an intact Countersign store, and returns its checksum.
fn check_file(path: &Path) -> Result<Backup, BackupError> {
    let damaged = |error: rusqlite::Error| BackupError::Damaged(error.to_string());
    if !path.exists() {
        let reason = "it is not there".to_owned();
        let path = path.to_owned();
        return Err(BackupError::File { path, reason });
    }
    let connection = open::immutable(path).map_err(|error| BackupError::Damaged(error.to_string()))?;
    let header = FileHeader::read(&connection).map_err(damaged)?;
    let checked = header.check();
    checked.map_err(|error: OpenError| BackupError::Damaged(error.to_string()))?;
    let found = integrity(&connection).map_err(damaged)?;
    if found != "ok" {
        return Err(BackupError::Damaged(found));
    }
    drop(connection);
    hash(path).map_err(|error| failed(path, &error))
}

fn integrity(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
}

fn hash(path: &Path) -> io::Result<Backup> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0u64;
    loop {
        let count = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            break;
        };
        hasher.update(read);
        bytes = bytes.saturating_add(u64::try_from(count).unwrap_or_default());
    }
    Ok(Backup {
        bytes,
        sha256: Hash(hasher.finalize().into()),
    })
}

/// Returns the path of a backup's checksum file.
fn checksum_path(path: &Path) -> PathBuf {
    with_ending(path, ".sha256")
}

fn write_checksum(checksum_file: &Path, of: &Path, sha256: Hash) -> Result<(), BackupError> {
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let line = format!("{sha256}  {name}\n");
    private_file::write_new(checksum_file, line.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(checksum_file.to_owned()),
        _ => failed(checksum_file, &error),
    })
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}

fn failed(path: &Path, error: &io::Error) -> BackupError {
    BackupError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
