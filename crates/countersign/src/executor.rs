//! Executors run tools, and only with a permit.
//!
//! Only the gate can create a [`Permit`]: for a read that passed, or for a call whose start has been recorded. So the
//! type system rules out a run without a permit. The result of a run is an [`Outcome`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Arguments;
use crate::hash::{Fields, Hash};
use crate::id::{BadName, CallId, Key, Tenant, ToolName};
use crate::seal::Secret;
use crate::stopwatch::{Stopwatch, TimeLimit};
use crate::time::Time;

/// Maximum size of a stored result, in bytes.
pub const LARGEST_RESULT: usize = 1024 * 1024;

/// The right to run one call, once. Cannot be cloned, and is consumed by running.
#[derive(Debug)]
pub struct Permit {
    pub(crate) tenant: Tenant,
    pub(crate) tool: ToolName,
    pub(crate) arguments: Arguments,
    pub(crate) secret: Option<Secret>,
    pub(crate) timeout: Duration,
    pub(crate) call: Option<CallId>,
    pub(crate) token: Option<PermitToken>,
    /// Stopwatch that was started before the start was recorded, so it never shows less than the time since the
    /// recorded start.
    pub(crate) since: Stopwatch,
    /// Recorded start and deadline of the call, both by the store's clock; `None` for a read that passed.
    pub(crate) start_and_deadline: Option<(Time, Time)>,
}

impl Permit {
    /// Returns the tenant of the call.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns the name of the tool to run.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Returns the exact argument bytes that were approved or passed.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Parses the arguments as a value of the tool's own type.
    pub fn parse<A: DeserializeOwned>(&self) -> Result<A, serde_json::Error> {
        serde_json::from_slice(self.arguments.as_bytes())
    }

    /// Returns the decrypted credential that was submitted with the call; `None` if there was none.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Returns the maximum time that the gate waits for the outcome.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the time left to send the call; `None` if it is too late. After that time the call counts as lost, and
    /// people may have been told that it did not run. Executors must check this as late as possible and must not send a
    /// late call.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_limit().left()
    }

    /// Returns the limit of [`Permit::time_left`] for code that sends the call after the permit has been consumed.
    pub fn time_limit(&self) -> TimeLimit {
        TimeLimit::new(self.since, self.timeout)
    }

    /// Returns the recorded start and deadline of the call by the store's clock, for tools that reject late requests.
    /// `None` for a read that passed.
    pub fn start_and_deadline(&self) -> Option<(Time, Time)> {
        self.start_and_deadline
    }

    /// Returns the id of the call, which also serves as its idempotency key; `None` for a read that passed.
    pub fn call(&self) -> Option<CallId> {
        self.call
    }

    /// Returns the token that a host must present to finish the call, if the host runs the tool itself; `None` for a
    /// read that passed.
    pub fn token(&self) -> Option<&PermitToken> {
        self.token.as_ref()
    }
}

/// Secret part of a permit. Stores keep only its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct PermitToken(pub(crate) [u8; 32]);

impl PermitToken {
    /// Returns the hash of the token, as stored.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.0)
    }

    /// Returns the token as hexadecimal text, for a host in another process.
    pub fn reveal(&self) -> String {
        Hash(self.0).to_string()
    }

    /// Computes the token of a call from a caller's secret and an idempotency key. The same caller gets the same token
    /// for the same key, so nothing has to be stored to give a permit again; nobody else can compute it.
    pub fn derive(secret: &Secret, tenant: &Tenant, call: CallId, key: &Key) -> PermitToken {
        let token = Fields::new("countersign/permit/1")
            .field(secret.reveal())
            .field(tenant.as_str().as_bytes())
            .field(call.approval.as_bytes())
            .number(call.position.into())
            .field(key.as_str().as_bytes())
            .finish();
        PermitToken(token.0)
    }

    /// Parses the text form of a token; `None` if the text is not a token.
    pub fn read(text: &str) -> Option<PermitToken> {
        Hash::from_hex(text).map(|hash| PermitToken(hash.0))
    }
}

impl std::fmt::Debug for PermitToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermitToken(hidden)")
    }
}

/// Result of running a call. Exhaustive, because code that confuses two outcomes could run a call twice.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tool succeeded, with this result.
    Succeeded(Arc<[u8]>),
    /// The tool failed, with this message.
    Failed(Arc<[u8]>),
    /// The call was not sent to the tool, for this reason, so nothing ran.
    NotSent(String),
    /// The outcome is unknown, for this reason.
    Unknown(String),
}

/// Prints no results, because they may be confidential.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Succeeded(result) => write!(f, "Succeeded({} bytes)", result.len()),
            Outcome::Failed(result) => write!(f, "Failed({} bytes)", result.len()),
            Outcome::NotSent(reason) => write!(f, "NotSent({reason})"),
            Outcome::Unknown(reason) => write!(f, "Unknown({reason})"),
        }
    }
}

impl Outcome {
    /// Builds a success with this result.
    pub fn succeeded(result: impl AsRef<[u8]>) -> Outcome {
        Outcome::Succeeded(Arc::from(result.as_ref()))
    }

    /// Builds a success with this result, serialised as JSON. If serialising fails, the outcome is still a success; its
    /// result is an object with the error message as `omitted`.
    pub fn json(result: &impl Serialize) -> Outcome {
        match serde_json::to_vec(result) {
            Ok(result) => Outcome::Succeeded(Arc::from(result)),
            // The tool has succeeded nevertheless.
            Err(error) => Outcome::json(&serde_json::json!({ "omitted": error.to_string() })),
        }
    }

