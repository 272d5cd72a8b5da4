//! A conversation with one server, however it is reached.

use tokio::sync::mpsc;

use crate::mcp::child::{Child, Output};
use crate::mcp::http::Heard;
use crate::mcp::lines::Lines;
use crate::mcp::server::Upstream;

/// The way to a server, what it says, and its process if it has one.
pub struct Connection {
    /// The way to it.
    pub upstream: Box<dyn Upstream>,
    /// What it says.
    pub source: Source,
    /// Its process.
    pub child: Option<Child>,
}

/// What a server says.
pub enum Source {
    /// On its standard output.
    Lines(Lines<Output>),
    /// From an address.
    Heard(mpsc::Receiver<Heard>),
}

impl Source {
    /// What it says next; nothing once it is over.
    pub async fn next(&mut self) -> Option<Heard> {
        match self {
            Source::Lines(lines) => crate::mcp::next(lines).await.map(Heard::Message),
            Source::Heard(messages) => messages.recv().await,
        }
    }
}
