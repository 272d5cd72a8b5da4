//! Gathering: which of the waiting commands share the next transaction.
//!
//! Enters: the queue of a lane. Leaves: a group of commands that is neither too many nor too heavy.

use std::time::{Duration, Instant};

use countersign::command::{Answer, Command, PutEntry};
use countersign::executor::Outcome;
use countersign::store::StoreError;
use tokio::sync::{mpsc, oneshot};

/// The most commands that share a commit.
const LARGEST_GROUP: usize = 128;
/// Roughly the most bytes that share a commit; one command alone may be larger.
const HEAVIEST_GROUP: usize = 8 * 1024 * 1024;
/// The longest we wait for callers to come back, whatever a group takes.
const LONGEST_GATHER: Duration = Duration::from_micros(1000);
/// We wait for at most this part of what the last group took: little to lose, and half the transactions to win.
const GATHER_PART: u32 = 3;

/// A command and who waits for its answer.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<Answer, StoreError>>,
}

/// What a lane knows about those who come to it.
#[derive(Default)]
pub(super) struct Gathering {
    // Those who queued up while the last group was under way.
    behind: Vec<Job>,
    last_group: usize,
    last_took: Duration,
}

impl Gathering {
    /// The first command, and all that are there or about to be; nothing when the store is gone.
    ///
    /// Whoever was answered just now is likely to come back at once. Without waiting for them, the callers fall into two
    /// halves that take turns and never meet, with twice the transactions. With one caller this never waits.
    pub(super) async fn next(&mut self, queue: &mut mpsc::Receiver<Job>) -> Option<Vec<Job>> {
        let mut group = std::mem::take(&mut self.behind);
        let expected = group.len() + self.last_group;
        if group.is_empty() {
            group.push(queue.recv().await?);
        }
        let mut weight: usize = group.iter().map(|job| self::weight(&job.command)).sum();
        let deadline = Instant::now() + (self.last_took / GATHER_PART).min(LONGEST_GATHER);
        while group.len() < LARGEST_GROUP && weight < HEAVIEST_GROUP {
            match queue.try_recv() {
                Ok(job) => {
                    weight = weight.saturating_add(self::weight(&job.command));
                    group.push(job);
                }
                Err(_) if group.len() >= expected || Instant::now() >= deadline => break,
                // The runtime's timers are too coarse for this; and who comes back may need this very thread.
                Err(_) => tokio::task::yield_now().await,
            }
        }
        Some(group)
    }

    /// A group ran, and is about to be answered. Takes who is queued by now: so nobody is counted twice.
    pub(super) fn ran(&mut self, count: usize, took: Duration, queue: &mut mpsc::Receiver<Job>) {
        self.last_group = count;
        self.last_took = took;
        let mut weight = 0;
        while self.behind.len() < LARGEST_GROUP && weight < HEAVIEST_GROUP {
            let Ok(job) = queue.try_recv() else { break };
            weight = weight.saturating_add(self::weight(&job.command));
            self.behind.push(job);
        }
    }
}

/// Roughly how many bytes a command writes.
fn weight(command: &Command) -> usize {
    match command {
        Command::Propose(propose) => {
            let calls = propose.calls.iter();
            calls
                .map(|call| {
                    call.arguments.as_bytes().len() + call.sealed.as_ref().map_or(0, |sealed| sealed.len())
                })
                .sum()
        }
        Command::Decide(decide) => decide
            .revisions
            .iter()
            .map(|revision| revision.arguments.as_bytes().len())
            .sum(),
        Command::Finish(finish) => match &finish.outcome {
            Outcome::Succeeded(result) | Outcome::Failed(result) => result.len(),
            Outcome::Unknown(_) => 0,
        },
        Command::PutEntry(PutEntry(entry)) => entry.body.len(),
        _ => 0,
    }
}
