//! Subcommands, one file each. Each takes the parsed options and an [`Output`], and returns an exit code.

mod backup;
mod clock;
mod decide;
mod doctor;
mod expire;
mod hook;
mod input;
mod key;
mod list;
mod person;
mod policy;
mod propose;
mod purge;
mod read;
mod reconcile;
mod show;
mod token;
mod trace;
mod trust;
mod undo;
mod verify;
mod wait;
mod waiting;
mod watch;
mod withdraw;

use crate::cli::{Cli, Command};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command that was parsed from the command line, and returns its exit code.
pub async fn run(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Serve(options) => crate::serve::run(global, options, output).await,
        Command::Chat(options) => crate::chat::run(global, options, output).await,
        Command::Mcp(options) => crate::mcp::run(global, options, output).await,
        Command::Token(command) => token::run(global, command, output).await,
        Command::Person(command) => person::run(global, command, output).await,
        Command::Propose(options) => propose::run(global, options, output).await,
        Command::List(options) => list::run(global, options, output).await,
        Command::Show(options) => show::run(global, options, output).await,
        Command::Approve(options) => decide::approve(global, options, output).await,
        Command::Deny(options) => decide::deny(global, options, output).await,
        Command::Wait(options) => wait::run(global, options, output).await,
        #[cfg(feature = "tui")]
        Command::Inbox => crate::terminal::run(global, output).await,
        Command::Watch(options) => watch::run(global, options, output).await,
        Command::Undo(options) => undo::run(global, options, output).await,
        Command::Withdraw(options) => withdraw::run(global, options, output).await,
        Command::Reconcile(options) => reconcile::run(global, options, output).await,
        Command::Expire => expire::run(global, output).await,
        Command::Trace(options) => trace::run(global, options, output),
        Command::Read(options) => read::run(&options, output),
        Command::Guide => guide(output),
        Command::Trust(options) => trust::run(&options, output),
        Command::Doctor(options) => doctor::run(global, options, output).await,
        Command::Clock(options) => clock::run(global, &options, output).await,
        Command::Verify(options) => verify::run(global, options, output).await,
        Command::Backup(options) => backup::make(global, options, output).await,
        Command::Restore(options) => backup::restore(global, options, output).await,
        Command::Purge(options) => purge::run(global, options, output).await,
        Command::Policy(command) => policy::run(global, command, output).await,
        Command::Key(command) => key::run(&command, output),
        Command::Hook(command) => hook::run(global, command, output).await,
    }
}

/// Prints the instructions for models that work with held calls.
fn guide(output: &mut Output) -> Result<Exit, Failure> {
    match output.is_json {
        true => output.json(&serde_json::json!({ "guide": countersign::gate::GUIDE }))?,
        false => output.raw(countersign::gate::GUIDE.as_bytes())?,
    }
    Ok(Exit::Done)
}

/// Returns the coding agent whose events a `hook` command answers; `None` for any other command.
pub fn hook_answers(command: &Command) -> Option<crate::hook::Dialect> {
    match command {
        Command::Hook(command) => command.answers(),
        _ => None,
    }
}

/// Parses an optional text as a name type of the library, such as a channel; `None` stays `None`. Fails if the text is
/// not a valid name.
fn name<T: std::str::FromStr<Err = countersign::id::BadName>>(
    text: Option<&str>,
) -> Result<Option<T>, Failure> {
    let name = text.map(str::parse::<T>).transpose();
    name.map_err(|problem| Failure::error("bad_name", problem.to_string()))
}

/// Parses an agent's name for a filter; `None` stays `None`. Unlike in a proposal, the reserved names of served agents
/// are allowed.
fn agent_to_look_for(text: Option<&str>) -> Result<Option<countersign::id::Agent>, Failure> {
    let agent = text.map(countersign::id::Agent::stored).transpose();
    agent.map_err(|problem| Failure::error("bad_name", problem.to_string()))
}
