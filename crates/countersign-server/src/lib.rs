//! The `countersign` command.
//!
//! Enters: a command line. Leaves: an exit code; what is printed goes through [`output`] alone.

mod bench;
mod cli;
mod commands;
mod desk;
mod duration;
mod exec;
mod failure;
mod find;
mod identity;
mod keys;
mod output;
mod policy;
mod store;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

fn main() -> ExitCode {
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
        cli::Command::Bench(_) => tokio::runtime::Builder::new_multi_thread(),
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
