//! Hooks of coding agents: a process that the agent starts before and after each tool call.
//!
//! The process reads one event on standard input and writes exactly one JSON object to standard output, both in the
//! coding agent's format. It exits with a code that the agent understands.
//! INVARIANT: any failure before a tool call blocks the call. A held call runs only with the bytes that a person
//! approved, and at most once.
//!
//! This module contains no rules: the policy rules, a person decides, and the backend (a local store or a server)
//! records.

mod after;
mod answer;
mod before;
mod codex;
mod dialect;
mod event;
pub mod off;
pub mod settings;
pub mod splice;
mod state;
pub mod status;

use std::io::Read as _;
use std::time::Duration;

pub use answer::Answer;
pub use before::{NOT_ON_RECORD, another_policy, record_key};
pub use dialect::Dialect;
pub use state::user_folder;

use crate::backend::Backend;
use crate::cli::{Global, HookRun};
use crate::failure::Failure;
use crate::hook::event::{Event, LARGEST_EVENT};
use crate::output::Output;
use crate::store::Missing;
use crate::trust;

/// Time a hook may take in addition to the time it holds a call: to open the store, propose and start.
pub const GRACE: Duration = Duration::from_secs(20);
/// Environment variable that the self-test sets. With it, nothing is proposed and every call is denied.
pub const SELF_TEST: &str = "COUNTERSIGN_HOOK_SELF_TEST";

/// One invocation of the hook, with its options.
pub struct Hook<'h> {
    pub dialect: Dialect,
    /// Store or server to use, and the policy.
    pub global: &'h Global,
    /// Options of the run: the time to hold a call, and the folder for hook state.
    pub options: &'h HookRun,
}

impl Hook<'_> {
    /// Opens the server connection that starts and finishes calls, or returns `None` if a local store is used. The
    /// connection needs its own token with the `execute` scope, because an agent's token can only propose.
    async fn runner(&self) -> Result<Option<Backend>, Failure> {
        if self.global.server.is_none() {
            return Ok(None);
        }
        let Some(file) = &self.options.execute_token_file else {
            return Err(Failure::error("no_token", "there is no token that may start calls at the server").hint(
                "make one with `countersign token create --name NAME --scope execute`, and name its file with \
                 `--execute-token-file`",
            ));
        };
        let global = Global {
            token_file: Some(file.clone()),
            ..self.global.clone()
        };
        Backend::open(&global, Missing::Refuse).await.map(Some)
    }
}

/// Reads one event, prints the answer and returns the exit code. Every failure, including a timeout, becomes an answer.
pub async fn run(hook: Hook<'_>, output: &mut Output) -> u8 {
    let limit = hook.options.hold.saturating_add(GRACE);
    let answered = tokio::time::timeout(limit, answer(&hook)).await;
    let answer = match answered {
        Ok(answer) => answer,
        Err(_) => Answer::broken("the gate did not answer in time"),
    };
    let Some(unsent) = answer.overdue() else {
        return print(&answer, hook.dialect, output);
    };
    // The process was suspended between the start and this moment. Deny the call first, then record that it did not
    // run.
    let code = print(&Answer::late(), hook.dialect, output);
    match tokio::time::timeout(GRACE, before::record_late(&hook, unsent)).await {
        Ok(Ok(())) => {}
        // Without this record, the call becomes unknown when its time limit passes.
        Ok(Err(failure)) => output.error_line(&format!(
            "countersign could not record that the call was not run: {}",
            crate::output::once(&failure.message)
        )),
        Err(_) => output.error_line("countersign could not record that the call was not run"),
    }
    code
}

/// Prints an answer and returns the exit code.
pub fn print(answer: &Answer, dialect: Dialect, output: &mut Output) -> u8 {
    let written = answer.written(dialect);
    // INVARIANT: never write JSON to standard error: one coding agent reads it as the answer if standard output is
    // empty.
    if let Some(complaint) = &written.complaint {
        output.error_line(complaint);
    }
    let line = format!("{}\n", written.json);
    match output.raw(line.as_bytes()) {
        Ok(()) => written.code,
        Err(_) => Answer::BLOCKS,
    }
}

async fn answer(hook: &Hook<'_>) -> Answer {
    // Check this first: a server that only the settings name must not receive a token.
    if let Err(failure) = trust::check_server(hook.global) {
        return Answer::from(failure);
    }
    let dialect = hook.dialect;
    // Reading the input blocks, and so does following links on a slow disk.
    let read = tokio::task::spawn_blocking(move || Event::read(&read_event()?, dialect)).await;
    let event = match read {
        Ok(event) => event,
        Err(error) => return Answer::broken(&error.to_string()),
    };
    match event {
        Err(failure) => Answer::from(failure),
        Ok(Event::Before(call)) => match is_self_test() {
            true => before::test(hook, &call).await.unwrap_or_else(Answer::from),
            false => before::rule(hook, &call).await.unwrap_or_else(Answer::from),
        },
        Ok(Event::After(end)) => match after::record(hook, &end).await {
            Ok(None) => Answer::Noted,
            Ok(Some(told)) => Answer::Notice(format!("countersign recorded the outcome as unknown: {told}")),
            Err(failure) => Answer::not_recorded(&failure),
        },
    }
}

fn is_self_test() -> bool {
    std::env::var_os(SELF_TEST).is_some()
}

fn read_event() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = u64::try_from(LARGEST_EVENT).unwrap_or(u64::MAX).saturating_add(1);
    let reading = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
    reading.map_err(|error| Failure::error("no_event", format!("cannot read the event: {error}")))?;
    Ok(bytes)
}
