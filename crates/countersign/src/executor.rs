//! Executors run tools, and only with a permit.
//!
//! Enters: a [`Permit`], which nobody but the gate can make: for a call that passed, or for one whose start is
//! on record. Leaves: an [`Outcome`]. No permit, no run, by type.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::call::Arguments;
use crate::hash::Hash;
use crate::id::{CallId, Tenant, ToolName};
use crate::seal::Secret;
use crate::stopwatch::Stopwatch;
use crate::time::Time;

/// The largest result that is kept.
pub const LARGEST_RESULT: usize = 1024 * 1024;

/// The right to run one call, once. It cannot be copied, and running consumes it.
#[derive(Debug)]
pub struct Permit {
    pub(crate) tenant: Tenant,
    pub(crate) tool: ToolName,
    pub(crate) arguments: Arguments,
    pub(crate) secret: Option<Secret>,
    pub(crate) timeout: Duration,
    pub(crate) call: Option<CallId>,
    pub(crate) token: Option<PermitToken>,
    /// Runs since before the start was written, so never less than the time that has passed since.
    pub(crate) since: Stopwatch,
    /// The start on record, and when the call is given up, both on the store's clock.
    pub(crate) span: Option<(Time, Time)>,
}

impl Permit {
    /// Whose call it is.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The tool to run.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// The exact bytes to run it with.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The credential the call came with.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// How long the gate waits for the outcome.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Time left to send the call; nothing when it is too late. Others have given the call up by then, and may have told
    /// people that it did not run. An executor asks this as late as it can, and does not send what is late.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.timeout.saturating_sub(self.since.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// When the start was recorded, and when the call is given up, both on the store's clock: for tools that refuse what
    /// comes late. Nothing for a read that passed.
    pub fn span(&self) -> Option<(Time, Time)> {
        self.span
    }

    /// The call's id, which is its idempotency key; nothing for a read that passed.
    pub fn call(&self) -> Option<CallId> {
        self.call
    }

    /// What a host that runs the tool itself must show to finish the call.
    pub fn token(&self) -> Option<&PermitToken> {
        self.token.as_ref()
    }
}

/// The secret part of a permit. Stores keep only its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct PermitToken(pub(crate) [u8; 32]);

impl PermitToken {
    /// What stores keep.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.0)
    }

    /// As text, for a host in another process.
    pub fn reveal(&self) -> String {
        Hash(self.0).to_string()
    }

    /// Reads that text.
    pub fn read(text: &str) -> Option<PermitToken> {
        Hash::from_hex(text).map(|hash| PermitToken(hash.0))
    }
}

impl std::fmt::Debug for PermitToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermitToken(hidden)")
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tool did it, and answered this.
    Succeeded(Arc<[u8]>),
    /// The tool did not do it, and said why.
    Failed(Arc<[u8]>),
    /// Nobody knows; why not.
    Unknown(String),
}

/// Results may hold what nobody should read in a log.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Succeeded(result) => write!(f, "Succeeded({} bytes)", result.len()),
            Outcome::Failed(result) => write!(f, "Failed({} bytes)", result.len()),
            Outcome::Unknown(reason) => write!(f, "Unknown({reason})"),
        }
    }
}

impl Outcome {
    /// A success with this answer.
    pub fn succeeded(result: impl AsRef<[u8]>) -> Outcome {
        Outcome::Succeeded(Arc::from(result.as_ref()))
    }

    /// A failure with this reason.
    pub fn failed(reason: impl AsRef<[u8]>) -> Outcome {
        Outcome::Failed(Arc::from(reason.as_ref()))
    }

    /// Keeps the outcome, and of an oversized result only its size and hash: it happened, whatever it said.
    pub(crate) fn bounded(self) -> Outcome {
        let bound = |result: Arc<[u8]>| -> Arc<[u8]> {
            if result.len() <= LARGEST_RESULT {
                return result;
            }
            let note = format!(
                "{{\"omitted\":\"the result was too large to keep\",\"bytes\":{},\"sha256\":\"{}\"}}",
                result.len(),
                Hash::of(&result)
            );
            Arc::from(note.into_bytes())
        };
        match self {
            Outcome::Succeeded(result) => Outcome::Succeeded(bound(result)),
            Outcome::Failed(result) => Outcome::Failed(bound(result)),
            Outcome::Unknown(said) if said.len() > LARGEST_RESULT => {
                Outcome::Unknown("its words were too long to keep".to_owned())
            }
            Outcome::Unknown(said) => Outcome::Unknown(said),
        }
    }
}

/// Runs tools.
pub trait Executor: Send + Sync + 'static {
    /// True when this executor can run the tool. A tool nobody can run stays with its host.
    fn runs(&self, tool: &ToolName) -> bool;

    /// Runs the call. An executor that cannot tell whether the tool did anything answers [`Outcome::Unknown`].
    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome>;
}

/// Which tools an executor runs, as a command carries it.
#[derive(Clone)]
pub struct Runs(pub Arc<dyn Executor>);

impl Runs {
    /// True when the executor runs this tool.
    pub fn includes(&self, tool: &ToolName) -> bool {
        self.0.runs(tool)
    }
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runs(an executor's tools)")
    }
}

/// No tools at all: every call is run by its host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostRuns;

impl Executor for HostRuns {
    fn runs(&self, _tool: &ToolName) -> bool {
        false
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        let reason = format!("no executor here runs `{}`", permit.tool);
        Box::pin(async move { Outcome::failed(reason) })
    }
}

type Tool = Box<dyn Fn(Permit) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Tools in this process, by name.
#[derive(Default)]
pub struct Tools(std::collections::HashMap<ToolName, Tool>);

impl Tools {
    /// Adds a tool.
    pub fn with<F>(mut self, name: ToolName, tool: impl Fn(Permit) -> F + Send + Sync + 'static) -> Tools
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.0
            .insert(name, Box::new(move |permit| Box::pin(tool(permit))));
        self
    }
}

impl Executor for Tools {
    fn runs(&self, tool: &ToolName) -> bool {
        self.0.contains_key(tool)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        match self.0.get(&permit.tool) {
            Some(tool) => tool(permit),
            None => HostRuns.run(permit),
        }
    }
}
