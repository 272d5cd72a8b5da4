//! The `countersign` command. Everything is in the library beside it, so that tests can reach it.

use std::process::ExitCode;

/// A request's memory is taken by one thread and given back by another, over and over.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    countersign_server::main()
}
