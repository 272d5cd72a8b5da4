//! A world: its data in one SQLite file, and the executor that changes it.
//!
//! Enters: permits. Leaves: outcomes. A change happens whole or not at all, and once for each call id.
//! Deliberately absent: what the tools do (each world's folder), and who may call them (its policy).

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign::executor::{Executor, Outcome, Permit};
use countersign::hash::Hash;
use countersign::id::{CallId, Tenant, ToolName};
use futures_util::future::BoxFuture;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::once::{self, Entry};
use crate::tool::{Act, Fault};

/// How long one process waits for another that writes to the same file.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a world is made of.
pub struct Setup {
    /// What people call it: `crm`, `cms` or `ranch`.
    pub name: &'static str,
    /// The tools a model is offered: a JSON array of `name`, `description` and `input_schema`.
    pub definitions: &'static str,
    /// Which of them are held, and the tools that take them back.
    pub policy: &'static str,
    /// Who talks to people about it: an `agent.toml`.
    pub agent: &'static str,
    /// What that agent says and does where there is no real model: a `script.toml`.
    pub script: &'static str,
    /// Marks its files.
    pub(crate) mark: i32,
    pub(crate) schema: &'static str,
    pub(crate) seed: &'static str,
    pub(crate) tools: &'static [(&'static str, Act)],
}

impl Setup {
    /// The names of all tools it runs.
    pub fn tools(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|(name, _)| *name)
    }

    fn act(&self, tool: &str) -> Option<Act> {
        let mut tools = self.tools.iter();
        tools.find(|(name, _)| *name == tool).map(|(_, act)| *act)
    }
}

/// Why a world does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else's file is left alone.
    #[error("this file is not a `{0}` world\nhint: name another file; one that is not there is made")]
    Foreign(&'static str),
    /// The file failed.
    #[error("the file cannot be used: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::Failed(error.to_string())
    }
}

/// The world could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the world cannot be read: {0}")]
pub struct Closed(String);

/// A world. Clones share its data.
#[derive(Clone)]
pub struct World {
    setup: &'static Setup,
    connection: Arc<Mutex<Connection>>,
}

/// One call to be run, taken from its permit.
pub(crate) struct Job {
    pub(crate) tenant: Tenant,
    pub(crate) call: Option<CallId>,
    pub(crate) tool: String,
    pub(crate) arguments: Vec<u8>,
}

impl From<&Permit> for Job {
    fn from(permit: &Permit) -> Job {
        Job {
            tenant: permit.tenant().clone(),
            call: permit.call(),
            tool: permit.tool().to_string(),
            arguments: permit.arguments().as_bytes().to_vec(),
        }
    }
}

impl Job {
    fn entry(&self) -> Option<Entry> {
        self.call.map(|id| Entry {
            tenant: self.tenant.clone(),
            id,
            tool: self.tool.clone(),
            arguments: Hash::of(&self.arguments),
        })
    }
}

impl World {
    /// Opens the world in this file. A file that is not there is made, with things in it to talk about.
    pub fn open(setup: &'static Setup, path: impl AsRef<Path>) -> Result<World, OpenError> {
        make_private(path.as_ref());
        World::over(setup, Connection::open(path)?)
    }

    /// A world that is gone with its last clone.
    pub fn in_memory(setup: &'static Setup) -> Result<World, OpenError> {
        World::over(setup, Connection::open_in_memory()?)
    }

    fn over(setup: &'static Setup, mut connection: Connection) -> Result<World, OpenError> {
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let making = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mark: i32 = making.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 = making.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        match (mark, tables) {
            (0, 0) => {
                making.pragma_update(None, "application_id", setup.mark)?;
                making.execute_batch(once::TABLE)?;
                making.execute_batch(setup.schema)?;
                making.execute_batch(setup.seed)?;
            }
            (mark, _) if mark == setup.mark => {}
            _ => return Err(OpenError::Foreign(setup.name)),
        }
        making.commit()?;
        Ok(World {
            setup,
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    /// What it is made of.
    pub fn setup(&self) -> &'static Setup {
        self.setup
    }

    /// The tools a model is offered, as JSON.
    pub fn definitions(&self) -> &'static str {
        self.setup.definitions
    }

    /// Its policy, as TOML.
    pub fn policy(&self) -> &'static str {
        self.setup.policy
    }

    /// The hash of everything in it. Two worlds with the same hash hold the same; which calls ran is not part of it.
    pub fn hash(&self) -> Result<Hash, Closed> {
        contents(&self.lock())
            .map(|bytes| Hash::of(&bytes))
            .map_err(|error| Closed(error.to_string()))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // Whoever panicked left a transaction behind, and that was rolled back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn perform(self, job: Job) -> Outcome {
        match self.setup.act(&job.tool) {
            None => Outcome::failed(format!("there is no tool `{}` here", job.tool)),
            Some(Act::Read(read)) => self.blocking(move |world| world.look(&job, read)).await,
            Some(Act::Write(write)) => self.blocking(move |world| world.change(&job, write)).await,
            Some(Act::Send(send)) => self.send(job, send).await,
        }
    }

