//! Stopping at a given step, to be killed there: around each command, and within its transaction.
//!
//! The store reads its clock under the lock, once for each command. So a clock that never answers stops a
//! transaction that holds the lock; and for the second command of a group it stops one that has written its first.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;

use countersign::command::{Answer, Command, Sweep};
use countersign::hash::Hash;
use countersign::store::{Store, Stored};
use countersign::time::{Clock, SystemClock, Time};
use futures_util::FutureExt;

use super::child::say;
use crate::layer::Layer;

/// K1 to K12: every place at which a life can be cut off.
pub const POINTS: [&str; 22] = [
    "before propose",
    "locked propose",
    "written propose",
    "after propose",
    "before decide",
    "locked decide",
    "written decide",
    "after decide",
    "before decide and start",
    "locked decide and start",
    "written decide and start",
    "after decide and start",
    "before start",
    "locked start",
    "written start",
    "after start",
    "before effect",
    "after effect",
    "before finish",
    "locked finish",
    "written finish",
    "after finish",
];

/// The point to stop at, and how often to pass it before.
pub struct Halt {
    point: String,
    passes: AtomicU64,
}

impl Halt {
    pub fn new(point: String, passes: u64) -> Halt {
        Halt {
            point,
            passes: AtomicU64::new(passes),
        }
    }

    /// True when this is the point, and it was passed often enough.
    fn is_here(&self, point: &str) -> bool {
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

/// Waits for death.
fn stop(point: &str) -> ! {
    say(&format!("at {point}"));
    loop {
        std::thread::park();
    }
}

/// The machine's clock, which can be told to hold up or to stop whoever asks.
pub struct HaltingClock {
    clock: SystemClock,
    order: Mutex<Order>,
    changed: Condvar,
}

enum Order {
    Tell,
    /// The next one waits.
    Hold,
    Held,
    /// After so many, the next one stops for ever.
    Stop(u32, String),
}

impl HaltingClock {
    pub fn starting_at(time: Time) -> HaltingClock {
        HaltingClock {
            clock: SystemClock::starting_at(time),
            order: Mutex::new(Order::Tell),
            changed: Condvar::new(),
        }
    }

    fn give(&self, order: Order) {
        *self.order.lock().unwrap() = order;
        self.changed.notify_all();
    }

    fn wait_until_held(&self) {
        let order = self.order.lock().unwrap();
        let held = |order: &mut Order| !matches!(order, Order::Held);
        drop(self.changed.wait_while(order, held).unwrap());
    }
}

impl Clock for HaltingClock {
    fn now(&self) -> Time {
        // Callers ask too, ahead of the lock; the orders are for the writer.
        if std::thread::current().name() != Some("countersign-write") {
            return self.clock.now();
        }
        let mut order = self.order.lock().unwrap();
        match &mut *order {
            Order::Tell | Order::Held => {}
            Order::Hold => {
                *order = Order::Held;
                self.changed.notify_all();
                let held = |order: &mut Order| matches!(order, Order::Held);
                drop(self.changed.wait_while(order, held).unwrap());
            }
            Order::Stop(0, point) => stop(point),
            Order::Stop(passes, _) => *passes -= 1,
        }
        self.clock.now()
    }
}

/// Stops around and within the commands of a store.
pub struct Halting {
    pub store: Arc<dyn Store>,
    pub clock: Arc<HaltingClock>,
    pub halt: Arc<Halt>,
}

impl Layer for Halting {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        let name = match &command {
            Command::Propose(_) => "propose",
            Command::Decide(decide) if decide.start.is_some() => "decide and start",
            Command::Decide(_) => "decide",
            Command::Start(_) => "start",
            Command::Finish(_) => "finish",
            _ => return self.store.write(command),
        };
        async move {
            self.halt.reached(&format!("before {name}"));
            let (locked, written) = (format!("locked {name}"), format!("written {name}"));
            if self.halt.is_here(&locked) {
                self.clock.give(Order::Stop(0, locked));
            }
            if self.halt.is_here(&written) {
                self.stop_before_commit(command, written).await;
            }
            let answer = self.store.write(command).await;
            self.halt.reached(&format!("after {name}"));
            answer
        }
        .boxed()
    }
}

impl Halting {
    /// While the writer is held up, the command and a sweep queue up behind it. It takes them as one group, and is
    /// stopped in the sweep: the command's rows are written and not committed.
    async fn stop_before_commit(&self, command: Command, point: String) -> ! {
        let sweep = || {
            Command::Sweep(Sweep {
                limit: 1,
                policy: Hash([0; 32]),
            })
        };
        self.clock.give(Order::Hold);
        let mut held = self.store.write(sweep());
        begin(&mut held).await;
        self.clock.wait_until_held();
        let (mut written, mut stopped) = (self.store.write(command), self.store.write(sweep()));
        begin(&mut written).await;
        begin(&mut stopped).await;
        self.clock.give(Order::Stop(1, point));
        pending().await
    }
}

/// Queues a command and does not wait for its answer.
async fn begin(write: &mut Stored<'_, Answer>) {
    poll_fn(|context| {
        assert!(Pin::new(&mut *write).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}
