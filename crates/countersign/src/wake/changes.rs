//! Change signal for followers of the feed.
//!
//! The signal is given after each commit that this process learns of. Any number of signals since the last wake-up
//! cause a single one. The signal does not say what changed: followers read that from the feed, which misses nothing.

use tokio::sync::watch;

/// Sends the signal. Without subscribers it costs only one counter check.
#[derive(Debug, Default)]
pub(super) struct Signal(watch::Sender<()>);

impl Signal {
    pub(super) fn give(&self) {
        if self.has_subscribers() {
            self.0.send_replace(());
        }
    }

    pub(super) fn has_subscribers(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// Subscription to changes. Signals that arrive while nobody waits collapse into one.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<()>);

impl Changes {
    /// Waits for the next signal; returns false if the store is gone. Read the feed afterwards: it may have nothing
    /// new, but contains everything committed before the signal, as far as the feed has advanced.
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
        assert!(signal.has_subscribers());
        drop(signal);
        assert_eq!(changes.next().now_or_never(), Some(false));
    }

    #[test]
    fn d2_nobody_hears_once_all_are_gone() {
        let signal = Signal::default();
        drop(signal.changes());
        assert!(!signal.has_subscribers());
    }
}
