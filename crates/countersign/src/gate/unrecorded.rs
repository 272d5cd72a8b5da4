//! Retries recording outcomes that the store could not write.
//!
//! An outcome that the store could not write is queued in memory and written again until the store accepts it. If the
//! process ends first, the queued outcomes are handed to the caller, which has to save them until the next start.
//! Nothing is written to files here, and no outcome is given up.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;

use super::Gate;
use crate::command::{Answer, Command, Finish};
use crate::executor::Outcome;
use crate::store::Store;

/// Pause after the first failure. The pause doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of outcomes that are written at once, so that the store can commit them together.
const TOGETHER: usize = 64;
/// Maximum number of bytes of results that are kept. Beyond that, a result is replaced with its size and hash.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Queue of outcomes that wait for the store. One task writes them and ends when the queue is empty.
#[derive(Default)]
pub(super) struct Unrecorded(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    outcomes: BTreeMap<u64, Finish>,
    last_number: u64,
    bytes: usize,
    is_at_work: bool,
}

impl Gate {
    /// Returns the number of outcomes that are known but not recorded, because the store cannot write them.
    pub fn unrecorded(&self) -> usize {
        lock(&self.unrecorded).outcomes.len()
    }

    /// Queues outcomes that an earlier process could not record.
    pub fn requeue_outcomes(&self, outcomes: impl IntoIterator<Item = Finish>) {
        for finish in outcomes {
            self.keep_outcome(finish);
        }
    }

    /// Waits up to `within` until every known outcome is recorded. Returns the outcomes that are still not recorded;
    /// they also stay queued.
    pub async fn flush_unrecorded(&self, within: Duration) -> Vec<Finish> {
        let written = async {
            while self.unrecorded() > 0 {
                tokio::time::sleep(FIRST_PAUSE).await;
            }
        };
        // Outcomes that just failed are waiting out their pause, so try all of them once more.
        let _ = tokio::time::timeout(within, async {
            write_once(&*self.store, &self.unrecorded).await;
            written.await;
        })
        .await;
        lock(&self.unrecorded).outcomes.values().cloned().collect()
    }

    /// Queues an outcome and retries in the background until it is recorded. `start_next` is cleared, because nothing
    /// would run the next call once the retry has started it.
    pub(super) fn keep_outcome(&self, finish: Finish) {
        let mut waiting = lock(&self.unrecorded);
        let finish = Finish {
            start_next: None,
            late: true,
            outcome: match waiting.bytes.saturating_add(weight(&finish)) > MOST_BYTES {
                true => finish.outcome.shortened(),
                false => finish.outcome,
            },
            ..finish
        };
        waiting.bytes = waiting.bytes.saturating_add(weight(&finish));
        waiting.last_number += 1;
        let number = waiting.last_number;
        waiting.outcomes.insert(number, finish);
        if !std::mem::replace(&mut waiting.is_at_work, true) {
            tokio::spawn(work(Arc::downgrade(&self.store), self.unrecorded.clone()));
        }
    }
}

/// Writes queued outcomes in rounds, until none is left or the store is dropped.
async fn work(store: Weak<dyn Store>, unrecorded: Arc<Unrecorded>) {
    let (mut after, mut pause) = (0, FIRST_PAUSE);
    loop {
        let Some(round) = next_round(&unrecorded, &mut after) else {
            return;
        };
        let Some(store) = store.upgrade() else {
            lock(&unrecorded).is_at_work = false;
            return;
        };
        let count = round.len();
        let recorded = write_round(&*store, &unrecorded, round).await;
        drop(store);
        if recorded == count {
            pause = FIRST_PAUSE;
            continue;
        }
        tokio::time::sleep(pause).await;
        pause = match recorded {
            0 => LONGEST_PAUSE.min(pause * 2),
            _ => FIRST_PAUSE,
        };
    }
}

/// Returns the next outcomes after the number `after`, wrapping around at the end of the queue, so that an outcome that
/// cannot be written does not block the others. Returns `None` if the queue is empty.
fn next_round(unrecorded: &Unrecorded, after: &mut u64) -> Option<Vec<(u64, Finish)>> {
    let mut waiting = lock(unrecorded);
    if waiting.outcomes.is_empty() {
        waiting.is_at_work = false;
        return None;
    }
    let behind = |after| {
        let found = waiting.outcomes.range((Excluded(after), Unbounded));
        let found = found.map(|(number, finish)| (*number, finish.clone()));
        found.take(TOGETHER).collect::<Vec<_>>()
    };
    let mut round = behind(*after);
    if round.is_empty() {
        round = behind(0);
    }
    *after = round.last().map_or(0, |(number, _)| *number);
    Some(round)
}

async fn write_once(store: &dyn Store, unrecorded: &Unrecorded) {
    let all: Vec<(u64, Finish)> = {
        let waiting = lock(unrecorded);
        let all = waiting.outcomes.iter();
        all.map(|(number, finish)| (*number, finish.clone())).collect()
    };
    write_round(store, unrecorded, all).await;
}

/// Writes these outcomes and removes the settled ones from the queue. Returns the number of settled outcomes.
async fn write_round(store: &dyn Store, unrecorded: &Unrecorded, round: Vec<(u64, Finish)>) -> usize {
    let writes = round.into_iter().map(|(number, finish)| async move {
        // A refusal means that the call has already ended in another way, so there is nothing left to record.
        let is_settled = matches!(store.write(Command::Finish(finish)).await, Ok(Answer::Finish(_)));
        is_settled.then_some(number)
    });
    let settled: Vec<u64> = join_all(writes).await.into_iter().flatten().collect();
    let mut waiting = lock(unrecorded);
    for number in &settled {
        if let Some(finish) = waiting.outcomes.remove(number) {
            waiting.bytes = waiting.bytes.saturating_sub(weight(&finish));
        }
    }
    settled.len()
}

fn weight(finish: &Finish) -> usize {
    match &finish.outcome {
        Outcome::Succeeded(result) | Outcome::Failed(result) => result.len(),
        Outcome::NotSent(said) | Outcome::Unknown(said) => said.len(),
    }
}

fn lock(unrecorded: &Unrecorded) -> MutexGuard<'_, Waiting> {
    unrecorded.0.lock().unwrap_or_else(PoisonError::into_inner)
}
