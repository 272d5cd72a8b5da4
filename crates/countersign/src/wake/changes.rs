//! The signal that something in the store may have changed, for who follows the feed.
//!
//! Enters: a sign after each commit that can be seen here. Leaves: one wake-up for however many came meanwhile.
//! Deliberately absent: what changed. That is in the feed, and nobody who reads it can miss anything.

use tokio::sync::watch;

/// Gives the signal. With nobody there to hear it, that costs one look at a counter.
#[derive(Debug, Default)]
pub(super) struct Signal(watch::Sender<()>);

impl Signal {
    pub(super) fn give(&self) {
        if self.is_heard() {
            self.0.send_replace(());
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// One who wants to know of changes. Signals that come while nobody waits are remembered as one.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<()>);

impl Changes {
    /// Waits for the next signal; false when the store is gone. Look at the feed after this: there may be nothing new,
    /// but what was committed before the signal is there, so far as the feed has come.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn d2_signals_are_heard_once_and_none_is_lost() {
        let signal = Signal::default();
        signal.give();
        let mut changes = signal.changes();
        assert_eq!(changes.next().now_or_never(), None, "only what comes next");
        let mut other = changes.clone();
        signal.give();
        signal.give();
        for changes in [&mut changes, &mut other] {
            assert_eq!(changes.next().now_or_never(), Some(true));
            assert_eq!(changes.next().now_or_never(), None, "both at once");
        }
        drop(other);
        assert!(signal.is_heard());
        drop(signal);
        assert_eq!(changes.next().now_or_never(), Some(false));
    }

    #[test]
    fn d2_nobody_hears_once_all_are_gone() {
        let signal = Signal::default();
        drop(signal.changes());
        assert!(!signal.is_heard());
    }
}
