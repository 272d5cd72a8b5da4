//! Detects that a database file was deleted, moved or replaced while it was open.
//!
//! An open file that was deleted or moved still accepts commits, but they are lost when the process ends. So the
//! database, its WAL and the WAL index are compared by device and inode from the moment they are opened: before each
//! transaction, and again before its commands are answered. The three checks take some microseconds, a commit some
//! hundred.
//!
//! This module does not open the database file, because closing such a handle would drop SQLite's locks. SQLite places
//! no locks on the WAL, so a lost WAL can be restored from the handle that SQLite still has open.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::Connection;

use super::fault::Fault;

/// Device and inode number of a file.
type Identity = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreFile {
    Database,
    /// The WAL: acknowledged commits that have not been checkpointed into the database.
    Wal,
    /// The WAL index (`-shm`), rebuilt from the WAL by the first process that opens the database.
    WalIndex,
}

impl StoreFile {
    const ALL: [StoreFile; 3] = [StoreFile::Database, StoreFile::Wal, StoreFile::WalIndex];

    fn ending(self) -> &'static str {
        match self {
            StoreFile::Database => "",
            StoreFile::Wal => "-wal",
            StoreFile::WalIndex => "-shm",
        }
    }
}

/// The identities of a database's files, as SQLite has them open.
pub(super) struct FileIdentities {
    database: PathBuf,
    files: Vec<(StoreFile, PathBuf, Identity)>,
    /// Message of the first failed check. Later checks repeat it, so that a lost WAL is restored only once.
    reported: OnceLock<String>,
}

impl FileIdentities {
    /// Records the files of the database at `path` as `connection` has them open. Fails if one of them has already been
    /// deleted or replaced.
    pub(super) fn record(path: &Path, connection: &Connection) -> Result<FileIdentities, Fault> {
        // SQLite opens the WAL and its index only with the first read.
        let read = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        read.map_err(|error| Fault::of(&error))?;
        let mut identities = FileIdentities {
            database: path.to_owned(),
            files: Vec::new(),
            reported: OnceLock::new(),
        };
        let open_files = OpenFile::all();
        for kind in StoreFile::ALL {
            let file = with_ending(path, kind.ending());
            let found = identity(&file);
            let is_open = |open_file: &OpenFile| Some(open_file.identity) == found;
            let lost = match open_files.iter().any(is_open) {
                true => None,
                // The file was deleted after SQLite opened it, and perhaps created again by another program.
                false => open_files
                    .iter()
                    .find(|open_file| open_file.was_deleted_from(&file)),
            };
            match (found, lost) {
                (_, Some(lost)) => return Err(identities.fault_for(kind, &file, lost.identity, found)),
                (Some(found), None) => identities.files.push((kind, file, found)),
                (None, None) if cfg!(unix) => {
                    let message = format!("`{}` was deleted while it was being opened", file.display());
                    return Err(Fault::Broken(message));
                }
                (None, None) => {}
            }
        }
        Ok(identities)
    }

