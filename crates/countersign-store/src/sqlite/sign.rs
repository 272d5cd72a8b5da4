//! The sign that somebody wrote to the log: from the kernel where it gives one, else by looking now and then.
//!
//! Enters: the path of a database. Leaves: a thread that sleeps until its log is written.
//! Deliberately absent: what was written, and by whom. And a sign for each write: making one costs whoever writes, so the
//! kernel is asked for one, and for the next when that was seen.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Where the kernel gives no sign.
const POLL: Duration = Duration::from_millis(250);

/// Ends the waiting.
pub(super) struct Ringer {
    over: Arc<AtomicBool>,
    #[cfg(target_os = "linux")]
    bell: Option<kernel::Bell>,
}

impl Ringer {
    pub(super) fn stop(&mut self, thread: Option<&std::thread::JoinHandle<()>>) {
        self.over.store(true, Ordering::SeqCst);
        #[cfg(target_os = "linux")]
        if let Some(bell) = self.bell.take() {
            bell.ring();
        }
        if let Some(thread) = thread.map(std::thread::JoinHandle::thread) {
            Thread::unpark(thread);
        }
    }
}

/// Waits for writes.
pub(super) struct Sign {
    over: Arc<AtomicBool>,
    #[cfg(target_os = "linux")]
    kernel: Option<kernel::Sign>,
}

impl Sign {
    /// A sign of writes to the log of the database at `path`. The log must be there.
    pub(super) fn of_writing(path: &Path) -> (Sign, Ringer) {
        let over = Arc::new(AtomicBool::new(false));
        #[cfg(target_os = "linux")]
        let (kernel, bell) = match kernel::Sign::of_writing(path) {
            Ok((sign, bell)) => (Some(sign), Some(bell)),
            // Too many watches on this machine, or a file system without them.
            Err(_) => (None, None),
        };
        #[cfg(not(target_os = "linux"))]
        let _ = path;
        let sign = Sign {
            over: over.clone(),
            #[cfg(target_os = "linux")]
            kernel,
        };
        let ringer = Ringer {
            over,
            #[cfg(target_os = "linux")]
            bell,
        };
        (sign, ringer)
    }

    /// Sleeps until the log is written; false when that is over.
    pub(super) fn wait(&mut self) -> bool {
        // The bell may have been heard already, by `again`; it rings once.
        while !self.is_over() {
            #[cfg(target_os = "linux")]
            if let Some(kernel) = &mut self.kernel {
                match kernel.wait() {
                    Ok(true) => break,
                    Ok(false) => {}
                    // From now on by looking.
                    Err(_) => self.kernel = None,
                }
                continue;
            }
            std::thread::park_timeout(POLL);
            break;
        }
        !self.is_over()
    }

    /// True when the log was written since; does not wait.
    pub(super) fn again(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(kernel) = &mut self.kernel {
            return kernel.again().unwrap_or_else(|_| {
                self.kernel = None;
                true
            });
        }
        false
    }

    /// True when each look needs no other after it, because looking is all there is.
    pub(super) fn is_poll(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.kernel.is_none();
        #[cfg(not(target_os = "linux"))]
        true
    }

    /// True once nobody wants to know any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::path::{Path, PathBuf};

    use inotify::{EventMask, Events, Inotify, WatchDescriptor, WatchMask, Watches};

    pub(super) struct Sign {
        inotify: Inotify,
        log: PathBuf,
        asked: WatchDescriptor,
    }

    /// Something else that is watched for nothing but its end, which wakes who waits.
    pub(super) struct Bell(Watches, WatchDescriptor);

    impl Bell {
        pub(super) fn ring(mut self) {
            let _ = self.0.remove(self.1);
        }
    }

    impl Sign {
        pub(super) fn of_writing(path: &Path) -> io::Result<(Sign, Bell)> {
            let inotify = Inotify::init()?;
            let mut watches = inotify.watches();
            let bell = watches.add(path, WatchMask::DELETE_SELF)?;
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            let log = PathBuf::from(log);
            let asked = ask(&mut watches, &log)?;
            let sign = Sign { inotify, log, asked };
            Ok((sign, Bell(watches, bell)))
        }

        /// Sleeps; true when the log was written.
        pub(super) fn wait(&mut self) -> io::Result<bool> {
            let mut buffer = [0; 1024];
            let events = self.inotify.read_events_blocking(&mut buffer)?;
            let is_written = tells_of_writing(events, &self.asked);
            self.ask_again(is_written)
        }

        /// True when the log was written since.
        pub(super) fn again(&mut self) -> io::Result<bool> {
            let mut buffer = [0; 1024];
            let is_written = match self.inotify.read_events(&mut buffer) {
                Ok(events) => tells_of_writing(events, &self.asked),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                Err(error) => return Err(error),
            };
            self.ask_again(is_written)
        }

        /// INVARIANT: asked before anybody looks, so no write falls between a look and the next sign.
        fn ask_again(&mut self, is_written: bool) -> io::Result<bool> {
            if is_written {
                self.asked = ask(&mut self.inotify.watches(), &self.log)?;
            }
            Ok(is_written)
        }

        #[cfg(test)]
        pub(super) fn lose(&mut self) {
            self.inotify.watches().remove(self.asked.clone()).unwrap();
        }
    }

    /// Asks for one sign.
    fn ask(watches: &mut Watches, log: &Path) -> io::Result<WatchDescriptor> {
        watches.add(log, WatchMask::MODIFY | WatchMask::ONESHOT)
    }

    /// The end of a watch is an event, too. It comes behind the one that was asked for, and so late that who asks again may
    /// still be given the watch that is about to end: then there is none, and what was written meanwhile was not told.
    fn tells_of_writing(mut events: Events<'_>, asked: &WatchDescriptor) -> bool {
        let tells = |mask: EventMask| mask.contains(EventMask::MODIFY);
        let is_lost = |mask: EventMask| mask.contains(EventMask::IGNORED);
        events.any(|event| tells(event.mask) || is_lost(event.mask) && event.wd == *asked)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn one_sign_for_many_writes_and_the_next_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, "").unwrap();
        let write = || std::fs::write(folder.path().join("store.db-wal"), "written").unwrap();
        write();
        let (mut sign, mut ringer) = Sign::of_writing(&path);
        assert!(!sign.is_poll());
        assert!(!sign.again(), "nothing was written yet");
        (0..3).for_each(|_| write());
        assert!(sign.wait());
        assert!(!sign.again(), "all of them were one");
        write();
        assert!(sign.again());
        assert!(!sign.again());
        write();
        assert!(sign.wait());
        ringer.stop(None);
        assert!(!sign.wait());
    }

    /// As the kernel does when it is asked again while it still puts an end to the last watch.
    #[test]
    fn a_watch_that_was_lost_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let log = folder.path().join("store.db-wal");
        std::fs::write(&path, "").unwrap();
        std::fs::write(&log, "").unwrap();
        let (mut sign, _ringer) = Sign::of_writing(&path);
        sign.kernel.as_mut().unwrap().lose();
        assert!(sign.wait(), "something may have been written");
        assert!(!sign.again());
        std::fs::write(&log, "written").unwrap();
        assert!(sign.wait());
    }
}
