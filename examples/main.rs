//! `countersign-world`: the tools of one example world, for `countersign propose … --exec`.

use std::io::Write as _;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match countersign_examples::command::run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "{reason}");
            ExitCode::FAILURE
        }
    }
}
