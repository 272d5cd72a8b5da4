//! Tests of the MCP gateway from a client's side: the real binary between a client and a server, with a real store.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod agentdojo;
mod ask;
mod children;
mod client;
mod crash;
mod flag;
mod flood;
mod frames;
mod generator;
mod gone;
mod hold;
mod hostile;
mod http;
mod init;
mod later;
mod links;
mod modern;
mod owner;
mod passes;
mod peers;
mod postgres;
mod prompt;
mod questions;
mod refused;
mod relay;
mod seen;
mod sent;
mod several;
mod tasks;
#[path = "../cli/test_folder.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the command line, which use all of it"
)]
mod test_folder;
