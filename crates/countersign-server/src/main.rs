//! The `countersign` binary. All code is in the library, so that tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign_server::main()
}
