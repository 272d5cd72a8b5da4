//! Errors from PostgreSQL, classified: [`ConnectError`] when connecting, `StatementError` for statements.

use std::error::Error as _;
use std::time::Duration;

use countersign::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::config::Target;

/// Failure of a statement.
#[derive(Debug)]
pub(super) enum StatementError {
    /// Error from the driver, often with the server's message.
    Driver(Error),
    /// No answer within this time. The connection has been closed.
    NoAnswer(Duration),
}

impl From<Error> for StatementError {
    fn from(error: Error) -> StatementError {
        StatementError::Driver(error)
    }
}

impl StatementError {
    /// Returns true if the connection can no longer be used.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            StatementError::Driver(error) => is_lost(error),
            StatementError::NoAnswer(_) => true,
        }
    }

    /// Returns true if the statement conflicted with a concurrent transaction, so that a retry may succeed.
    pub(super) fn is_collision(&self) -> bool {
        matches!(self, StatementError::Driver(error) if is_collision(error))
    }

    /// Returns true if the server itself rejected the statement.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, StatementError::Driver(error) if error.code().is_some() && !is_lost(error))
    }

    /// Returns the server's message, or the message of the innermost cause if the server sent none.
    pub(super) fn message(&self) -> String {
        match self {
            StatementError::Driver(error) => message(error),
            StatementError::NoAnswer(limit) => format!("no answer within {} s", limit.as_secs()),
        }
    }

    /// Converts this error for the caller of a command. Must only be used if nothing was written.
    pub(super) fn store_error(&self) -> StoreError {
        match self {
            StatementError::Driver(error) => store_error(error),
            StatementError::NoAnswer(_) => StoreError::Unavailable(self.message()),
        }
    }
}

/// Failure to open the store. No message contains the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be used, for the given reason.
    #[error("the PostgreSQL URL is no good: {0}")]
    BadUrl(&'static str),
    /// The connection would send passwords and arguments over a network unencrypted.
    #[error("the connection to `{host}` would be without TLS")]
    Insecure {
        /// Host that is reached over a network.
        host: String,
    },
    /// The server cannot be reached, or accepts no more connections.
    #[error("PostgreSQL at `{address}` cannot be reached: {reason}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// Error message of the network or the server.
        reason: String,
    },
    /// The password is wrong, the role does not exist, or the role is not allowed to connect from this machine.
    #[error("PostgreSQL does not let role `{role}` in: {reason}")]
    AuthenticationFailed {
        /// Role used to connect.
        role: String,
        /// Error message of the server.
        reason: String,
    },
    /// The database with this name does not exist.
    #[error("there is no database `{0}`")]
    NoDatabase(String),
    /// The server has no TLS or an untrusted certificate, or the CA file cannot be used; with the reason.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The role lacks a privilege.
    #[error("role `{role}` lacks rights: {reason}")]
    InsufficientPrivilege {
        /// Role used to connect.
        role: String,
        /// Error message of the server.
        reason: String,
    },
    /// The database was migrated by a newer version.
    #[error("the database has schema {found}, and this version knows only {known}")]
    NewerSchema {
        /// Last migration applied to the database.
        found: i32,
        /// Last migration this version knows.
        known: i32,
    },
    /// The database lacks migrations, and the options forbid applying them.
    #[error("the database has schema {found}, and this version needs {known}")]
    OlderSchema {
        /// Last migration applied to the database; 0 if there is none.
        found: i32,
        /// Last migration this version knows.
        known: i32,
    },
    /// A migration that was applied, with this name, differs from the one this version knows.
    #[error("step `{0}` of the schema is not the one that was applied")]
    ChangedMigration(String),
    /// Another node has held the migration lock for too long.
    #[error("another node has been migrating the database for too long")]
    Migrating,
    /// The server has this version, which is older than PostgreSQL 13.
    #[error("PostgreSQL {0} is too old")]
    OldServer(String),
    /// Any other failure, with the server's message.
    #[error("PostgreSQL failed: {0}")]
    Other(String),
}

