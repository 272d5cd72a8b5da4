//! Hooks: what a coding agent asks before a tool call, and tells after it.
//!
//! Enters: one event as the coding agent writes it, on standard input. Leaves: exactly one JSON object on standard
//! output, in that agent's dialect, and an exit code.
//! INVARIANT: whatever goes wrong before a tool call blocks it. A call that was held runs only with the bytes a person
//! approved, once.
//! Deliberately absent: rules. The policy rules, a person decides, the desk records.

mod after;
mod answer;
mod before;
mod codex;
mod dialect;
mod event;
mod kept;
pub mod settings;
pub mod splice;
pub mod status;

use std::io::Read as _;
use std::time::Duration;

pub use answer::Answer;
pub use dialect::Dialect;

use crate::cli::{Global, HookRun};
use crate::desk::Desk;
use crate::failure::Failure;
use crate::hook::event::{Event, LARGEST_EVENT};
use crate::output::Output;
use crate::store::Missing;
use crate::trust;

/// What a hook may take beyond the time it holds a call: opening the store, proposing, starting.
pub const GRACE: Duration = Duration::from_secs(20);
/// Set by the self-test: nothing is proposed, and everything is denied.
pub const SELF_TEST: &str = "COUNTERSIGN_HOOK_SELF_TEST";

/// Who asks, and how long they can wait.
pub struct Hook<'h> {
    /// Whose dialect.
    pub dialect: Dialect,
    /// The store or the server, and the policy.
    pub global: &'h Global,
    /// How long, and where things are kept meanwhile.
    pub options: &'h HookRun,
}

impl Hook<'_> {
    /// The desk at a server that starts and finishes calls, with a token of its own: an agent's token can only ask.
    async fn runner(&self) -> Result<Option<Desk>, Failure> {
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
        Desk::open(&global, Missing::Refuse).await.map(Some)
    }
}

/// Answers one event. There is no other way out: what fails is an answer too.
pub async fn run(hook: Hook<'_>, output: &mut Output) -> u8 {
    let limit = hook.options.hold.saturating_add(GRACE);
    let answered = tokio::time::timeout(limit, answer(&hook)).await;
    let answer = match answered {
        Ok(answer) => answer,
        Err(_) => Answer::broken("the gate did not answer in time"),
    };
    print(&answer, hook.dialect, output)
}

/// Prints an answer; gives the exit code.
pub fn print(answer: &Answer, dialect: Dialect, output: &mut Output) -> u8 {
    let written = answer.written(dialect);
    // INVARIANT: never JSON on standard error: one coding agent reads it as the answer when the other is empty.
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
    // Before anything else: no token goes to a server that only the settings name.
    if let Err(failure) = trust::check_server(hook.global) {
        return Answer::from(failure);
    }
    let read = tokio::task::spawn_blocking(read_event).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(failure)) => return Answer::from(failure),
        Err(error) => return Answer::broken(&error.to_string()),
    };
    match Event::read(&bytes, hook.dialect) {
        Err(failure) => Answer::from(failure),
        Ok(Event::Before(call)) => match is_self_test() {
            true => before::test(hook, &call).await.unwrap_or_else(Answer::from),
            false => before::rule(hook, &call).await.unwrap_or_else(Answer::from),
        },
        Ok(Event::After(end)) => match after::record(hook, &end).await {
            Ok(()) => Answer::Noted,
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
