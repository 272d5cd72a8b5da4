//! A connection to one server, over stdio or streamable HTTP.

use tokio::sync::mpsc;

use crate::mcp::child::{Child, Output};
use crate::mcp::http::Heard;
use crate::mcp::lines::Lines;
use crate::mcp::server::Upstream;

/// The two directions of a connection, and the server's process if the gateway started it.
pub struct Connection {
    /// Sends messages to the server.
    pub upstream: Box<dyn Upstream>,
    /// Receives messages from the server.
    pub source: Source,
    /// The server's process; `None` for a server at a URL.
    pub child: Option<Child>,
}

/// Messages from a server.
pub enum Source {
    /// Messages from the standard output of a process.
    Lines(Lines<Output>),
    /// Messages from a streamable HTTP connection.
    Heard(mpsc::Receiver<Heard>),
}

impl Source {
    /// Returns the next message, or `None` at the end.
    pub async fn next(&mut self) -> Option<Heard> {
        match self {
            Source::Lines(lines) => crate::mcp::next(lines).await.map(Heard::Message),
            Source::Heard(messages) => messages.recv().await,
        }
    }
}
