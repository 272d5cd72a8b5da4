//! Opening a file: whether it is ours to use, and how connections to it are set.
//!
//! Enters: a path. Leaves: connections, or a sentence that says why not and what to do.
//! Deliberately absent: any write into a file that is not ours, and any second way to open one. The file is never
//! opened past SQLite: closing such a handle would drop the locks of all connections in this process.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::schema::{self, Label};

/// Earlier versions can damage a file when its log starts over.
pub(super) const OLDEST_LIBRARY: i32 = 3_051_003;

/// Between two tries to open a file that others are making.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Just under the five seconds after which callers must have their answer.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(4500);

/// Why a file was not opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is not there.
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    /// The file cannot be made, opened or read.
    #[error("`{}` cannot be opened: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file, or its folder, cannot be written.
    #[error("`{}` can be read but not written", .0.display())]
    ReadOnly(PathBuf),
    /// It is something else than a database.
    #[error("the file is not an SQLite database, or it is damaged: {0}")]
    NotADatabase(String),
    /// A database of another program.
    #[error("the database belongs to another program (application id {found:#x})")]
    Foreign {
        /// The application id it carries.
        found: i64,
    },
    /// Written by a newer version.
    #[error("the database has schema {found}, and this version knows only {known}")]
    Newer {
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A step that was applied to the file is not the step of this version.
    #[error("schema step {version} in the database is not the one this version knows")]
    ChangedStep {
        /// Which step.
        version: i64,
    },
    /// The SQLite library is too old to be trusted with a log.
    #[error("the SQLite library is version {0}; 3.51.3 or newer is needed")]
    OldLibrary(String),
    /// The file system does not let SQLite keep its log.
    #[error("the database cannot keep a write-ahead log here (it stays in mode `{0}`)")]
    NoLog(String),
    /// Another process holds the file.
    #[error("the database is locked by another process: {0}")]
    Busy(String),
    /// Anything else.
    #[error("the database cannot be used: {0}")]
    Failed(String),
}

impl OpenError {
    /// What to do now.
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
            OpenError::ChangedStep { .. } => "keep a copy, and use the version that made this file",
            OpenError::OldLibrary(_) => "build with the bundled SQLite library",
            OpenError::NoLog(_) => "put the file on a local disk",
            OpenError::Busy(_) => "end the other process, or try again in a moment",
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

/// Opens the connection that writes. The file is made when it is not there, and brought to the newest schema.
///
/// Where several processes make one file at once, SQLite turns some of them away without waiting: they try again.
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    check_library(rusqlite::version_number(), rusqlite::version())?;
    make_file(path)?;
    let begun = Instant::now();
    loop {
        match try_writer(path) {
            Err(OpenError::Busy(_)) if begun.elapsed() < BUSY_TIMEOUT => std::thread::sleep(TRY_AGAIN),
            opened => return opened,
        }
    }
}

fn try_writer(path: &Path) -> Result<Connection, OpenError> {
    label(path)?.check()?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(OpenError::ReadOnly(path.to_owned()));
    }
    set(&connection)?;
    schema::migrate(&mut connection)?;
    keep_log(&connection).map_err(|error| match error {
        OpenError::Failed(_) => OpenError::ReadOnly(path.to_owned()),
        error => error,
    })?;
    Ok(connection)
}

/// Looks at a file through a connection that cannot write: a foreign one stays as it is, to the last byte.
fn label(path: &Path) -> Result<Label, OpenError> {
    match Label::read(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?) {
        Ok(label) => Ok(label),
        // Somebody died while writing the file, before it kept a log: a step that was cut off. Who only reads cannot
        // take it back, and what is half written cannot be queried. Its first bytes say whose it is; when it is ours,
        // who writes takes it back.
        Err(error) if is_cut_off(&error) => header(path),
        Err(error) => Err(error.into()),
    }
}

fn header(path: &Path) -> Result<Label, OpenError> {
    let unreadable = |error: io::Error| OpenError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut bytes = Vec::with_capacity(Label::HEADER);
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut start = io::Read::take(file, Label::HEADER as u64);
    io::Read::read_to_end(&mut start, &mut bytes).map_err(unreadable)?;
    Label::from_header(&bytes).ok_or_else(|| OpenError::NotADatabase("it does not begin like one".to_owned()))
}