    /// Fails if one of the files was deleted or replaced. The content of a lost WAL is restored first.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if let Some(message) = self.reported.get() {
            return Err(Fault::Broken(message.clone()));
        }
        for (kind, path, known) in &self.files {
            let found = identity(path);
            if found != Some(*known) {
                return Err(self.fault_for(*kind, path, *known, found));
            }
        }
        Ok(())
    }

    /// Returns the fault that tells the operator what happened to a file and what to do now. Restores a lost WAL.
    /// `found` is the file that is at `path` now, if there is one.
    fn fault_for(&self, kind: StoreFile, path: &Path, known: Identity, found: Option<Identity>) -> Fault {
        let open_file = OpenFile::of(known);
        let current_path = open_file.as_ref().and_then(OpenFile::current_path);
        let what = match (found, &current_path) {
            (Some(_), _) => "was replaced by another file".to_owned(),
            (None, Some(path)) => format!("was moved to `{}`", path.display()),
            (None, None) => "was deleted or moved".to_owned(),
        };
        let then = match kind {
            StoreFile::Database => self.move_back_command(current_path.as_deref(), found.is_some()),
            StoreFile::Wal => restore_wal(path, open_file.as_ref()),
            StoreFile::WalIndex => {
                "nothing is lost; stop everything else that uses the store, then start again".to_owned()
            }
        };
        let message = format!("`{}` {what} while it was in use; {then}", path.display());
        Fault::Broken(self.reported.get_or_init(|| message).clone())
    }

    /// Returns advice with the shell commands that move the database back next to its WAL. `current_path` is where the
    /// database is now, if that is known.
    fn move_back_command(&self, current_path: Option<&Path>, is_replaced: bool) -> String {
        let [file, wal, index] =
            StoreFile::ALL.map(|kind| shell_word(&with_ending(&self.database, kind.ending())));
        let other = shell_word(&with_ending(&self.database, ".other"));
        let aside = match is_replaced {
            true => format!("mv -n {file} {other} && "),
            false => String::new(),
        };
        match current_path {
            Some(current_path) => {
                let current_path = shell_word(current_path);
                format!(
                    "its log is still in its place, so put it back before anything else: `{aside}mv -n {current_path} {file}`"
                )
            }
            None => format!(
                "put it back beside its log, which holds what was acknowledged last: `{aside}mv -n WHERE-IT-IS {file}`. If it \
                 is gone for good, keep what is left and restore a backup: `mkdir lost && mv {wal} {index} lost/ && \
                 countersign restore BACKUP --store {file}`"
            ),
        }
    }
}

struct OpenFile {
    identity: Identity,
    /// Path by which the open file can be read: `/proc/self/fd/…`.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are none"))]
    descriptor_path: PathBuf,
    /// Current path of the file according to the operating system, which appends ` (deleted)` if the file was deleted.
    path: PathBuf,
    is_deleted: bool,
}

impl OpenFile {
    /// Lists the open files of this process; empty on systems other than Linux.
    #[cfg(target_os = "linux")]
    fn all() -> Vec<OpenFile> {
        use std::os::unix::fs::MetadataExt as _;
        let entries = Path::new("/proc/self/fd").read_dir();
        let open_file = |descriptor_path: PathBuf| {
            // Reads the metadata of the open file itself, not of its name, and opens nothing.
            let found = std::fs::metadata(&descriptor_path).ok()?;
            let path = std::fs::read_link(&descriptor_path).ok()?;
            found.is_file().then(|| OpenFile {
                identity: (found.dev(), found.ino()),
                descriptor_path,
                path,
                is_deleted: found.nlink() == 0,
            })
        };
        let entries = entries.into_iter().flatten().flatten();
        entries.filter_map(|entry| open_file(entry.path())).collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn all() -> Vec<OpenFile> {
        Vec::new()
    }

    fn of(identity: Identity) -> Option<OpenFile> {
        OpenFile::all()
            .into_iter()
            .find(|open_file| open_file.identity == identity)
    }

    /// Returns true if this file was opened at `path` and has been deleted since.
    fn was_deleted_from(&self, path: &Path) -> bool {
        self.is_deleted && self.path == with_ending(path, " (deleted)")
    }

    /// Returns the current path of the file, or `None` if it was deleted.
    fn current_path(&self) -> Option<PathBuf> {
        (!self.is_deleted && self.path.is_absolute()).then(|| self.path.clone())
    }
}

/// Restores a lost WAL from the handle that SQLite still has open, and returns a message about the result.
///
/// The copy is complete: from the moment the WAL is gone, no process acknowledges a commit. The next process that opens
/// the database replays the WAL as after a crash, and uses only complete transactions in it.
fn restore_wal(path: &Path, open_file: Option<&OpenFile>) -> String {
    let restored = match open_file {
        Some(open_file) => copy_from_descriptor(path, open_file).map_err(|error| error.to_string()),
        None => Err("this system does not give it back".to_owned()),
    };
    let shown = path.display();
    match restored {
        Ok(RestoredWal::InPlace) => "what it held was put back, so nothing is lost; start again".to_owned(),
        Ok(RestoredWal::Beside(beside)) => {
            let (beside, file) = (shell_word(&beside), shell_word(path));
            format!(
                "what it held is kept beside it. Stop everything that uses the store, then put it back: `mv {file} \
                 {file}.other; mv -n {beside} {file}`"
            )
        }
        Err(problem) => format!(
            "what it held could not be put back ({problem}): what was acknowledged last may be lost. If `{shown}` was moved, \
             move it back before anything else"
        ),
    }
}

enum RestoredWal {
    InPlace,
    Beside(PathBuf),
}

#[cfg(target_os = "linux")]
fn copy_from_descriptor(path: &Path, open_file: &OpenFile) -> std::io::Result<RestoredWal> {
    use std::io::ErrorKind;
    let copy = crate::private_file::temporary_path(path)?;
    let written = write_copy(&copy, &open_file.descriptor_path);
    if written.is_err() {
        let _ = std::fs::remove_file(&copy);
    }
    written?;
    let restored = match std::fs::hard_link(&copy, path) {
        Ok(()) => std::fs::remove_file(&copy).map(|()| RestoredWal::InPlace),
        // Another process has restored the same WAL, or has started a new one.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match is_empty_or_same(path, &copy)? {
            true => std::fs::rename(&copy, path).map(|()| RestoredWal::InPlace),
            false => {
                let beside = with_ending(path, "-lost");
                std::fs::rename(&copy, &beside).map(|()| RestoredWal::Beside(beside))
            }
        },
        Err(error) => Err(error),
    };
    if restored.is_err() {
        let _ = std::fs::remove_file(&copy);
    }
    crate::private_file::sync_parent(path)?;
    restored
}

