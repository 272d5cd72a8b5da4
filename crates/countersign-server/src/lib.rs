//! The `countersign` command: the service and the command line.
//!
//! Enters: a command line. Leaves: an exit code; what is printed goes through `output` alone.
//! Deliberately absent: rules. Surfaces talk to the gate, never to each other.

pub mod access;
pub mod agents;
mod bench;
mod chat;
mod cli;
mod commands;
mod desk;
mod duration;
mod environment;
mod exec;
pub mod executors;
mod failure;
mod find;
mod group;
mod hook;
pub mod http;
mod identity;
pub mod inbox;
mod keys;
mod mcp;
mod output;
mod pace;
mod policy;
mod private;
mod rate;
mod serve;
mod stop;
mod store;
#[cfg(feature = "tui")]
mod terminal;
mod trust;
mod view;

use std::process::ExitCode;

use clap::Parser;
use countersign_agent::client;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let mut output = Output::new(cli.global.json, cli.global.color);
    let answers = commands::hook_answers(&cli.command);
    if answers.is_some() {
        block_on_panic();
    }
    let exit = match (run(cli, &mut output), answers) {
        (Ok(exit), _) => exit,
        (Err(failure), Some(dialect)) => {
            let code = hook::print(&hook::Answer::from(failure), dialect, &mut output);
            return ExitCode::from(code);
        }
        (Err(failure), None) => {
            output.failure(&failure);
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

/// A hook that crashes must not let the call through: only exit code 2 blocks it everywhere.
fn block_on_panic() {
    std::panic::set_hook(Box::new(|_| {
        output::beside("countersign crashed, so the call was not run");
        std::process::exit(i32::from(hook::Answer::BLOCKS));
    }));
}

fn run(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
    // One thread is enough for one person; stores bring their own. Many callers at once need more.
    let mut builder = match cli.command {
        cli::Command::Bench(_) | cli::Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::error("no_runtime", format!("cannot start: {error}")))?;
    let exit = runtime.block_on(commands::run(cli, output));
    // Whatever is still under way is not waited for: it is on record, or it never started.
    runtime.shutdown_background();
    exit
}
