//! The `countersign` binary. All code is in the library, so that tests can reach it.

use std::process::ExitCode;

/// Allocator that is faster than the system's when one thread allocates and another frees, as happens with
/// requests.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    countersign_server::main()
}
