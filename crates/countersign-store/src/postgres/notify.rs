//! Waking: at once in this process, by a notification in others, and within a second when that is lost.
//!
//! Notifications are sent after the commit, on a connection of their own: inside the transaction they would make all
//! commits of the server queue behind one lock, and a stuck listener could hold a decision up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::ApprovalId;
use countersign::store::StoreError;
use countersign::wake::Hub;
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_postgres::{AsyncMessage, Error};

use super::connect::{Connector, Owned, Session};
use super::read::Readers;
use super::transaction::Done;

/// The longest a waiter in one process does not see what happened in another, when a notification is lost.
const FLOOR: Duration = Duration::from_secs(1);
/// A payload has room for 8,000 bytes; an id and its comma take 37.
const MOST_IDS: usize = 200;
/// So many groups may wait to be told of. More are left to the floor.
const LONGEST_QUEUE: usize = 1024;
/// So many approvals are looked at in one question.
const LARGEST_LOOK: usize = 1000;
/// A notification that names no approval wakes nobody who waits for one; so it may wait this long for others.
const LONGEST_GATHER: Duration = Duration::from_millis(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Tells of what changed.
#[derive(Clone)]
pub(super) struct Announcer {
    hub: Arc<Hub>,
    others: Option<mpsc::Sender<Vec<ApprovalId>>>,
}

impl Announcer {
    /// Wakes those who wait here, then lets other nodes know.
    pub(super) fn announce(&self, done: &Done) {
        if done.changed.is_empty() && !done.entries {
            return;
        }
        for change in &done.changed {
            self.hub.publish(&change.approval);
        }
        self.hub.signal();
        // In another process nobody can wait for what was not there before; but they may follow all that changes.
        let old = done.changed.iter().filter(|change| !change.is_new);
        let ids: Vec<ApprovalId> = old.map(|change| change.approval.id).collect();
        if let Some(others) = &self.others {
            // A full queue costs the others a second, never us a commit.
            let _ = others.try_send(ids);
        }
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
        let node = format!("{:016x}", RandomState::new().build_hasher().finish());
        let waker = Waker {
            hub: hub.clone(),
            readers: readers.clone(),
        };
        let mut tasks = vec![Owned::spawn(keep_floor(waker.clone()))];
        let mut others = None;
        if notify {
            let (sender, receiver) = mpsc::channel(LONGEST_QUEUE);
            others = Some(sender);
            tasks.push(Owned::spawn(tell(connector.clone(), node.clone(), receiver)));
            tasks.push(Owned::spawn(listen(connector.clone(), node, waker)));
        }
        let announcer = Announcer {
            hub: hub.clone(),
            others,
        };
        (Wakers { _tasks: tasks }, announcer)
    }
}

/// Tells other nodes. What gathers while one notification is under way goes into the next.
async fn tell(connector: Arc<Connector>, node: String, mut queue: mpsc::Receiver<Vec<ApprovalId>>) {
    let mut session: Option<Session> = None;
    while let Some(ids) = queue.recv().await {
        let ids = gather(ids, &mut queue).await;
        if session.as_ref().is_none_or(|session| session.client.is_closed()) {
            session = open_teller(&connector).await;
        }
        let Some(open) = &session else { continue };
        // Without any id it still says that something is new.
        let mut chunks = ids.chunks(MOST_IDS);
        let first = chunks.next().unwrap_or_default();
        for ids in std::iter::once(first).chain(chunks) {
            let sent = open
                .client
                .query_typed(
                    "SELECT pg_notify('countersign', $1)",
                    &[(&payload(&node, ids), tokio_postgres::types::Type::TEXT)],
                )
                .await;
            if sent.is_err() {
                // The others find out by themselves, within a second.
                session = None;
                break;
            }
        }
    }
}

/// What is to be told together.
async fn gather(first: Vec<ApprovalId>, queue: &mut mpsc::Receiver<Vec<ApprovalId>>) -> Vec<ApprovalId> {
    let mut ids = first;
    let deadline = Instant::now() + LONGEST_GATHER;
    while ids.is_empty() {
        let Ok(Some(more)) = tokio::time::timeout_at(deadline, queue.recv()).await else {
            break;
        };
        ids.extend(more);
    }
    while ids.len() < MOST_IDS {
        let Ok(more) = queue.try_recv() else { break };
        ids.extend(more);
    }
    ids
}

/// A notification is worth no disk: without this the server would sync for each of them.
async fn open_teller(connector: &Connector) -> Option<Session> {
    let session = connector.open().await.ok()?;
    let unsynced = session.client.batch_execute("SET synchronous_commit = off").await;
    unsynced.ok().map(|()| session)
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
async fn listen(connector: Arc<Connector>, node: String, waker: Waker) {
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
