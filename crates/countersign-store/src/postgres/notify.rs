//! Wakes waiters: at once in this process, by a notification in others, and by polling within a second if a
//! notification is lost.
//!
//! A notification is sent right after the COMMIT, in a transaction of its own, and covers a whole group. Inside the
//! transaction it would make all commits of the server queue for one lock, and a stuck listener could delay a decision.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::ApprovalId;
use countersign::store::StoreError;
use countersign::wake::Hub;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::connect::{AbortOnDrop, Connector};
use super::error::StatementError;
use super::limits;
use super::read::Readers;
use super::transaction::GroupResult;

/// Polling interval, and so the longest delay for a waiter if the notification of another process is lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of ids in a payload. PostgreSQL limits a payload to less than 8,000 bytes; an id and its comma take
/// 37.
const MOST_IDS: usize = 200;
/// Maximum number of approvals read by one query.
const LARGEST_QUERY: usize = 1000;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Announces changes to waiters of this process and to other nodes.
#[derive(Clone)]
pub(super) struct Announcer {
    hub: Arc<Hub>,
    /// Name of this node; `None` if other nodes are not notified.
    node: Option<Arc<str>>,
}

impl Announcer {
    /// Wakes waiters of this process: those of the changed approvals, and those that follow all changes.
    pub(super) fn publish(&self, result: &GroupResult) {
        if result.is_unchanged() {
            return;
        }
        for change in &result.changed {
            self.hub.publish(&change.approval);
        }
        self.hub.signal();
    }

    /// Returns the payloads that notify other nodes; none if nothing changed or other nodes are not notified. A payload
    /// without ids means that only new approvals or registry entries have changed.
    pub(super) fn payloads(&self, result: &GroupResult) -> Vec<String> {
        let Some(node) = self.node.as_ref().filter(|_| !result.is_unchanged()) else {
            return Vec::new();
        };
        // No other process can wait for a new approval, so its id is left out. The payload still wakes followers of all
        // changes.
        let old = result.changed.iter().filter(|change| !change.is_new);
        let ids: Vec<ApprovalId> = old.map(|change| change.approval.id).collect();
        let mut chunks = ids.chunks(MOST_IDS);
        let first = chunks.next().unwrap_or_default();
        let chunks = std::iter::once(first).chain(chunks);
        chunks.map(|ids| payload(node, ids)).collect()
    }
}

/// Background tasks that wake waiters. They stop when this is dropped.
pub(super) struct Wakers {
    _tasks: Vec<AbortOnDrop>,
}

impl Wakers {
    /// Starts the tasks. If `notify` is true, this node also notifies other nodes and listens to them.
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
        let mut tasks = vec![AbortOnDrop::spawn(poll(waker.clone()))];
        if notify {
            tasks.push(AbortOnDrop::spawn(listen(connector.clone(), node.clone(), waker)));
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

/// Returns the ids in a payload of another node, without those that cannot be parsed. `None` for a payload of this
/// node, or one without the name of a node.
fn read_payload(node: &str, payload: &str) -> Option<Vec<ApprovalId>> {
    let (sender, ids) = payload.split_once(':')?;
    (sender != node).then(|| ids.split(',').filter_map(|id| id.parse().ok()).collect())
}

/// Listens to other nodes, and reconnects with growing pauses whenever the connection ends.
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

/// Listens until the connection ends. Fails only if listening could not begin.
async fn listen_once(connector: &Connector, node: &str, waker: &Waker) -> Result<(), StatementError> {
    let (sender, mut payloads) = mpsc::unbounded_channel();
    let on_notification = move |payload| {
        let _ = sender.send(payload);
    };
    let session = connector.open_listening(on_notification).await?;
    let listen = || session.within(limits::SHORT, |client| client.batch_execute("LISTEN countersign"));
    listen().await?;
    loop {
        let payload = match tokio::time::timeout(limits::HEARTBEAT, payloads.recv()).await {
            Ok(Some(payload)) => payload,
            Ok(None) => break,
            // Silence may mean that nothing happens, or that the connection is dead. Only an answer to a statement
            // distinguishes the two, and repeating LISTEN changes nothing.
            Err(_) if listen().await.is_ok() => continue,
            Err(_) => break,
        };
        let mut changed = read_payload(node, &payload);
        while let Ok(payload) = payloads.try_recv() {
            if let Some(more) = read_payload(node, &payload) {
                changed.get_or_insert_default().extend(more);
            }
        }
        if let Some(ids) = changed {
            waker.hub.signal();
            waker.wake(&ids).await;
        }
    }
    Ok(())
}

/// Polls once a second for changes that local waiters wait for.
async fn poll(waker: Waker) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_versions = HashMap::new();
    loop {
        ticks.tick().await;
        // Followers of all changes read the feed themselves.
        waker.hub.signal();
        // A failed read is repeated in a second.
        let _ = waker.wake_changed(&mut last_versions).await;
    }
}

#[derive(Clone)]
struct Waker {
    hub: Arc<Hub>,
    readers: Arc<Readers>,
}

impl Waker {
    /// Wakes local waiters of the given approvals.
    async fn wake(&self, ids: &[ApprovalId]) {
        let awaited = self.hub.awaited(Some(ids));
        for ids in awaited.chunks(LARGEST_QUERY) {
            // A failed read is left to `poll`.
            for approval in self.readers.by_ids(ids).await.unwrap_or_default() {
                self.hub.publish(&approval);
            }
        }
    }

    /// Wakes local waiters of approvals whose version has changed since the last poll.
    async fn wake_changed(&self, last_versions: &mut HashMap<ApprovalId, u32>) -> Result<(), StoreError> {
        let awaited = match self.hub.is_idle() {
            true => Vec::new(),
            false => self.hub.awaited(None),
        };
        let mut versions = HashMap::with_capacity(awaited.len());
        for ids in awaited.chunks(LARGEST_QUERY) {
            let mut changed = Vec::new();
            for (id, version) in self.readers.versions(ids).await? {
                // A waiter may have missed changes before the first poll. At version 1 there has been no change yet.
                let last_version = last_versions.get(&id).copied().unwrap_or(1);
                if version != last_version {
                    changed.push(id);
                }
                versions.insert(id, version);
            }
            if !changed.is_empty() {
                self.wake(&changed).await;
            }
        }
        *last_versions = versions;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_other_nodes_can_be_read_back() {
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
