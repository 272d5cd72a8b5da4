//! Being told to end, by whoever started us.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Listens for it. Before there is one of these, a signal ends the process at once; so it comes before anybody is told
/// that we are there.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens from now on.
    pub fn listen() -> Result<Stop, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::error("no_signals", format!("cannot listen for signals: {error}"))
                    .hint("see what the system says")
            })
        };
        Ok(Stop {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
