//! WAL watch: waits for writes to the WAL with inotify, or polls if inotify is unavailable.
//!
//! A watch reports neither the content of a write nor the process that wrote. It also does not report every write,
//! because that would cost the writing process time: the watch is one-shot, and is renewed after each notification.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Polling interval without inotify.
const POLL: Duration = Duration::from_millis(250);

/// Handle that stops a [`WalWatch`] and wakes the thread that waits for it.
pub(super) struct StopHandle {
    stopped: Arc<AtomicBool>,
    #[cfg(target_os = "linux")]
    wakeup: Option<inotify_watch::WakeupWatch>,
}

impl StopHandle {
    pub(super) fn stop(&mut self, thread: Option<&std::thread::JoinHandle<()>>) {
        self.stopped.store(true, Ordering::SeqCst);
        #[cfg(target_os = "linux")]
        if let Some(wakeup) = self.wakeup.take() {
            wakeup.wake();
        }
        if let Some(thread) = thread.map(std::thread::JoinHandle::thread) {
            Thread::unpark(thread);
        }
    }
}

/// A watch on the WAL of one database.
pub(super) struct WalWatch {
    stopped: Arc<AtomicBool>,
    #[cfg(target_os = "linux")]
    inotify: Option<inotify_watch::InotifyWatch>,
}

impl WalWatch {
    /// Starts to watch the WAL of the database at `path`, and returns the watch with the handle that stops it. The WAL
    /// must exist.
    pub(super) fn start(path: &Path) -> (WalWatch, StopHandle) {
        let stopped = Arc::new(AtomicBool::new(false));
        #[cfg(target_os = "linux")]
        let (inotify, wakeup) = match inotify_watch::InotifyWatch::start(path) {
            Ok((watch, wakeup)) => (Some(watch), Some(wakeup)),
            // The machine has too many watches, or the file system does not support them.
            Err(_) => (None, None),
        };
        #[cfg(not(target_os = "linux"))]
        let _ = path;
        let watch = WalWatch {
            stopped: stopped.clone(),
            #[cfg(target_os = "linux")]
            inotify,
        };
        let stop_handle = StopHandle {
            stopped,
            #[cfg(target_os = "linux")]
            wakeup,
        };
        (watch, stop_handle)
    }

    /// Sleeps until the WAL is written, or for one interval if inotify is unavailable. Returns false once the watch has
    /// been stopped.
    pub(super) fn wait(&mut self) -> bool {
        // The stop event comes only once, and `was_written` may have consumed it already.
        while !self.is_stopped() {
            #[cfg(target_os = "linux")]
            if let Some(inotify) = &mut self.inotify {
                match inotify.wait() {
                    Ok(true) => break,
                    Ok(false) => {}
                    // Without inotify, the thread polls from now on.
                    Err(_) => self.inotify = None,
                }
                continue;
            }
            std::thread::park_timeout(POLL);
            break;
        }
        !self.is_stopped()
    }

    /// Returns true if the WAL was written since the last notification. Does not wait. Always false without inotify.
    pub(super) fn was_written(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(inotify) = &mut self.inotify {
            return inotify.was_written().unwrap_or_else(|_| {
                self.inotify = None;
                true
            });
        }
        false
    }

    /// Returns true if inotify is unavailable and the watch polls.
    pub(super) fn is_polling(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.inotify.is_none();
        #[cfg(not(target_os = "linux"))]
        true
    }

    /// Returns true once the watch has been stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

#[cfg(target_os = "linux")]
mod inotify_watch {
    use std::io;
    use std::path::{Path, PathBuf};

    use inotify::{EventMask, Events, Inotify, WatchDescriptor, WatchMask, Watches};

    pub(super) struct InotifyWatch {
        inotify: Inotify,
        wal: PathBuf,
        descriptor: WatchDescriptor,
    }

    /// A watch on the database file. Removing this watch is an event, which wakes the sleeping thread.
    pub(super) struct WakeupWatch(Watches, WatchDescriptor);

    impl WakeupWatch {
        pub(super) fn wake(mut self) {
            let _ = self.0.remove(self.1);
        }
    }

