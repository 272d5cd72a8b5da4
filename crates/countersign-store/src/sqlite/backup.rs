//! Backups: a whole copy of the file as it is at one moment, while others read and write.
//!
//! Enters: where to put it. Leaves: a file that opens like any other, checked page by page, and beside it its SHA-256 as
//! `sha256sum -c` reads it. Deliberately absent: bringing one back. Whoever does must void what was open in it first; see
//! `Store::void_open`.
//!
//! The copy holds only what is there: no log, no free pages, nothing that was erased.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use countersign::hash::Hash;
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use super::open::{self, OpenError};
use super::schema::Label;

/// A backup that was made or checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its length.
    pub bytes: u64,
    /// Over all of them.
    pub sha256: Hash,
}

/// Why there is no backup, or none to be trusted.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Nothing is overwritten.
    #[error("`{}` is there already", .0.display())]
    Exists(PathBuf),
    /// It cannot be written or read.
    #[error("`{}`: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is not a store of ours, or damaged.
    #[error("the copy cannot be used: {0}")]
    Damaged(String),
    /// It is not what its checksum was made of.
    #[error("`{}` does not fit its checksum", .0.display())]
    OtherBytes(PathBuf),
}

impl BackupError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            BackupError::Exists(_) => "give another path, or remove the file",
            BackupError::File { .. } => "check the path, the space on the disk and who may write there",
            BackupError::Damaged(_) => "use another backup, and keep this one to look at",
            BackupError::OtherBytes(_) => "copy it again from where it came, or use another backup",
        }
    }
}

/// Copies the store at `from` to a new file.
pub(super) fn make(from: &Path, to: &Path) -> Result<Backup, BackupError> {
    let sums = checksum_path(to);
    for taken in [to, &sums] {
        if taken.exists() {
            return Err(BackupError::Exists(taken.to_owned()));
        }
    }
    // Under another name until it is whole: a backup that is there is one.
    let partial = with_ending(to, ".partial");
    let made = copy(from, &partial).and_then(|()| look(&partial));
    let kept = made.and_then(|backup| {
        write_checksum(&sums, to, backup.sha256)?;
        std::fs::rename(&partial, to).map_err(|error| failed(to, &error))?;
        sync_folder(to)?;
        Ok(backup)
    });
    if kept.is_err() {
        // What cannot be removed either is seen for what it is by its name.
        let _ = std::fs::remove_file(&partial);
        let _ = std::fs::remove_file(&sums);
    }
    kept
}

/// Checks a backup against its checksum, and page by page.
pub fn check_backup(path: &Path) -> Result<Backup, BackupError> {
    let sums = checksum_path(path);
    let text = std::fs::read_to_string(&sums).map_err(|error| failed(&sums, &error))?;
    let expected = text.split_whitespace().next().and_then(Hash::from_hex);
    let backup = look(path)?;
    match expected == Some(backup.sha256) {
        true => Ok(backup),
        false => Err(BackupError::OtherBytes(path.to_owned())),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // It holds what the store holds, so it is its owner's alone.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(to).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(to.to_owned()),
        _ => failed(to, &error),
    })?;
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
    let file = File::open(to).map_err(|error| failed(to, &error))?;
    file.sync_all().map_err(|error| failed(to, &error))
}

/// A store of ours that is whole, with its checksum.
fn look(path: &Path) -> Result<Backup, BackupError> {
    let damaged = |error: rusqlite::Error| BackupError::Damaged(error.to_string());
    if !path.exists() {
        let reason = "it is not there".to_owned();
        let path = path.to_owned();
        return Err(BackupError::File { path, reason });
    }
    let connection = open::still(path).map_err(|error| BackupError::Damaged(error.to_string()))?;
    let label = Label::read(&connection).map_err(damaged)?;
    let ours = label.check();
    ours.map_err(|error: OpenError| BackupError::Damaged(error.to_string()))?;
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

/// Where the checksum of a backup stands.
fn checksum_path(path: &Path) -> PathBuf {
    with_ending(path, ".sha256")
}

fn write_checksum(sums: &Path, of: &Path, sha256: Hash) -> Result<(), BackupError> {
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(sums)?;
        file.write_all(format!("{sha256}  {name}\n").as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| failed(sums, &error))
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(|error| failed(folder, &error))
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
