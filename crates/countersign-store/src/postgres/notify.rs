//! Waking: at once in this process, by a notification in others, and within a second when that is lost.
//!
//! A notification is sent right behind the COMMIT, as a transaction of its own, and tells of a whole group: inside the
//! transaction it would make all commits of the server queue behind one lock, and a stuck listener could hold a
//! decision up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::ApprovalId;
use countersign::store::StoreError;
use countersign::wake::Hub;
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_postgres::{AsyncMessage, Error};

use super::connect::{Connector, Owned};
use super::read::Readers;
use super::transaction::Done;

/// The longest a waiter in one process does not see what happened in another, when a notification is lost.
const FLOOR: Duration = Duration::from_secs(1);
/// A payload has room for 8,000 bytes; an id and its comma take 37.
const MOST_IDS: usize = 200;
/// So many approvals are looked at in one question.
const LARGEST_LOOK: usize = 1000;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Tells of what changed.
#[derive(Clone)]
pub(super) struct Announcer {
    hub: Arc<Hub>,
    /// This node's name, when others are told.
    node: Option<Arc<str>>,
}

impl Announcer {
    /// Wakes those who wait here.
    pub(super) fn publish(&self, done: &Done) {
        if done.is_unchanged() {
            return;
        }
        for change in &done.changed {
            self.hub.publish(&change.approval);
        }
        self.hub.signal();
    }

    /// What to tell other nodes. Without any id it still says that something is new.
    pub(super) fn payloads(&self, done: &Done) -> Vec<String> {
        let Some(node) = self.node.as_ref().filter(|_| !done.is_unchanged()) else {
            return Vec::new();
        };
        // In another process nobody can wait for what was not there before; but they may follow all that changes.
        let old = done.changed.iter().filter(|change| !change.is_new);
        let ids: Vec<ApprovalId> = old.map(|change| change.approval.id).collect();
        let mut chunks = ids.chunks(MOST_IDS);
        let first = chunks.next().unwrap_or_default();
        let chunks = std::iter::once(first).chain(chunks);
        chunks.map(|ids| payload(node, ids)).collect()
    }
}

/// The tasks that wake. They end with their owner.
pub(super) struct Wakers {
    _tasks: Vec<Owned>,
}

impl Wakers {
    /// Starts them; with `notify`, other nodes are told and listened to.
    pub(super) fn start(
        hub: &Arc<Hub>,
        connector: &Arc<Connector>,
        readers: &Arc<Readers>,
        notify: bool,
    ) -> (Wakers, Announcer) {
        let node: Arc<str> = format!("{:016x}", RandomState::new().build_hasher().finish()).into();
        let waker = Waker {
            hub: hub.clone(),
            readers: readers.clone(),
        };
        let mut tasks = vec![Owned::spawn(keep_floor(waker.clone()))];
        if notify {
            tasks.push(Owned::spawn(listen(connector.clone(), node.clone(), waker)));
        }
        let announcer = Announcer {
            hub: hub.clone(),
            node: notify.then_some(node),
        };
        (Wakers { _tasks: tasks }, announcer)
    }
}

fn payload(node: &str, ids: &[ApprovalId]) -> String {
    let ids: Vec<String> = ids.iter().map(ApprovalId::to_string).collect();
    format!("{node}:{}", ids.join(","))
}

/// The ids in a payload that another node sent; nothing when it is one's own.
fn read_payload(node: &str, payload: &str) -> Option<Vec<ApprovalId>> {
    let (sender, ids) = payload.split_once(':')?;
    (sender != node).then(|| ids.split(',').filter_map(|id| id.parse().ok()).collect())
}

/// Listens to other nodes, and connects again whenever that ends.
async fn listen(connector: Arc<Connector>, node: Arc<str>, waker: Waker) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        if listen_once(&connector, &node, &waker).await.is_ok() {
            pause = SHORTEST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Ends well when it had listened for a while.
async fn listen_once(connector: &Connector, node: &str, waker: &Waker) -> Result<(), Error> {
    let (client, mut driver) = connector.open_undriven().await?;
    let (sender, mut heard) = mpsc::unbounded_channel();
    let _driver = Owned::spawn(async move {
        let mut messages = stream::poll_fn(move |context| driver.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = sender.send(notification.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN countersign").await?;
    while let Some(payload) = heard.recv().await {
        let mut told = read_payload(node, &payload);
        while let Ok(payload) = heard.try_recv() {
            if let Some(more) = read_payload(node, &payload) {
                told.get_or_insert_default().extend(more);
            }
        }
        if let Some(ids) = told {
            waker.hub.signal();
            waker.wake(&ids).await;
        }
    }
    Ok(())
}

/// Looks after those who wait here, once a second and only while there are any.
async fn keep_floor(waker: Waker) {
    let mut ticks = tokio::time::interval(FLOOR);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = HashMap::new();
    loop {
        ticks.tick().await;
        // Who follows all that changes looks for himself.
        waker.hub.signal();
        // What cannot be read now is looked at again in a second.
        let _ = waker.look(&mut seen).await;
    }
}

#[derive(Clone)]
struct Waker {
    hub: Arc<Hub>,
    readers: Arc<Readers>,
}

impl Waker {
    /// Wakes those who wait here for any of these.
    async fn wake(&self, ids: &[ApprovalId]) {
        let awaited = self.hub.awaited(Some(ids));
        for ids in awaited.chunks(LARGEST_LOOK) {
            // What cannot be read now is left to the floor.
            for approval in self.readers.by_ids(ids).await.unwrap_or_default() {
                self.hub.publish(&approval);
            }
        }
    }

    /// Wakes those who wait for something that is not at the version it had at the last look.
    async fn look(&self, seen: &mut HashMap<ApprovalId, u32>) -> Result<(), StoreError> {
        let awaited = match self.hub.is_idle() {
            true => Vec::new(),
            false => self.hub.awaited(None),
        };
        let mut now_seen = HashMap::with_capacity(awaited.len());
        for ids in awaited.chunks(LARGEST_LOOK) {
            let mut changed = Vec::new();
            for (id, version) in self.readers.versions(ids).await? {
                // At first sight nobody knows what the waiter saw, unless nothing ever happened.
                let known = seen.get(&id).copied().unwrap_or(1);
                if version != known {
                    changed.push(id);
                }
                now_seen.insert(id, version);
            }
            if !changed.is_empty() {
                self.wake(&changed).await;
            }
        }
        *seen = now_seen;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_read_back_except_ones_own() {
        let ids: Vec<ApprovalId> = (0..MOST_IDS as u8)
            .map(|n| ApprovalId::from_parts(1_700_000_000_000, &[n; 10]))
            .collect();
        let text = payload("0123456789abcdef", &ids);
        assert!(text.len() < 8000);
        assert_eq!(read_payload("other", &text), Some(ids));
        assert_eq!(read_payload("0123456789abcdef", &text), None);
        assert_eq!(read_payload("other", "nonsense"), None);
        assert_eq!(read_payload("other", &payload("node", &[])), Some(Vec::new()));
    }
}