    impl InotifyWatch {
        pub(super) fn start(path: &Path) -> io::Result<(InotifyWatch, WakeupWatch)> {
            let inotify = Inotify::init()?;
            let mut watches = inotify.watches();
            let wakeup = watches.add(path, WatchMask::DELETE_SELF)?;
            let mut wal = path.as_os_str().to_owned();
            wal.push("-wal");
            let wal = PathBuf::from(wal);
            let descriptor = add_watch(&mut watches, &wal)?;
            let watch = InotifyWatch {
                inotify,
                wal,
                descriptor,
            };
            Ok((watch, WakeupWatch(watches, wakeup)))
        }

        /// Sleeps until the next event. Returns true if the WAL was written; false for any other event.
        pub(super) fn wait(&mut self) -> io::Result<bool> {
            let mut buffer = [0; 1024];
            let events = self.inotify.read_events_blocking(&mut buffer)?;
            let is_written = reports_write(events, &self.descriptor);
            self.renew_watch(is_written)
        }

        /// Returns true if the WAL was written since the last event. Does not wait.
        pub(super) fn was_written(&mut self) -> io::Result<bool> {
            let mut buffer = [0; 1024];
            let is_written = match self.inotify.read_events(&mut buffer) {
                Ok(events) => reports_write(events, &self.descriptor),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                Err(error) => return Err(error),
            };
            self.renew_watch(is_written)
        }

        /// Renews the one-shot watch if `is_written` is true, and returns `is_written`. INVARIANT: the watch is renewed
        /// before the caller reads the database, so no write is missed between a read and the next notification.
        fn renew_watch(&mut self, is_written: bool) -> io::Result<bool> {
            if is_written {
                self.descriptor = add_watch(&mut self.inotify.watches(), &self.wal)?;
            }
            Ok(is_written)
        }

        #[cfg(test)]
        pub(super) fn remove_watch(&mut self) {
            self.inotify.watches().remove(self.descriptor.clone()).unwrap();
        }
    }

    /// Adds the one-shot watch.
    fn add_watch(watches: &mut Watches, wal: &Path) -> io::Result<WatchDescriptor> {
        watches.add(wal, WatchMask::MODIFY | WatchMask::ONESHOT)
    }

    /// Returns true if an event reports a write, or if the current watch was removed. The removal of a one-shot watch
    /// (`IGNORED`) is reported after its `MODIFY`, and so late that a renewal may have returned the watch that is about
    /// to be removed. Then there is no watch any more, and writes since then were not reported.
    fn reports_write(mut events: Events<'_>, descriptor: &WatchDescriptor) -> bool {
        let is_write = |mask: EventMask| mask.contains(EventMask::MODIFY);
        let is_lost = |mask: EventMask| mask.contains(EventMask::IGNORED);
        events.any(|event| is_write(event.mask) || is_lost(event.mask) && event.wd == *descriptor)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn several_writes_are_one_notification() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, "").unwrap();
        let write = || std::fs::write(folder.path().join("store.db-wal"), "written").unwrap();
        write();
        let (mut watch, mut stop_handle) = WalWatch::start(&path);
        assert!(!watch.is_polling());
        assert!(!watch.was_written(), "nothing was written yet");
        (0..3).for_each(|_| write());
        assert!(watch.wait());
        assert!(!watch.was_written(), "all of them were one");
        write();
        assert!(watch.was_written());
        assert!(!watch.was_written());
        write();
        assert!(watch.wait());
        stop_handle.stop(None);
        assert!(!watch.wait());
    }

    /// Removes the watch, as the kernel does if the watch is renewed just before its removal.
    #[test]
    fn a_lost_watch_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let wal = folder.path().join("store.db-wal");
        std::fs::write(&path, "").unwrap();
        std::fs::write(&wal, "").unwrap();
        let (mut watch, _stop_handle) = WalWatch::start(&path);
        watch.inotify.as_mut().unwrap().remove_watch();
        assert!(watch.wait(), "something may have been written");
        assert!(!watch.was_written());
        std::fs::write(&wal, "written").unwrap();
        assert!(watch.wait());
    }
}
