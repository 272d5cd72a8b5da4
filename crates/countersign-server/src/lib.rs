//! The `countersign` command: the service and the command line.
//!
//! Everything printed for people goes through `output`. The approval rules are in the `countersign` crate; surfaces
//! talk to its gate, never to each other.

pub mod access;
pub mod agents;
mod backend;
mod chat;
mod cli;
mod commands;
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
pub mod leave;
mod links;
mod mcp;
mod object;
mod output;
mod pace;
mod policy;
mod rate;
mod regular;
mod serve;
pub mod service;
mod stop;
mod store;
#[cfg(feature = "tui")]
mod terminal;
pub mod tool_schema;
mod trust;
mod view;
pub mod web;
mod webhooks;
mod why_held;
mod wire;
mod worlds;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

use countersign_store::private_file;

/// Runs the command line of this process and returns the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::of_process() {
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

/// Makes a panic exit with code 2: the only exit code on which every supported coding agent blocks the tool call.
fn block_on_panic() {
    std::panic::set_hook(Box::new(|_| {
        output::print_to_stderr("countersign crashed; the call was not run");
        std::process::exit(i32::from(hook::Answer::BLOCKS));
    }));
}

fn run(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
    // Commands for one person need a single thread, since stores have their own threads. The service has many callers.
    let mut builder = match cli.command {
        cli::Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::error("no_runtime", format!("cannot start: {error}")))?;
    let exit = runtime.block_on(commands::run(cli, output));
    // Remaining tasks are not awaited: the start of a running call is on record, and nothing else has started.
    runtime.shutdown_background();
    exit
}
