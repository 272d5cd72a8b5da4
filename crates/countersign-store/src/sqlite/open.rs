//! Opening a database file: checks that it is a Countersign store, and configures connections to it.
//!
//! Input: a path. Output: connections, or an error with a hint. Another program's file is never written to. Files are
//! opened only through SQLite, because closing any other handle drops the locks of all connections in this process. The
//! one exception reads the header of a file whose creation was interrupted.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::schema::{self, FileHeader};

/// Oldest permitted version of SQLite. Earlier ones can corrupt a database when its WAL restarts.
pub(super) const OLDEST_LIBRARY: i32 = 3_051_003;

/// Pause between two attempts to open a file that another process is creating.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Maximum wait for a lock, just under the five seconds within which callers must be answered.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(4500);

/// Time that [`is_unused`] waits for short commands of other processes to end.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Reason why a file was not opened. The file is unchanged. Unless a variant says otherwise, a text is the cause.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file's folder does not exist.
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    /// The file cannot be created, opened or read.
    #[error("`{}` cannot be opened: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error message of SQLite or of the operating system.
        reason: String,
    },
    /// The file or its folder is not writable.
    #[error("`{}` can be read but not written", .0.display())]
    ReadOnly(PathBuf),
    /// The file is not an SQLite database, or it is damaged.
    #[error("the file is not an SQLite database, or it is damaged: {0}")]
    NotADatabase(String),
    /// The database belongs to another program.
    #[error("the database belongs to another program (application id {found:#x})")]
    Foreign {
        /// Application id in the file.
        found: i64,
    },
    /// The database was written by a newer version of this program.
    #[error("the database has schema {found}, and this version knows only {known}")]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// Newest schema version that this program knows.
        known: i64,
    },
    /// The database has an older schema, and a read-only operation cannot migrate it.
    #[error("the database has schema version {found}, and this version needs {known}")]
    Older {
        /// Schema version of the file.
        found: i64,
        /// Schema version that this program needs.
        known: i64,
    },
    /// A migration applied to the file differs from the one of the same number in this version.
    #[error("schema step {version} in the database is not the one this version knows")]
    ChangedMigration {
        /// Number of the migration.
        version: i64,
    },
    /// The SQLite library is too old: its version, which is given, can corrupt a database in WAL mode.
    #[error("the SQLite library is version {0}; 3.51.3 or newer is needed")]
    OldLibrary(String),
    /// The file system does not support a WAL; with the journal mode that SQLite uses instead.
    #[error("the database cannot keep a write-ahead log here (it stays in mode `{0}`)")]
    NoWal(String),
    /// Another process holds a lock on the file.
    #[error("the database is locked by another process: {0}")]
    Busy(String),
    /// A file of the database was deleted or moved while it was being opened.
    #[error("{0}")]
    Moved(String),
    /// Any other error.
    #[error("the database cannot be used: {0}")]
    Failed(String),
}

impl OpenError {
    /// Returns advice for the operator.
    pub fn hint(&self) -> &'static str {
        match self {
            OpenError::NoFolder(_) => "make the folder first, or give another path",
            OpenError::Unreadable { .. } => "check the path and who may read it",
            OpenError::ReadOnly(_) => "let this process write the file and its folder",
            OpenError::NotADatabase(_) => {
                "give another path; if it was ours, keep a copy and restore a backup"
            }
            OpenError::Foreign { .. } => "give the path of a new file",
            OpenError::Newer { .. } => "use the newer version, or a backup from before it",
            OpenError::Older { .. } => "run any other command on it first, such as `countersign list`",
            OpenError::ChangedMigration { .. } => "keep a copy, and use the version that made this file",
            OpenError::OldLibrary(_) => "build with the bundled SQLite library",
            OpenError::NoWal(_) => "put the file on a local disk",
            OpenError::Busy(_) => "end the other process, or try again in a moment",
            OpenError::Moved(_) => "follow it, and find out what moves or deletes files there",
            OpenError::Failed(_) => "see the reason given",
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::NotADatabase(text),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy(text),
            _ => OpenError::Failed(text),
        }
    }
}

/// Opens the writing connection. Creates the file if it does not exist, and migrates it to the newest schema.
///
/// If several processes create the same file at once, SQLite refuses some of them without waiting; this function
/// retries until [`BUSY_TIMEOUT`].
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    check_library(rusqlite::version_number(), rusqlite::version())?;
    create_file(path)?;
    let begun = Instant::now();
    loop {
        match try_writer(path) {
            Err(OpenError::Busy(_)) if begun.elapsed() < BUSY_TIMEOUT => std::thread::sleep(RETRY_PAUSE),
            opened => return opened,
        }
    }
}