fn is_cut_off(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// The URI of the file as it is, whatever its journal says.
fn past_journal(path: &Path) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    let path: String = path.as_os_str().as_encoded_bytes().iter().map(encode).collect();
    format!("file:{path}?immutable=1")
}

/// Opens a connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Opens a connection that moves the log into the file and does nothing else. The file and its log must be there.
pub(super) fn mover(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set(&connection)?;
    // Not even at its end: that is the writer's, who knows whether a sync has failed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Opens a connection to a file that nobody writes, without a trace beside it.
pub(super) fn still(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    connect(Path::new(&past_journal(path)), flags)
}

/// INVARIANT: no file is used with a library that can damage it.
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
    // Else SQLite looks at what is bound to a LIMIT, and makes its plan anew for each execution.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Arguments may be secret, so a new file is its owner's alone. SQLite gives its log the same mode.
fn make_file(path: &Path) -> Result<(), OpenError> {
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

fn set(connection: &Connection) -> Result<(), OpenError> {
    connection.set_prepared_statement_cache_capacity(64);
    // INVARIANT: what was answered survives a power cut. NORMAL would lose it.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A usual group of changes, and the ends of the indexes. No more: at each commit SQLite goes through all that is kept here.
    connection.pragma_update(None, "cache_size", -8_000)?;
    // A credential that is erased is overwritten too.
    connection.pragma_update(None, "secure_delete", "ON")?;
    // There are no foreign keys; the library keeps rows together.
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    // The writer moves the log into the file itself, after it has answered: see `writer`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // After a burst the log shrinks back to this.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    Ok(())
}

/// The label is written before this, so it is in the file itself and never only in the log.
fn keep_log(connection: &Connection) -> Result<(), OpenError> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    match mode.as_str() {
        "wal" => Ok(()),
        _ => Err(OpenError::NoLog(mode)),
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
    fn m7_the_writer_syncs_every_commit_and_keeps_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let connection = writer(&folder.path().join("store.db")).unwrap();
        let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("PRAGMA synchronous"), 2);
        assert_eq!(ask("PRAGMA secure_delete"), 1);
        let mode: String = connection
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
    }

    /// A file as it is when somebody dies while writing it without a log, and what was written before.
    fn cut_off(folder: &Path, prepare: impl Fn(&mut Connection)) -> PathBuf {
        let (living, dead) = (folder.join("living"), folder.join("dead"));
        let mut connection = Connection::open(&living).unwrap();
        prepare(&mut connection);
        connection
            .execute_batch(
                // More than fits into memory, so that some of it is in the file.
                "PRAGMA cache_size = 2; BEGIN; CREATE TABLE half (made); INSERT INTO half VALUES (zeroblob(1000000))",
            )
            .unwrap();
        std::fs::copy(folder.join("living-journal"), folder.join("dead-journal")).unwrap();
        std::fs::copy(living, &dead).unwrap();
        dead
    }

    #[test]
    fn k14_a_file_whose_making_was_cut_off_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = cut_off(folder.path(), |connection| schema::migrate(connection).unwrap());
        let looking = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert!(is_cut_off(&Label::read(&looking).unwrap_err()), "the control");
        writer(&path).unwrap();
    }

    #[test]
    fn f08_another_programs_file_that_was_cut_off_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let note =
            |connection: &mut Connection| connection.execute_batch("CREATE TABLE note (text)").unwrap();
        let path = cut_off(folder.path(), note);
        let files = || [&path, &folder.path().join("dead-journal")].map(|path| std::fs::read(path).unwrap());
        let before = files();
        assert!(matches!(writer(&path), Err(OpenError::Foreign { found: 0 })));
        assert_eq!(files(), before);
    }

    #[test]
    fn a_path_with_any_letters_can_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ä ?immutable=0#%41.db");
        drop(writer(&path).unwrap());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = connect(Path::new(&past_journal(&path)), flags).unwrap();
        assert!(Label::read(&connection).unwrap().is_newest());
    }
}
