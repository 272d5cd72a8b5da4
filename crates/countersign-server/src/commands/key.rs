//! `key generate`: prints a new sealing key.

use crate::cli::KeyCommand;
use crate::failure::{Exit, Failure};
use crate::keys;
use crate::output::Output;

pub fn run(command: &KeyCommand, output: &mut Output) -> Result<Exit, Failure> {
    let KeyCommand::Generate = command;
    let key = keys::generate()?;
    match output.is_json {
        true => output.json(&serde_json::json!({ "key": key }))?,
        false => output.line(&key),
    }
    if output.is_terminal() {
        output.notice(
            "keep_key",
            "keep it in a file that only you can read; without it, encrypted credentials are lost",
        );
    }
    Ok(Exit::Done)
}