fn try_writer(path: &Path) -> Result<Connection, OpenError> {
    read_header(path)?.check()?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(OpenError::ReadOnly(path.to_owned()));
    }
    configure(&connection)?;
    schema::migrate(&mut connection)?;
    enable_wal(&connection).map_err(|error| match error {
        OpenError::Failed(_) => OpenError::ReadOnly(path.to_owned()),
        error => error,
    })?;
    Ok(connection)
}

/// Reads the header through a read-only connection, so that another program's file remains unchanged to the last byte.
fn read_header(path: &Path) -> Result<FileHeader, OpenError> {
    match FileHeader::read(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?) {
        Ok(header) => Ok(header),
        // A process died during a migration, before the file had a WAL. A read-only connection cannot roll back, and a
        // half-written database cannot be queried. The file's header shows which program it belongs to. If it is a
        // Countersign store, the writing connection rolls back.
        Err(error) if is_interrupted(&error) => read_raw_header(path),
        Err(error) => Err(error.into()),
    }
}

fn read_raw_header(path: &Path) -> Result<FileHeader, OpenError> {
    let unreadable = |error: io::Error| OpenError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut bytes = Vec::with_capacity(FileHeader::LENGTH);
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut start = io::Read::take(file, FileHeader::LENGTH as u64);
    io::Read::read_to_end(&mut start, &mut bytes).map_err(unreadable)?;
    // After a power loss the first page may be torn or empty. The rollback journal has its old content.
    FileHeader::from_bytes(&bytes)
        .or_else(|| header_in_journal(path))
        .ok_or_else(|| OpenError::NotADatabase("it does not begin like one".to_owned()))
}