    async fn blocking(self, work: impl FnOnce(&World) -> Outcome + Send + 'static) -> Outcome {
        let done = tokio::task::spawn_blocking(move || work(&self)).await;
        done.unwrap_or_else(|error| Outcome::Unknown(error.to_string()))
    }

    fn look(&self, job: &Job, read: fn(&Connection, &[u8]) -> crate::tool::Done) -> Outcome {
        let mut connection = self.lock();
        // Dropped at the end, and so rolled back: a read cannot change anything.
        match connection.transaction() {
            Ok(looking) => outcome(read(&looking, &job.arguments)),
            Err(error) => outcome(Err(error.into())),
        }
    }

    fn change(&self, job: &Job, write: fn(&Connection, &[u8]) -> crate::tool::Done) -> Outcome {
        let mut connection = self.lock();
        let entry = job.entry();
        let mut changing = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(changing) => changing,
            Err(error) => return outcome(Err(error.into())),
        };
        match change(&mut changing, job, entry.as_ref(), write) {
            Err(error) => outcome(Err(error.into())),
            Ok(done) => match changing.commit() {
                Ok(()) => done,
                Err(error) => Outcome::Unknown(format!("the change may not have been saved: {error}")),
            },
        }
    }

    async fn send(
        self,
        job: Job,
        send: fn(Option<CallId>, Vec<u8>) -> BoxFuture<'static, Outcome>,
    ) -> Outcome {
        let (call, entry) = (job.call, job.entry());
        if let Some(entry) = entry.clone() {
            let world = self.clone();
            let begun = tokio::task::spawn_blocking(move || world.begin(&entry)).await;
            match begun {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(earlier))) => return earlier,
                Ok(Err(error)) => return outcome(Err(error.into())),
                Err(error) => return Outcome::failed(error.to_string()),
            }
        }
        let done = send(call, job.arguments).await;
        let Some(entry) = entry else { return done };
        self.blocking(move |world| {
            // It was sent, and how that went is known: that stands, whatever becomes of the note.
            let _ = once::end(&world.lock(), &entry, &done);
            done
        })
        .await
    }

    fn begin(&self, entry: &Entry) -> rusqlite::Result<Option<Outcome>> {
        let mut connection = self.lock();
        let beginning = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let earlier = once::earlier(&beginning, entry)?;
        if earlier.is_none() {
            once::begin(&beginning, entry)?;
        }
        beginning.commit()?;
        Ok(earlier)
    }
}

impl Executor for World {
    fn runs(&self, tool: &ToolName) -> bool {
        self.setup.act(tool.as_str()).is_some()
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        Box::pin(self.clone().perform(Job::from(&permit)))
    }
}

/// Does what the call asks and notes it, or finds that this was done before.
fn change(
    changing: &mut Transaction<'_>,
    job: &Job,
    entry: Option<&Entry>,
    write: fn(&Connection, &[u8]) -> crate::tool::Done,
) -> rusqlite::Result<Outcome> {
    if let Some(entry) = entry
        && let Some(earlier) = once::earlier(changing, entry)?
    {
        return Ok(earlier);
    }
    let inner = changing.savepoint()?;
    let done = write(&inner, &job.arguments);
    match &done {
        Ok(_) => inner.commit()?,
        // A tool that gives up half-way has done nothing.
        Err(_) => inner.finish()?,
    }
    let done = outcome(done);
    if let Some(entry) = entry {
        once::end(changing, entry, &done)?;
    }
    Ok(done)
}

fn outcome(done: Result<serde_json::Value, Fault>) -> Outcome {
    match done {
        Ok(result) => Outcome::succeeded(result.to_string()),
        Err(fault) => Outcome::failed(fault.to_string()),
    }
}

/// Every value of every table behind its length, in an order that does not depend on how it came about.
fn contents(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('call', 'sqlite_sequence') ORDER BY name";
    let mut names = connection.prepare(sql)?;
    let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut bytes = Vec::new();
    let mut field = |field: &[u8]| {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field);
    };
    for name in names {
        field(name.as_bytes());
        // INVARIANT: the first column of every table here is its key.
        let mut rows = connection.prepare(&format!("SELECT * FROM {name} ORDER BY 1"))?;
        let columns = rows.column_count();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => field(b"null"),
                    ValueRef::Integer(number) => field(format!("i{number}").as_bytes()),
                    ValueRef::Real(number) => field(format!("r{number}").as_bytes()),
                    ValueRef::Text(text) => field(&[b"t", text].concat()),
                    ValueRef::Blob(blob) => field(&[b"b", blob].concat()),
                }
            }
        }
    }
    Ok(bytes)
}

/// Makes the file its owner's alone, whatever the umask says; SQLite gives its journal the same mode. A failure shows
/// when SQLite opens it.
fn make_private(path: &Path) {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    if made.is_err() {
        // One that is there already may have been made by an earlier version.
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    }
}
