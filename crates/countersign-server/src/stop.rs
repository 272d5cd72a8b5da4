//! Signals that tell the process to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Handler for SIGTERM and SIGINT. Without it a signal ends the process at once, so create it before announcing that
/// the service is ready.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Installs the signal handlers. Fails if the operating system refuses them.
    pub fn listen() -> Result<Stop, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::error("no_signals", format!("cannot listen for signals: {error}"))
                    .hint("see the operating system's message")
            })
        };
        Ok(Stop {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next SIGTERM or SIGINT.
    pub async fn next_signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
