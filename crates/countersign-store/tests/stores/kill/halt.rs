//! Stops a process at a given step, to be killed there: around each command, and within its transaction.
//!
//! The store reads its clock under the lock, once per command. A clock that never returns therefore stops a transaction
//! that holds the lock; and at the second command of a group commit it stops one that has written its first.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use countersign::command::{Answer, Command, Sweep};
use countersign::hash::Hash;
use countersign::store::{Store, Stored};
use countersign::time::{Clock, SystemClock, Time};
use futures_util::FutureExt;

use super::child::say;
use crate::layer::Layer;

/// All points at which an approval can be interrupted: before each command, while the command holds the lock, within
/// its transaction, and after it; and around the effect of the call.
pub const POINTS: [&str; 26] = [
    "before propose",
    "locked propose",
    "within propose",
    "after propose",
    "before decide",
    "locked decide",
    "within decide",
    "after decide",
    "before decide and start",
    "locked decide and start",
    "within decide and start",
    "after decide and start",
    "before start",
    "locked start",
    "within start",
    "after start",
    "before effect",
    "after effect",
    "before finish",
    "locked finish",
    "within finish",
    "after finish",
    "before sweep",
    "locked sweep",
    "within sweep",
    "after sweep",
];

/// Returns the name of a command in [`POINTS`], if a process can be stopped around it.
pub fn name_in_points(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Propose(_) => "propose",
        Command::Decide(decide) if decide.start.is_some() => "decide and start",
        Command::Decide(_) => "decide",
        Command::Start(_) => "start",
        Command::Finish(_) => "finish",
        Command::Sweep(_) => "sweep",
        _ => return None,
    })
}

/// The point to stop at, and how often the process passes it before it stops.
pub struct HaltPoint {
    point: String,
    passes: AtomicU64,
}

impl HaltPoint {
    pub fn new(point: String, passes: u64) -> HaltPoint {
        HaltPoint {
            point,
            passes: AtomicU64::new(passes),
        }
    }

    /// Returns true if the process has to stop here: at the right point, and passed often enough.
    pub fn is_here(&self, point: &str) -> bool {
        let less = |passes: u64| passes.checked_sub(1);
        self.point == point
            && self
                .passes
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_err()
    }

    pub fn reached(&self, point: &str) {
        if self.is_here(point) {
            stop(point);
        }
    }
}

/// Blocks until the process is killed.
pub fn stop(point: &str) -> ! {
    say(&format!("at {point}"));
    loop {
        std::thread::park();
    }
}

/// The system clock, which can be told to delay or block its callers.
pub struct HaltingClock {
    clock: SystemClock,
    /// Offset ahead of the system clock, in microseconds.
    ahead: AtomicU64,
    mode: Mutex<ClockMode>,
    changed: Condvar,
}

enum ClockMode {
    Run,
    /// The next caller waits until told otherwise.
    Hold,
    Held,
    /// After this many calls, the next caller blocks forever.
    Stop(u32, String),
}

impl HaltingClock {
    pub fn starting_at(time: Time) -> HaltingClock {
        HaltingClock {
            clock: SystemClock::starting_at(time),
            ahead: AtomicU64::new(0),
            mode: Mutex::new(ClockMode::Run),
            changed: Condvar::new(),
        }
    }

    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap();
        self.ahead.fetch_add(micros, Ordering::SeqCst);
    }

    fn time(&self) -> Time {
        let ahead = Duration::from_micros(self.ahead.load(Ordering::SeqCst));
        self.clock.now().plus(ahead)
    }

    fn set_mode(&self, mode: ClockMode) {
        *self.mode.lock().unwrap() = mode;
        self.changed.notify_all();
    }

    fn wait_until_held(&self) {
        let mode = self.mode.lock().unwrap();
        let is_waiting = |mode: &mut ClockMode| !matches!(mode, ClockMode::Held);
        drop(self.changed.wait_while(mode, is_waiting).unwrap());
    }
}

impl Clock for HaltingClock {
    fn now(&self) -> Time {
        // Other threads read the clock without the lock; orders apply only to the writer thread.
        if std::thread::current().name() != Some("countersign-write") {
            return self.time();
        }
        let mut mode = self.mode.lock().unwrap();
        match &mut *mode {
            ClockMode::Run | ClockMode::Held => {}
            ClockMode::Hold => {
                *mode = ClockMode::Held;
                self.changed.notify_all();
                let is_waiting = |mode: &mut ClockMode| matches!(mode, ClockMode::Held);
                drop(self.changed.wait_while(mode, is_waiting).unwrap());
            }
            ClockMode::Stop(0, point) => stop(point),
            ClockMode::Stop(passes, _) => *passes -= 1,
        }
        self.time()
    }
}

/// Store wrapper that stops around and within commands.
pub struct HaltingStore {
    pub store: Arc<dyn Store>,
    pub clock: Arc<HaltingClock>,
    pub halt: Arc<HaltPoint>,
}

impl Layer for HaltingStore {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        let Some(name) = name_in_points(&command) else {
            return self.store.write(command);
        };
        async move {
            self.halt.reached(&format!("before {name}"));
            let (locked, within) = (format!("locked {name}"), format!("within {name}"));
            if self.halt.is_here(&locked) {
                self.clock.set_mode(ClockMode::Stop(0, locked));
            }
            if self.halt.is_here(&within) {
                self.stop_before_commit(command, within).await;
            }
            let answer = self.store.write(command).await;
            self.halt.reached(&format!("after {name}"));
            answer
        }
        .boxed()
    }
}

impl HaltingStore {
    /// Queues the command and a sweep while the writer is delayed. The writer takes both as one group and is stopped in
    /// the sweep, when the command's rows are written and not committed.
    async fn stop_before_commit(&self, command: Command, point: String) -> ! {
        let sweep = || {
            Command::Sweep(Sweep {
                limit: 1,
                policy: Hash([0; 32]),
            })
        };
        self.clock.set_mode(ClockMode::Hold);
        let mut is_waiting = self.store.write(sweep());
        begin(&mut is_waiting).await;
        self.clock.wait_until_held();
        let (mut written, mut stopped) = (self.store.write(command), self.store.write(sweep()));
        begin(&mut written).await;
        begin(&mut stopped).await;
        self.clock.set_mode(ClockMode::Stop(1, point));
        pending().await
    }
}

/// Queues a command without waiting for its answer.
async fn begin(write: &mut Stored<'_, Answer>) {
    poll_fn(|context| {
        assert!(Pin::new(&mut *write).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}
