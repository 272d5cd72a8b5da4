//! What can go wrong with PostgreSQL, in our words: once when connecting, and once for every statement.

use std::error::Error as _;

use countersign::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::config::Target;

/// Why there is no store. No message holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL makes no sense.
    #[error("the PostgreSQL URL is no good: {0}")]
    BadUrl(&'static str),
    /// Passwords and arguments would cross a network in the open.
    #[error("the connection to `{host}` would be without TLS")]
    Insecure {
        /// The host that is not this machine.
        host: String,
    },
    /// Nobody answers.
    #[error("PostgreSQL at `{place}` cannot be reached: {why}")]
    Unreachable {
        /// Host and port.
        place: String,
        /// What the network said.
        why: String,
    },
    /// Wrong password, no such role, or this role may not connect from here.
    #[error("PostgreSQL does not let role `{role}` in: {why}")]
    NotLetIn {
        /// The role.
        role: String,
        /// What the server said.
        why: String,
    },
    /// There is no such database.
    #[error("there is no database `{0}`")]
    NoDatabase(String),
    /// The server has no TLS, or a certificate we do not trust.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The role may not do what is needed.
    #[error("role `{role}` lacks rights: {why}")]
    NoRights {
        /// The role.
        role: String,
        /// What the server said.
        why: String,
    },
    /// The database was migrated by a newer version.
    #[error("the database has schema {found}, and this version knows only {known}")]
    NewerSchema {
        /// The last step applied there.
        found: i32,
        /// The last step we know.
        known: i32,
    },
    /// The database was not migrated yet, and this store was told not to do it.
    #[error("the database has schema {found}, and this version needs {known}")]
    OlderSchema {
        /// The last step applied there; 0 when there is none.
        found: i32,
        /// The last step we know.
        known: i32,
    },
    /// A step that was applied is not the one we know.
    #[error("step `{0}` of the schema is not the one that was applied")]
    ChangedStep(String),
    /// The server is too old.
    #[error("PostgreSQL {0} is too old")]
    OldServer(String),
    /// Something else.
    #[error("PostgreSQL failed: {0}")]
    Other(String),
}

impl ConnectError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            ConnectError::BadUrl(_) => "write it as postgresql://role:password@host:5432/database",
            ConnectError::Insecure { .. } => {
                "add sslmode=verify-full to the URL, and sslrootcert=FILE when the authority is your own"
            }
            ConnectError::Unreachable { .. } => "check that the server runs, and its host and port",
            ConnectError::NotLetIn { .. } => "check the role, its password, and pg_hba.conf on the server",
            ConnectError::NoDatabase(_) => "create it with `createdb`, or correct the URL",
            ConnectError::Tls(_) => {
                "check that the server has `ssl = on`, that its certificate names this host, and sslrootcert"
            }
            ConnectError::NoRights { .. } => "see docs/postgres.md for what each role needs",
            ConnectError::NewerSchema { .. } => "run the newer version of Countersign",
            ConnectError::OlderSchema { .. } => "migrate it first, as the role that owns the tables",
            ConnectError::ChangedStep(_) => {
                "this database was not made by a released version: restore or recreate it"
            }
            ConnectError::OldServer(_) => "use PostgreSQL 13 or newer",
            ConnectError::Other(_) => "see the log of the server",
        }
    }

    /// Sorts what the driver said.
    pub(super) fn from_driver(error: &Error, target: &Target) -> ConnectError {
        let why = words(error);
        let Some(code) = error.code() else {
            return match is_tls(error) {
                true => ConnectError::Tls(why),
                false => ConnectError::Unreachable {
                    place: target.place(),
                    why,
                },
            };
        };
        let role = target.role();
        if *code == SqlState::INVALID_CATALOG_NAME {
            ConnectError::NoDatabase(target.database())
        } else if *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        {
            ConnectError::NotLetIn { role, why }
        } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            ConnectError::NoRights { role, why }
        } else if is_lost(error) || *code == SqlState::TOO_MANY_CONNECTIONS {
            let place = target.place();
            ConnectError::Unreachable { place, why }
        } else {
            ConnectError::Other(why)
        }
    }
}

/// True when the failure lies in the encryption, not in the network.
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

/// The message of the server, or of the innermost cause.
pub(super) fn words(error: &Error) -> String {
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

/// True when the connection is of no more use.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.code() {
        // A value that does not fit is a bug of ours, not of the connection; nothing was sent.
        None => {
            error.is_closed()
                || error.source().is_some_and(|cause| cause.is::<std::io::Error>())
                || is_unclear(error)
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

/// An answer that makes no sense leaves the connection in an unknown state.
fn is_unclear(error: &Error) -> bool {
    error.to_string().starts_with("unexpected message") || error.to_string().starts_with("error parsing")
}

/// True when another transaction was in the way, or something that should not happen twice did.
pub(super) fn is_collision(error: &Error) -> bool {
    let collisions = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::DIVISION_BY_ZERO,
    ];
    error.code().is_some_and(|code| collisions.contains(code))
}

/// What a statement's failure means to the caller, when nothing was written.
pub(super) fn store_error(error: &Error) -> StoreError {
    let why = words(error);
    if is_lost(error) {
        return StoreError::Unavailable(why);
    }
    let Some(code) = error.code() else {
        return StoreError::Impossible(why);
    };
    let busy = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    if busy.contains(code) {
        StoreError::Busy(why)
    } else if *code == SqlState::DISK_FULL {
        StoreError::Full(why)
    } else if *code == SqlState::UNIQUE_VIOLATION {
        StoreError::Impossible(format!("something is there twice: {why}"))
    } else if *code == SqlState::DIVISION_BY_ZERO {
        // See `save.rs`.
        StoreError::Impossible("a row changed while it was locked".to_owned())
    } else if code.code().starts_with("53") || *code == SqlState::INSUFFICIENT_PRIVILEGE {
        StoreError::Unavailable(why)
    } else {
        StoreError::Impossible(why)
    }
}
