//! Reads key presses on a thread, which can be stopped while another program uses the terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{Receiver, channel};

/// Interval at which the thread checks whether to stop.
const NOTICES_WITHIN: Duration = Duration::from_millis(50);
/// Maximum number of queued key presses that were not handled yet.
const REMEMBERED: usize = 64;

/// Returns true if neither standard input nor standard output is a terminal any more. A terminal can vanish without a
/// SIGHUP, and the reading thread may never notice.
pub fn is_gone() -> bool {
    !std::io::stdin().is_terminal() && !std::io::stdout().is_terminal()
}

/// Source of terminal events, which a thread reads.
pub struct Keys {
    events: Receiver<Event>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Starts the reading thread.
    pub fn start() -> Keys {
        let (sender, events) = channel(REMEMBERED);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = is_stopped.clone();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match event::poll(NOTICES_WITHIN) {
                    Ok(false) => continue,
                    Ok(true) => {}
                    Err(_) => return,
                }
                let Ok(event) = event::read() else { return };
                if sender.blocking_send(event).is_err() {
                    return;
                }
            }
        });
        Keys {
            events,
            is_stopped,
            thread: Some(thread),
        }
    }

    /// Returns the next event, or `None` if the terminal is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Stops the reading thread, so that another program can read the terminal.
    pub fn stop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Unblocks the thread if it is sending an event.
        self.events.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let waited = Instant::now();
        while !thread.is_finished() {
            // The thread is stuck on a terminal that is gone; it ends with the process.
            if waited.elapsed() > 10 * NOTICES_WITHIN {
                return;
            }
            std::thread::sleep(NOTICES_WITHIN / 10);
        }
        let _ = thread.join();
    }

    /// Discards queued key presses, which were meant for an earlier card.
    pub fn forget(&mut self) {
        while self.events.try_recv().is_ok() {}
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop();
    }
}