    /// Builds a failure with this message.
    pub fn failed(reason: impl AsRef<[u8]>) -> Outcome {
        Outcome::Failed(Arc::from(reason.as_ref()))
    }

    /// Replaces an oversized result with its size and hash, keeping the outcome.
    pub(crate) fn bounded(self) -> Outcome {
        match &self {
            Outcome::Succeeded(result) | Outcome::Failed(result) if result.len() > LARGEST_RESULT => {
                self.shortened()
            }
            Outcome::NotSent(said) | Outcome::Unknown(said) if said.len() > LARGEST_RESULT => {
                self.shortened()
            }
            _ => self,
        }
    }

    /// Replaces the result with its size and hash, keeping the outcome.
    pub fn shortened(self) -> Outcome {
        let note = |result: Arc<[u8]>| -> Arc<[u8]> {
            let note = format!(
                "{{\"omitted\":\"the result was too large to keep\",\"bytes\":{},\"sha256\":\"{}\"}}",
                result.len(),
                Hash::of(&result)
            );
            Arc::from(note.into_bytes())
        };
        match self {
            Outcome::Succeeded(result) => Outcome::Succeeded(note(result)),
            Outcome::Failed(result) => Outcome::Failed(note(result)),
            Outcome::NotSent(_) => Outcome::NotSent("its reason was too long to keep".to_owned()),
            Outcome::Unknown(_) => Outcome::Unknown("its words were too long to keep".to_owned()),
        }
    }
}

/// Runs calls for which the gate issued permits.
///
/// [`Tools`] is an executor made of closures. One of your own may forward calls to another process:
///
/// ```
/// use countersign::id::ToolName;
/// use countersign::{Executor, Outcome, Permit};
/// use futures_util::future::{BoxFuture, FutureExt as _};
///
/// struct Mail;
///
/// impl Executor for Mail {
///     fn runs(&self, tool: &ToolName) -> bool {
///         tool.as_str() == "send_mail"
///     }
///
///     fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
///         async move {
///             // These are the bytes that the person approved.
///             let bytes = permit.arguments().as_bytes();
///             Outcome::json(&format!("sent {} bytes", bytes.len()))
///         }
///         .boxed()
///     }
/// }
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Returns true if this executor can run the tool. Calls of other tools are run by their host.
    fn runs(&self, tool: &ToolName) -> bool;

    /// Runs the call. Must return [`Outcome::Unknown`] if the executor cannot tell whether the tool did anything. May
    /// return [`Outcome::NotSent`] only if the tool was not reached, because the model is then told that nothing ran.
    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome>;
}

impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn runs(&self, tool: &ToolName) -> bool {
        (**self).runs(tool)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        (**self).run(permit)
    }
}

/// Set of tools that an executor runs, as passed in commands.
#[derive(Clone)]
pub struct RunnableTools(pub Arc<dyn Executor>);

impl RunnableTools {
    /// Returns true if the executor runs this tool.
    pub fn includes(&self, tool: &ToolName) -> bool {
        self.0.runs(tool)
    }
}

impl std::fmt::Debug for RunnableTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunnableTools(an executor's tools)")
    }
}

/// Executor without tools. Every call has to be run by its host.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExecutor;

impl Executor for NoExecutor {
    fn runs(&self, _tool: &ToolName) -> bool {
        false
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        let reason = format!("no executor is configured for `{}`", permit.tool);
        Box::pin(async move { Outcome::failed(reason) })
    }
}

type Tool = Box<dyn Fn(Permit) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Executor for tools implemented in this process, by name.
#[derive(Default)]
pub struct Tools(std::collections::HashMap<ToolName, Tool>);

impl Tools {
    /// Adds a tool. It gets the permit with the exact argument bytes, and returns the outcome. Replaces a tool of the
    /// same name.
    pub fn with<F>(mut self, name: ToolName, tool: impl Fn(Permit) -> F + Send + Sync + 'static) -> Tools
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.0
            .insert(name, Box::new(move |permit| Box::pin(tool(permit))));
        self
    }

    /// Adds a tool that takes its arguments as a type of its own and returns a value to be serialised as JSON. If the
    /// arguments do not fit the type, the call fails before the tool runs.
    pub fn typed<A, R, E, F>(
        self,
        name: impl TryInto<ToolName, Error: Into<BadName>>,
        tool: impl Fn(A) -> F + Send + Sync + 'static,
    ) -> Result<Tools, BadName>
    where
        A: DeserializeOwned,
        R: Serialize,
        E: std::fmt::Display,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        let name = name.try_into().map_err(Into::into)?;
        Ok(self.with(name, move |permit| {
            let running = permit.parse().map(&tool);
            async move {
                match running {
                    Ok(running) => match running.await {
                        Ok(result) => Outcome::json(&result),
                        Err(error) => Outcome::failed(error.to_string()),
                    },
                    Err(error) => Outcome::failed(format!("not run: the arguments do not fit: {error}")),
                }
            }
        }))
    }
}

impl Executor for Tools {
    fn runs(&self, tool: &ToolName) -> bool {
        self.0.contains_key(tool)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        match self.0.get(&permit.tool) {
            Some(tool) => tool(permit),
            None => NoExecutor.run(permit),
        }
    }
}