impl ConnectError {
    /// Returns advice on how to fix the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            ConnectError::BadUrl(_) => "write it as postgresql://role:password@host:5432/database",
            ConnectError::Insecure { .. } => {
                "add sslmode=verify-full to the URL, and sslrootcert=FILE when the authority is your own"
            }
            ConnectError::Unreachable { .. } => "check that the server runs, and its host and port",
            ConnectError::AuthenticationFailed { .. } => {
                "check the role, its password, and pg_hba.conf on the server"
            }
            ConnectError::NoDatabase(_) => "create it with `createdb`, or correct the URL",
            ConnectError::Tls(_) => {
                "check that the server has `ssl = on`, that its certificate names this host, and sslrootcert"
            }
            ConnectError::InsufficientPrivilege { .. } => "see docs/postgres.md for what each role needs",
            ConnectError::NewerSchema { .. } => "run the newer version of Countersign",
            ConnectError::OlderSchema { .. } => "migrate it first, as the role that owns the tables",
            ConnectError::ChangedMigration(_) => {
                "this database was not made by a released version: restore or recreate it"
            }
            ConnectError::Migrating => {
                "wait for it and start again; `SELECT * FROM pg_locks WHERE locktype = 'advisory'` shows which connection it is"
            }
            ConnectError::OldServer(_) => "use PostgreSQL 13 or newer",
            ConnectError::Other(_) => "see the log of the server",
        }
    }

    /// Classifies the failure of a statement while connecting.
    pub(super) fn from_statement(error: &StatementError, target: &Target) -> ConnectError {
        match error {
            StatementError::Driver(error) => ConnectError::from_driver(error, target),
            StatementError::NoAnswer(_) => ConnectError::Unreachable {
                address: target.address(),
                reason: error.message(),
            },
        }
    }

    /// Classifies an error from the driver while connecting.
    fn from_driver(error: &Error, target: &Target) -> ConnectError {
        let reason = message(error);
        let Some(code) = error.code() else {
            return match is_tls(error) {
                true => ConnectError::Tls(reason),
                false => ConnectError::Unreachable {
                    address: target.address(),
                    reason,
                },
            };
        };
        let role = target.role();
        if *code == SqlState::INVALID_CATALOG_NAME {
            ConnectError::NoDatabase(target.database())
        } else if *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        {
            ConnectError::AuthenticationFailed { role, reason }
        } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            ConnectError::InsufficientPrivilege { role, reason }
        } else if is_lost(error) || *code == SqlState::TOO_MANY_CONNECTIONS {
            let address = target.address();
            ConnectError::Unreachable { address, reason }
        } else {
            ConnectError::Other(reason)
        }
    }
}

/// Returns true if the failure came from TLS and not from the network.
fn is_tls(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let rustls_inside = inner
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .is_some_and(|inner| inner.is::<rustls::Error>());
        if inner.is::<rustls::Error>() || rustls_inside {
            return true;
        }
        cause = inner.source();
    }
    error.to_string().contains("TLS")
}

/// Returns the server's message, or the message of the innermost cause if the server sent none.
fn message(error: &Error) -> String {
    if let Some(database) = error.as_db_error() {
        return database.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// Returns true if the connection can no longer be used.
fn is_lost(error: &Error) -> bool {
    match error.code() {
        // A parameter of the wrong type is a bug in this program, not a failure of the connection: nothing was sent.
        None => {
            error.is_closed()
                || error.source().is_some_and(|cause| cause.is::<std::io::Error>())
                || is_protocol_error(error)
        }
        Some(code) => {
            code.code().starts_with("08")
                || [
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    // A primary that became a standby: another connection may find the new primary.
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                ]
                .contains(code)
        }
    }
}

/// Returns true for an answer that breaks the protocol, which leaves the connection in an unknown state.
fn is_protocol_error(error: &Error) -> bool {
    error.to_string().starts_with("unexpected message") || error.to_string().starts_with("error parsing")
}

/// Returns true for a deadlock, a serialization failure, a duplicate key, or a row whose version has changed (which
/// `save.rs` turns into a division by zero).
fn is_collision(error: &Error) -> bool {
    let codes = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::DIVISION_BY_ZERO,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Converts an error from the driver for the caller of a command. Must only be used if nothing was written.
fn store_error(error: &Error) -> StoreError {
    let reason = message(error);
    if is_lost(error) {
        return StoreError::Unavailable(reason);
    }
    let Some(code) = error.code() else {
        return StoreError::Impossible(reason);
    };
    let busy = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    if busy.contains(code) {
        StoreError::Busy(reason)
    } else if *code == SqlState::DISK_FULL {
        StoreError::Full(reason)
    } else if *code == SqlState::UNIQUE_VIOLATION {
        StoreError::Impossible(format!("something is there twice: {reason}"))
    } else if *code == SqlState::DIVISION_BY_ZERO {
        // The version check in `save.rs` failed.
        StoreError::Impossible("a row changed while it was locked".to_owned())
    } else if code.code().starts_with("53") || *code == SqlState::INSUFFICIENT_PRIVILEGE {
        StoreError::Unavailable(reason)
    } else {
        StoreError::Impossible(reason)
    }
}
