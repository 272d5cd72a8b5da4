//! Classification of SQLite errors.
//!
//! Input: an error of the database. Output: the error for the caller, and whether the writer may continue.
//! Nothing is retried here. The error shows the caller whether a retry makes sense.

use countersign::store::StoreError;
use countersign::store::record::BadRecord;
use rusqlite::{Error, ErrorCode, ffi};

/// Failure inside a transaction, classified by its consequence for the other commands in it and for the store.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The transaction cannot be written now; the store continues.
    Transaction(StoreError),
    /// The file or its disk is broken, for this reason: the store must not write anything any more.
    Broken(String),
    /// One command failed. The other commands of its transaction can run without it.
    Command(StoreError),
}

impl Fault {
    /// Classifies an error of a statement that writes, or that begins or ends a transaction.
    pub(super) fn of(error: &Error) -> Fault {
        let text = error.to_string();
        match (error.sqlite_error_code(), extended_code(error)) {
            (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
                Fault::Transaction(StoreError::Busy(text))
            }
            // The WAL index (`-shm`) could not grow: nothing was written or synced.
            (_, ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP | ffi::SQLITE_IOERR_SHMOPEN) => {
                Fault::Transaction(StoreError::Full(text))
            }
            (Some(ErrorCode::DiskFull), _) => Fault::Transaction(StoreError::Full(text)),
            (Some(ErrorCode::OutOfMemory | ErrorCode::ReadOnly | ErrorCode::CannotOpen), _) => {
                Fault::Transaction(StoreError::Unavailable(text))
            }
            // After a failed fsync the kernel may have dropped the dirty pages and report the next fsync as a success.
            (Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => {
                Fault::Broken(text)
            }
            _ => Fault::Command(StoreError::Impossible(text)),
        }
    }
}

/// Classifies a failed read. Reads change nothing, so the error goes only to the caller and does not stop the writer.
pub(super) fn read_error(error: &Error) -> StoreError {
    match Fault::of(error) {
        Fault::Transaction(error) => error,
        Fault::Broken(text) => StoreError::Unavailable(text),
        Fault::Command(error) => error,
    }
}

/// Returns the error for a row that no version of this program can have written.
pub(super) fn damaged(what: impl std::fmt::Display) -> StoreError {
    StoreError::Impossible(format!("the store holds something impossible: {what}"))
}

pub(super) fn bad_record(error: &BadRecord) -> StoreError {
    damaged(error)
}

fn extended_code(error: &Error) -> i32 {
    error.sqlite_error().map_or(0, |error| error.extended_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: i32, expected: &str) {
        let fault = Fault::of(&Error::SqliteFailure(ffi::Error::new(code), None));
        let found = match fault {
            Fault::Transaction(StoreError::Busy(_)) => "busy",
            Fault::Transaction(StoreError::Full(_)) => "full",
            Fault::Transaction(_) => "unavailable",
            Fault::Broken(_) => "broken",
            Fault::Command(_) => "command",
        };
        assert_eq!(found, expected, "code {code}");
    }

    #[test]
    fn f06_f07_f08_errors_are_sorted() {
        check(ffi::SQLITE_BUSY, "busy");
        check(ffi::SQLITE_BUSY_SNAPSHOT, "busy");
        check(ffi::SQLITE_FULL, "full");
        check(ffi::SQLITE_IOERR_SHMSIZE, "full");
        check(ffi::SQLITE_READONLY, "unavailable");
        check(ffi::SQLITE_IOERR_FSYNC, "broken");
        check(ffi::SQLITE_IOERR_WRITE, "broken");
        check(ffi::SQLITE_IOERR_READ, "broken");
        check(ffi::SQLITE_CORRUPT, "broken");
        check(ffi::SQLITE_CONSTRAINT_UNIQUE, "command");
    }
}