#[cfg(not(target_os = "linux"))]
fn copy_from_descriptor(_: &Path, _: &OpenFile) -> std::io::Result<RestoredWal> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn write_copy(to: &Path, from: &Path) -> std::io::Result<()> {
    let mut copy = crate::private_file::create_new(to)?;
    let mut source = std::fs::File::open(from)?;
    std::io::copy(&mut source, &mut copy)?;
    copy.sync_all()
}

/// Returns true if the file at `path` is empty or equal to the copy.
#[cfg(target_os = "linux")]
fn is_empty_or_same(path: &Path, copy: &Path) -> std::io::Result<bool> {
    let found = path.symlink_metadata()?;
    let is_empty = found.is_file() && found.len() == 0;
    Ok(is_empty || (found.is_file() && std::fs::read(path)? == std::fs::read(copy)?))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}

/// Quotes a path for the shell if necessary.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns `None`, which skips the check. Systems other than Unix do not permit removing a file that is in use.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::sqlite::open;

    struct Store {
        folder: tempfile::TempDir,
        connection: Connection,
    }

    impl Store {
        fn open() -> Store {
            let folder = tempfile::tempdir().unwrap();
            let connection = open::writer(&folder.path().join("store.db")).unwrap();
            connection
                .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
                .unwrap();
            Store { folder, connection }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn note(&self, text: &str) {
            self.connection
                .execute_batch("CREATE TABLE IF NOT EXISTS note (text)")
                .unwrap();
            self.connection
                .execute("INSERT INTO note VALUES (?1)", [text])
                .unwrap();
        }

        fn identities(&self) -> FileIdentities {
            FileIdentities::record(&self.at("store.db"), &self.connection)
                .ok()
                .unwrap()
        }
    }

    #[track_caller]
    fn broken(checked: Result<(), Fault>) -> String {
        match checked {
            Err(Fault::Broken(message)) => message,
            _ => panic!("it was not noticed"),
        }
    }

    #[test]
    fn x91_a_missing_or_replaced_file_is_detected_at_once() {
        for ending in ["", "-wal", "-shm"] {
            for is_replaced in [false, true] {
                let store = Store::open();
                let identities = store.identities();
                store.note("a");
                identities.check().unwrap();
                let file = store.at(&format!("store.db{ending}"));
                std::fs::rename(&file, store.at("away")).unwrap();
                if is_replaced {
                    std::fs::copy(store.at("away"), &file).unwrap();
                }
                let message = broken(identities.check());
                let what = match is_replaced {
                    true => "was replaced by another file".to_owned(),
                    false => format!("was moved to `{}`", store.at("away").display()),
                };
                assert!(message.contains(&what), "{message}");
            }
        }
    }

    #[test]
    fn x91_the_wal_is_recorded_before_the_first_write() {
        let store = Store::open();
        let identities = store.identities();
        std::fs::remove_file(store.at("store.db-wal")).unwrap();
        broken(identities.check());
        // The same happens if the file is deleted between opening and the first check.
        let store = Store::open();
        std::fs::remove_file(store.at("store.db-wal")).unwrap();
        broken(FileIdentities::record(&store.at("store.db"), &store.connection).map(drop));
        let store = Store::open();
        std::fs::remove_file(store.at("store.db-wal")).unwrap();
        std::fs::write(store.at("store.db-wal"), "somebody else's").unwrap();
        let message = broken(FileIdentities::record(&store.at("store.db"), &store.connection).map(drop));
        assert!(message.contains("was replaced by another file"), "{message}");
    }

    #[test]
    fn x91_a_deleted_wal_is_restored() {
        let store = Store::open();
        let identities = store.identities();
        store.note("kept");
        std::fs::remove_file(store.at("store.db-wal")).unwrap();
        // Another process has meanwhile created an empty WAL.
        std::fs::write(store.at("store.db-wal"), "").unwrap();
        let message = broken(identities.check());
        assert!(message.contains("nothing is lost"), "{message}");
        // The files are copied without closing the connection, as a crash would leave them.
        let copy = store.at("copy.db");
        std::fs::copy(store.at("store.db"), &copy).unwrap();
        std::fs::copy(store.at("store.db-wal"), store.at("copy.db-wal")).unwrap();
        let again = Connection::open(copy).unwrap();
        let note: String = again
            .query_row("SELECT text FROM note", [], |row| row.get(0))
            .unwrap();
        assert_eq!(note, "kept");
        assert_eq!(store.folder.path().read_dir().unwrap().count(), 6);
    }

    #[test]
    fn x91_the_wal_of_another_process_is_not_overwritten() {
        let store = Store::open();
        let identities = store.identities();
        store.note("kept");
        std::fs::remove_file(store.at("store.db-wal")).unwrap();
        std::fs::write(store.at("store.db-wal"), "somebody else's").unwrap();
        let message = broken(identities.check());
        let wal = std::fs::read(store.at("store.db-wal")).unwrap();
        assert_eq!(wal, b"somebody else's");
        assert!(store.at("store.db-wal-lost").metadata().unwrap().len() > 1_000);
        assert!(message.contains("mv -n"), "{message}");
    }

    /// Runs the command from the error message in a shell.
    #[test]
    fn x91_a_file_that_was_moved_is_put_back_with_the_printed_command() {
        for is_replaced in [false, true] {
            let store = Store::open();
            let identities = store.identities();
            store.note("kept");
            std::fs::rename(store.at("store.db"), store.at("it's away")).unwrap();
            if is_replaced {
                std::fs::write(store.at("store.db"), "another").unwrap();
            }
            let message = broken(identities.check());
            let command = message.split('`').find(|part| part.contains("mv -n")).unwrap();
            let done = std::process::Command::new("sh")
                .args(["-c", command])
                .status()
                .unwrap();
            assert!(done.success(), "{message}");
            store.identities().check().unwrap();
        }
    }
}
