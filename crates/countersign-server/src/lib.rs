//! The `countersign` command: the service and the command line.
//!
//! Enters: a command line. Leaves: an exit code; what is printed goes through `output` alone.
//! Deliberately absent: rules. Surfaces talk to the gate, never to each other.

pub mod access;
mod bench;
mod cli;
mod client;
mod commands;
mod desk;
mod duration;
mod exec;
pub mod executors;
mod failure;
mod find;
pub mod http;
mod identity;
pub mod inbox;
mod keys;
mod mcp;
mod output;
mod policy;
mod serve;
mod store;
#[cfg(feature = "tui")]
mod terminal;
mod view;

use std::process::ExitCode;

use clap::Parser;

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
    let exit = match run(cli, &mut output) {
        Ok(exit) => exit,
        Err(failure) => {
            output.failure(&failure);
            failure.exit
        }
    };
    ExitCode::from(exit.code())
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
