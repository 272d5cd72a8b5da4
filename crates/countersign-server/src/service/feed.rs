//! Live events of each tenant, broadcast to all listeners in this process.
//!
//! One task per tenant reads new events from the store after each change and broadcasts them. A listener that falls too
//! far behind gets a lag error; it has to reconnect and resume from the store with its last event id.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::id::{ApprovalId, Tenant};
use countersign::store::{Cursor, FeedEvent, StoreError};
use tokio::sync::broadcast;

use super::Service;

/// Number of events that a listener may lag behind before it gets a lag error.
const QUEUE: usize = 256;
/// Number of events read from the store at a time. Each event comes with its whole approval, including arguments.
const PAGE: usize = 64;

/// An event and its approval, which listeners filter by.
#[derive(Clone, Debug)]
pub struct EventWithApproval {
    /// Position of the event in the feed, after which a reader resumes.
    pub cursor: Cursor,
    /// The event as recorded in the approval's history.
    pub event: Event,
    /// The approval as it was when the event was read, which may be later than the event.
    pub approval: SharedApproval,
}

/// Broadcast senders by tenant. A tenant has an entry only while there are listeners.
#[derive(Default)]
pub struct Feeds(Mutex<HashMap<Tenant, broadcast::Sender<Arc<EventWithApproval>>>>);

impl Feeds {
    /// Subscribes to a tenant's events from now on, and starts the tenant's feed if it is not running.
    pub async fn listen(
        &self,
        service: &Service,
        tenant: &Tenant,
    ) -> Result<broadcast::Receiver<Arc<EventWithApproval>>, StoreError> {
        if let Some(receiver) = self.join(tenant) {
            return Ok(receiver);
        }
        // Subscribe to changes before reading the position, so that no event in between is missed.
        let changes = service.store().hub().changes();
        let from = service.store().feed_end(tenant).await?;
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = feeds.get(tenant) {
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = broadcast::channel(QUEUE);
        feeds.insert(tenant.clone(), sender.clone());
        drop(feeds);
        tokio::spawn(follow(service.clone(), tenant.clone(), from, changes, sender));
        Ok(receiver)
    }

    fn join(&self, tenant: &Tenant) -> Option<broadcast::Receiver<Arc<EventWithApproval>>> {
        let feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.get(tenant).map(broadcast::Sender::subscribe)
    }

    /// Removes the feed of a tenant if it has no listeners. Returns false if a listener has just joined, so that the
    /// feed has to continue.
    fn leave(&self, tenant: &Tenant) -> bool {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = feeds
            .get(tenant)
            .is_none_or(|sender| sender.receiver_count() == 0);
        if is_idle {
            feeds.remove(tenant);
        }
        is_idle
    }
}

async fn follow(
    service: Service,
    tenant: Tenant,
    mut from: Cursor,
    mut changes: countersign::wake::Changes,
    sender: broadcast::Sender<Arc<EventWithApproval>>,
) {
    loop {
        match read(&service, &tenant, from, PAGE).await {
            Ok(page) => {
                let is_last = page.len() < PAGE;
                if let Some(last) = page.last() {
                    from = last.cursor;
                }
                for happened in page {
                    // An error means that there are no listeners; the loop ends below.
                    let _ = sender.send(Arc::new(happened));
                }
                if !is_last {
                    continue;
                }
            }
            Err(error) => tracing::warn!("the feed of events could not be read: {error}"),
        }
        if sender.receiver_count() == 0 && service.feeds.leave(&tenant) {
            return;
        }
        tokio::select! {
            alive = changes.next() => if !alive { return },
            () = service.stopping.cancelled() => return,
        }
    }
}

/// Reads up to `limit` events after a cursor, with their approvals.
pub async fn read(
    service: &Service,
    tenant: &Tenant,
    after: Cursor,
    limit: usize,
) -> Result<Vec<EventWithApproval>, StoreError> {
    let page: Vec<FeedEvent> = service.store().feed(tenant, after, limit).await?;
    let mut approvals: HashMap<ApprovalId, SharedApproval> = HashMap::new();
    let mut happened = Vec::with_capacity(page.len());
    for FeedEvent {
        cursor,
        approval,
        event,
    } in page
    {
        if !approvals.contains_key(&approval)
            && let Some(found) = service.store().approval(tenant, approval).await?
        {
            approvals.insert(approval, found);
        }
        if let Some(approval) = approvals.get(&approval).cloned() {
            happened.push(EventWithApproval {
                cursor,
                event,
                approval,
            });
        }
    }
    Ok(happened)
}

/// Cursor in the text form used as a server-sent event id: `TRANSACTION-SEQUENCE`, or `0` for the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEventId(pub Cursor);

impl std::fmt::Display for StreamEventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0.transaction, self.0.sequence)
    }
}

impl FromStr for StreamEventId {
    type Err = ();
    fn from_str(text: &str) -> Result<StreamEventId, ()> {
        if text == "0" {
            return Ok(StreamEventId(Cursor::default()));
        }
        let (transaction, sequence) = text.split_once('-').ok_or(())?;
        Ok(StreamEventId(Cursor {
            transaction: transaction.parse().map_err(|_| ())?,
            sequence: sequence.parse().map_err(|_| ())?,
        }))
    }
}
