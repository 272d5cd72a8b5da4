//! The `countersign` binary. All code is in the library, so that tests can reach it.

use std::process::ExitCode;

/// Faster than the system allocator when, as with requests, one thread allocates and another frees.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    countersign_server::main()
}
