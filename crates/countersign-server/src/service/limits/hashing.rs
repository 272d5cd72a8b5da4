//! Queue for password hashing: each hash takes 19 MiB and tens of milliseconds, on purpose.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::slots::Slots;
use crate::service::ServiceError;

/// Maximum number of hashes that are computed at the same time.
const AT_ONCE: usize = 2;
/// Maximum number of waiting callers. Further callers get a 429 response.
const MOST_WAITING: usize = 16;
/// Number of places in the queue that one client address may hold, so that it cannot fill the queue alone.
const PER_ADDRESS: usize = 2;
/// Value of `Retry-After` when the queue is full.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Bounded queue for password hashes.
pub struct Hashing {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    addresses: Slots,
}

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: AtomicUsize::new(0),
            addresses: Slots::new(PER_ADDRESS),
        }
    }
}

impl Hashing {
    /// Runs `work`, which hashes one password, on a blocking thread once a place is free. Fails if the queue is full,
    /// or if the client address has too many places in it.
    pub async fn run<T: Send + 'static>(
        &self,
        client: impl Hash,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let busy = || {
            let message = "too many people are signing in at this moment".to_owned();
            ServiceError::TooMany(message, Some(RETRY_AFTER))
        };
        let slot = self.addresses.take(client).ok_or_else(busy)?;
        let waiting = Waiting::new(&self.waiting).ok_or_else(busy)?;
        let permit = self.running.clone().acquire_owned().await;
        let permit = permit.map_err(|_| ServiceError::Internal)?;
        drop(waiting);
        // The permit moves into the thread: if the caller disconnects, the hash is still being computed and still
        // counts.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((permit, slot));
            done
        });
        working.await.map_err(|_| ServiceError::Internal)
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(count: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn x61_two_at_a_time_a_few_wait_and_the_rest_comes_back() {
        let hashing = Arc::new(Hashing::default());
        let most = Arc::new(Mutex::new((0, 0)));
        let mut tasks = Vec::new();
        for n in 0..100 {
            let (hashing, most) = (hashing.clone(), most.clone());
            tasks.push(tokio::spawn(async move {
                let work = move || {
                    {
                        let mut most = most.lock().unwrap();
                        most.0 += 1;
                        most.1 = most.1.max(most.0);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                    most.lock().unwrap().0 -= 1;
                };
                hashing.run(n, work).await.is_ok()
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += usize::from(task.await.unwrap());
        }
        assert!((2..=AT_ONCE + MOST_WAITING).contains(&done), "{done}");
        assert_eq!(most.lock().unwrap().1, AT_ONCE);
        assert!(hashing.run(1, || ()).await.is_ok(), "all is given back");
    }

    #[tokio::test]
    async fn x61_one_address_does_not_fill_the_queue() {
        let hashing = Arc::new(Hashing::default());
        let mut tasks = Vec::new();
        for _ in 0..30 {
            let hashing = hashing.clone();
            let work = || std::thread::sleep(Duration::from_millis(50));
            tasks.push(tokio::spawn(async move { hashing.run(1, work).await.is_ok() }));
        }
        tokio::task::yield_now().await;
        assert!(hashing.run(2, || ()).await.is_ok());
        let mut done = 0;
        for task in tasks {
            done += usize::from(task.await.unwrap());
        }
        assert_eq!(done, PER_ADDRESS);
    }
}
