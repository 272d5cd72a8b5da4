//! Key presses, read on a thread of their own, which can be stopped while another program has the terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{Receiver, channel};

/// How long it may take until the thread notices that it is to stop.
const NOTICES_WITHIN: Duration = Duration::from_millis(50);
/// More key presses than these are not remembered while something is being done.
const REMEMBERED: usize = 64;

/// True when the terminal was taken away without anybody hanging up. The thread that reads it may never learn that.
pub fn is_gone() -> bool {
    !std::io::stdin().is_terminal() && !std::io::stdout().is_terminal()
}

/// What the terminal tells us.
pub struct Keys {
    events: Receiver<Event>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Starts to read.
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

    /// The next event; nothing when the terminal is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Stops reading: from here on another program may read the terminal.
    pub fn stop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // So that the thread is not stuck with an event that nobody takes.
        self.events.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let waited = Instant::now();
        while !thread.is_finished() {
            // It hangs on a terminal that is gone: it ends with the process.
            if waited.elapsed() > 10 * NOTICES_WITHIN {
                return;
            }
            std::thread::sleep(NOTICES_WITHIN / 10);
        }
        let _ = thread.join();
    }

    /// Forgets what was pressed meanwhile: it was not meant for what is shown now.
    pub fn forget(&mut self) {
        while self.events.try_recv().is_ok() {}
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop();
    }
}
