//! The sign that somebody wrote to the log: from the kernel where it gives one, else by looking now and then.
//!
//! Enters: the path of a database. Leaves: a thread that sleeps until its log is written.
//! Deliberately absent: what was written, and by whom.

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
    watch: Option<(inotify::Watches, inotify::WatchDescriptor)>,
}

impl Ringer {
    pub(super) fn stop(&mut self, thread: Option<&std::thread::JoinHandle<()>>) {
        self.over.store(true, Ordering::SeqCst);
        #[cfg(target_os = "linux")]
        if let Some((mut watches, descriptor)) = self.watch.take() {
            // Its end is an event too, and wakes who waits.
            let _ = watches.remove(descriptor);
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
    inotify: Option<inotify::Inotify>,
}

impl Sign {
    /// A sign of each write to the log of the database at `path`. The log must be there.
    pub(super) fn of_writing(path: &Path) -> (Sign, Ringer) {
        let over = Arc::new(AtomicBool::new(false));
        #[cfg(target_os = "linux")]
        let (inotify, watch) = match watch_log(path) {
            Ok((inotify, watches, descriptor)) => (Some(inotify), Some((watches, descriptor))),
            // Too many watches on this machine, or a file system without them.
            Err(_) => (None, None),
        };
        #[cfg(not(target_os = "linux"))]
        let _ = path;
        let sign = Sign {
            over: over.clone(),
            #[cfg(target_os = "linux")]
            inotify,
        };
        let ringer = Ringer {
            over,
            #[cfg(target_os = "linux")]
            watch,
        };
        (sign, ringer)
    }

    /// Sleeps until the log is written; false when that is over.
    pub(super) fn wait(&mut self) -> bool {
        // The last event may have been read already, by `again`; no other will come.
        if self.is_over() {
            return false;
        }
        #[cfg(target_os = "linux")]
        if let Some(inotify) = &mut self.inotify {
            let woken = inotify.read_events_blocking(&mut [0; 1024]).is_ok();
            if !woken {
                // From now on by looking.
                self.inotify = None;
            }
            return !self.is_over();
        }
        std::thread::park_timeout(POLL);
        !self.is_over()
    }

    /// True when the log was written since; does not wait.
    pub(super) fn again(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(inotify) = &mut self.inotify {
            return inotify.read_events(&mut [0; 1024]).is_ok();
        }
        false
    }

    /// True when each look needs no other after it, because looking is all there is.
    pub(super) fn is_poll(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.inotify.is_none();
        #[cfg(not(target_os = "linux"))]
        true
    }

    /// True once nobody wants to know any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

#[cfg(target_os = "linux")]
fn watch_log(path: &Path) -> std::io::Result<(inotify::Inotify, inotify::Watches, inotify::WatchDescriptor)> {
    let inotify = inotify::Inotify::init()?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut watches = inotify.watches();
    let descriptor = watches.add(Path::new(&log), inotify::WatchMask::MODIFY)?;
    Ok((inotify, watches, descriptor))
}