/// Reads the file's header from the rollback journal, as it was before the interrupted transaction and will be again
/// after the rollback. Returns `None` if the journal does not contain it.
fn header_in_journal(path: &Path) -> Option<FileHeader> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    // The journal is next to the real file, not next to a symbolic link.
    let mut journal = path.canonicalize().ok()?.into_os_string();
    journal.push("-journal");
    let bytes = std::fs::read(journal).ok()?;
    bytes.starts_with(&MAGIC).then_some(())?;
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(four)).ok()
    };
    let (pages_before, sector, page) = (number(16)?, number(20)?, number(24)?);
    if pages_before == 0 {
        return FileHeader::from_bytes(&[]);
    }
    // A record consists of a page number, the page and a checksum.
    let mut at = sector;
    while number(at)? != 1 {
        at = at.checked_add(page)?.checked_add(8)?;
    }
    let first_page = at.checked_add(4)?;
    FileHeader::from_bytes(bytes.get(first_page..first_page.checked_add(FileHeader::LENGTH)?)?)
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Returns a URI that opens the file without its journal or WAL (`immutable=1`).
fn immutable_uri(path: &Path) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    let path: String = path.as_os_str().as_encoded_bytes().iter().map(encode).collect();
    format!("file:{path}?immutable=1")
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Returns true if no other connection of any process has the file open. Waits up to a second for short commands of
/// other processes to end.
pub fn is_unused(path: &Path) -> Result<bool, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(UNUSED_TIMEOUT)?;
    // In this mode the first read needs a lock that is denied while any other connection is open.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let read = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    match read.map_err(OpenError::from) {
        Ok(()) => Ok(true),
        Err(OpenError::Busy(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file that no process writes to, without creating files next to it.
pub(super) fn immutable(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    connect(Path::new(&immutable_uri(path)), flags)
}

/// Refuses versions of SQLite older than [`OLDEST_LIBRARY`].
/// INVARIANT: no file is used with a library that can corrupt it.
fn check_library(number: i32, name: &str) -> Result<(), OpenError> {
    match number >= OLDEST_LIBRARY {
        true => Ok(()),
        false => Err(OpenError::OldLibrary(name.to_owned())),
    }
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, OpenError> {
    // Each connection is used by one thread at a time, so SQLite need not lock it.
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| OpenError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Without this setting, SQLite looks at the value bound to LIMIT and plans the statement again for each execution.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Creates the file if it does not exist. Arguments may be secret, so only the owner can read it; SQLite creates the
/// WAL with the same mode.
fn create_file(path: &Path) -> Result<(), OpenError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("."));
            Err(OpenError::NoFolder(folder.to_owned()))
        }
        Err(error) => Err(OpenError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

fn configure(connection: &Connection) -> Result<(), OpenError> {
    connection.set_prepared_statement_cache_capacity(64);
    // INVARIANT: acknowledged commits survive a power loss. NORMAL would lose them. FULL does not sync the folder after
    // deleting the rollback journal of the first migration: the journal could reappear after a power loss and be rolled
    // back under a newer WAL. In WAL mode EXTRA syncs as often as FULL.
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    // Room (8 MB) for the changes of a group of usual size and the ends of the indexes. A larger cache would be slower,
    // because SQLite walks through the whole cache at each commit.
    connection.pragma_update(None, "cache_size", -8_000)?;
    // Overwrites deleted content, such as credentials.
    connection.pragma_update(None, "secure_delete", "ON")?;
    // The schema has no foreign keys; the library keeps rows consistent.
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    // The writer checkpoints itself, after it has answered its callers: see `wal`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Size in bytes to which the WAL file shrinks after a burst of writes.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    Ok(())
}

/// Switches to WAL mode. The header was written before, so it is in the database file itself and never only in the WAL.
fn enable_wal(connection: &Connection) -> Result<(), OpenError> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    match mode.as_str() {
        "wal" => Ok(()),
        _ => Err(OpenError::NoWal(mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m9_an_old_library_is_refused() {
        assert!(check_library(3_051_002, "3.51.2").is_err());
        assert!(check_library(3_051_003, "3.51.3").is_ok());
        assert!(rusqlite::version_number() >= OLDEST_LIBRARY);
    }

    #[test]
    fn m7_the_writer_syncs_every_commit_and_uses_a_wal() {
        let folder = tempfile::tempdir().unwrap();
        let connection = writer(&folder.path().join("store.db")).unwrap();
        let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("PRAGMA synchronous"), 3, "EXTRA");
        assert_eq!(ask("PRAGMA secure_delete"), 1);
        let mode: String = connection
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
    }

    /// Creates a file as left behind by a process that died while writing without a WAL. `prepare` writes the data that
    /// was committed before.
    fn interrupted_file(folder: &Path, prepare: impl Fn(&mut Connection)) -> PathBuf {
        let (living, dead) = (folder.join("living"), folder.join("dead"));
        let mut connection = Connection::open(&living).unwrap();
        prepare(&mut connection);
        connection
            .execute_batch(
                // This is more than fits into the cache, so part of it is written to the file.
                "PRAGMA cache_size = 2; BEGIN; CREATE TABLE half (made); INSERT INTO half VALUES (zeroblob(1000000))",
            )
            .unwrap();
        std::fs::copy(folder.join("living-journal"), folder.join("dead-journal")).unwrap();
        std::fs::copy(living, &dead).unwrap();
        dead
    }

    #[test]
    fn k14_a_file_whose_creation_was_interrupted_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = interrupted_file(folder.path(), |connection| schema::migrate(connection).unwrap());
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert!(
            is_interrupted(&FileHeader::read(&connection).unwrap_err()),
            "the control"
        );
        writer(&path).unwrap();
    }

    /// Zeroes the first page, as a power loss may leave it.
    fn tear_first_page(path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[..4096].fill(0);
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn f05_a_file_that_lost_its_first_page_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        // The process died during the first migration, or later.
        let nothing = |_: &mut Connection| {};
        let made = |connection: &mut Connection| schema::migrate(connection).unwrap();
        for prepare in [&nothing as &dyn Fn(&mut Connection), &made] {
            let path = interrupted_file(folder.path(), prepare);
            tear_first_page(&path);
            let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
            assert!(
                is_interrupted(&FileHeader::read(&connection).unwrap_err()),
                "the control"
            );
            drop(connection);
            writer(&path).unwrap();
            for file in ["living", "living-journal", "dead", "dead-wal", "dead-shm"] {
                let _ = std::fs::remove_file(folder.path().join(file));
            }
        }
    }

    #[test]
    fn f08_another_programs_torn_file_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let note =
            |connection: &mut Connection| connection.execute_batch("CREATE TABLE note (text)").unwrap();
        let path = interrupted_file(folder.path(), note);
        tear_first_page(&path);
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(writer(&path), Err(OpenError::Foreign { found: 0 })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn f08_another_programs_interrupted_file_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let note =
            |connection: &mut Connection| connection.execute_batch("CREATE TABLE note (text)").unwrap();
        let path = interrupted_file(folder.path(), note);
        let files = || [&path, &folder.path().join("dead-journal")].map(|path| std::fs::read(path).unwrap());
        let before = files();
        assert!(matches!(writer(&path), Err(OpenError::Foreign { found: 0 })));
        assert_eq!(files(), before);
    }

    #[test]
    fn a_path_with_special_characters_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ä ?immutable=0#%41.db");
        drop(writer(&path).unwrap());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = connect(Path::new(&immutable_uri(&path)), flags).unwrap();
        assert!(FileHeader::read(&connection).unwrap().is_newest());
    }
}
