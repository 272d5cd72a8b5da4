//! Progress bar on standard error, if that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Minimum interval between redraws.
const EVERY: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;

/// Progress bar; draws nothing if it is not wanted or standard error is not a terminal.
pub struct Bar {
    drawn_at: Option<Mutex<Option<Instant>>>,
}

impl Bar {
    /// Creates a bar that is not drawn yet.
    pub fn new(is_wanted: bool) -> Bar {
        let is_seen = is_wanted && std::io::stderr().is_terminal();
        Bar {
            drawn_at: is_seen.then(Mutex::default),
        }
    }

    /// Redraws the bar, unless that was done less than `EVERY` ago.
    pub fn show(&self, done: u64, total: u64) {
        let Some(drawn_at) = &self.drawn_at else { return };
        let mut drawn_at = drawn_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if drawn_at.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        *drawn_at = Some(Instant::now());
        write(&draw(done, total));
    }

    /// Erases the bar.
    pub fn clear(&self) {
        if self.drawn_at.is_some() {
            write(&format!("\r{:1$}\r", "", draw(1, 1).len()));
        }
    }
}

fn draw(done: u64, total: u64) -> String {
    let total = total.max(1);
    let filled = usize::try_from(done.min(total) * WIDTH / total).unwrap_or_default();
    let percent = done.min(total) * 100 / total;
    format!("\r[{:<30}] {percent:>3} %", "#".repeat(filled))
}

/// Writes to standard error. A closed terminal is ignored.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow() {
        assert_eq!(draw(0, 0), "\r[                              ]   0 %");
        assert_eq!(draw(5, 10), "\r[###############               ]  50 %");
        assert_eq!(draw(11, 10), "\r[##############################] 100 %");
    }
}
