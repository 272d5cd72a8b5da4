//! A world: its data in one SQLite file, and the executor that changes the data.
//!
//! Input: permits. Output: outcomes. Each change is atomic, and happens once per call id. The tools themselves are in
//! each world's folder; the policy says who may approve their calls.

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

/// How long to wait for another process that writes to the same file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Definition of a world.
pub struct Setup {
    /// Name: `crm`, `cms` or `ranch`.
    pub name: &'static str,
    /// Tools offered to a model: a JSON array of `name`, `description` and `input_schema`.
    pub definitions: &'static str,
    /// Policy of these tools and of the tools that undo them, as TOML.
    pub policy: &'static str,
    /// The agent for this world: an `agent.toml`.
    pub agent: &'static str,
    /// Script of that agent for use without a model: a `script.toml`.
    pub script: &'static str,
    /// SQLite `application_id` of the world's files.
    pub(crate) mark: i32,
    pub(crate) schema: &'static str,
    pub(crate) seed: &'static str,
    pub(crate) tools: &'static [(&'static str, Act)],
}

impl Setup {
    /// Returns the names of all tools, including undo tools.
    pub fn tools(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|(name, _)| *name)
    }

    fn act(&self, tool: &str) -> Option<Act> {
        let mut tools = self.tools.iter();
        tools.find(|(name, _)| *name == tool).map(|(_, act)| *act)
    }
}

/// Reason why a world cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file belongs to another program or world than this one, and was not changed.
    #[error("this file is not a `{0}` world\nhint: name another file; one that is not there is made")]
    Foreign(&'static str),
    /// SQLite failed with this message.
    #[error("the file cannot be used: {0}")]
    Failed(String),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::Failed(error.to_string())
    }
}

/// Error: the world's data cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the world cannot be read: {0}")]
pub struct Closed(String);

/// A world. Clones share its data.
#[derive(Clone)]
pub struct World {
    setup: &'static Setup,
    connection: Arc<Mutex<Connection>>,
}

/// One call to run, taken from its permit.
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
    /// Opens the world in this file. A missing file is created with sample data.
    pub fn open(setup: &'static Setup, path: impl AsRef<Path>) -> Result<World, OpenError> {
        make_private(path.as_ref());
        World::over(setup, Connection::open(path)?)
    }

    /// Creates a world in memory, which is dropped with its last clone.
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

    /// Returns the world's definition.
    pub fn setup(&self) -> &'static Setup {
        self.setup
    }

    /// Returns the tools offered to a model, as JSON.
    pub fn definitions(&self) -> &'static str {
        self.setup.definitions
    }

    /// Returns the policy, as TOML.
    pub fn policy(&self) -> &'static str {
        self.setup.policy
    }

    /// Returns a hash of all data. Equal hashes mean equal data; the record of calls that ran is not included.
    pub fn hash(&self) -> Result<Hash, Closed> {
        contents(&self.lock())
            .map(|bytes| Hash::of(&bytes))
            .map_err(|error| Closed(error.to_string()))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic drops its transaction, which is rolled back, so the connection stays usable.
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
        // The transaction is dropped and so rolled back: a read cannot change anything.
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
            // The outcome of the request is known and stands, even if recording it fails.
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

/// Runs a write and records its outcome, or returns the outcome recorded before.
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
        // Rolls back the changes of a tool that failed half-way.
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

/// Serializes all tables, each value with its length, in an order that is independent of the history.
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

/// Creates the file with mode 0600, whatever the umask; SQLite gives its journal the same mode. A failure is reported
/// when SQLite opens the file.
fn make_private(path: &Path) {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    if made.is_err() {
        // An existing file may have been created by an earlier version.
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    }
}
