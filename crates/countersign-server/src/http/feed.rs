//! Events as they happen, handed out to everybody who listens.
//!
//! One task per tenant reads the store's feed when something changed; listeners share what it read. A listener that
//! is too slow loses its place and is told so: the next one starts from the store again, by its last event's id.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::id::{ApprovalId, Tenant};
use countersign::store::{Cursor, FeedEvent, StoreError};
use tokio::sync::broadcast;

use super::App;

/// How many events a slow listener may be behind.
const QUEUE: usize = 256;
/// How many events are read at a time. Each comes with its approval, arguments and all.
const PAGE: usize = 64;

/// One event, with what listeners filter by.
#[derive(Clone, Debug)]
pub struct Happened {
    /// Its place in the feed.
    pub cursor: Cursor,
    /// What happened.
    pub event: Event,
    /// The approval as it was when the event was read.
    pub approval: SharedApproval,
}

/// All feeds of this process, by tenant.
#[derive(Default)]
pub struct Feeds(Mutex<HashMap<Tenant, broadcast::Sender<Arc<Happened>>>>);

impl Feeds {
    /// Listens to a tenant's events from now on.
    pub async fn listen(
        &self,
        app: &App,
        tenant: &Tenant,
    ) -> Result<broadcast::Receiver<Arc<Happened>>, StoreError> {
        if let Some(receiver) = self.join(tenant) {
            return Ok(receiver);
        }
        // The signal first, the place second: nothing that happens in between is missed.
        let changes = app.store().hub().changes();
        let from = app.store().feed_end(tenant).await?;
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = feeds.get(tenant) {
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = broadcast::channel(QUEUE);
        feeds.insert(tenant.clone(), sender.clone());
        drop(feeds);
        tokio::spawn(follow(app.clone(), tenant.clone(), from, changes, sender));
        Ok(receiver)
    }

    fn join(&self, tenant: &Tenant) -> Option<broadcast::Receiver<Arc<Happened>>> {
        let feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.get(tenant).map(broadcast::Sender::subscribe)
    }

    /// Ends a feed that nobody listens to. False when somebody came just now.
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
    app: App,
    tenant: Tenant,
    mut from: Cursor,
    mut changes: countersign::wake::Changes,
    sender: broadcast::Sender<Arc<Happened>>,
) {
    loop {
        match read(&app, &tenant, from, PAGE).await {
            Ok(page) => {
                let is_last = page.len() < PAGE;
                if let Some(last) = page.last() {
                    from = last.cursor;
                }
                for happened in page {
                    // Nobody listens just now: the loop ends below.
                    let _ = sender.send(Arc::new(happened));
                }
                if !is_last {
                    continue;
                }
            }
            Err(error) => tracing::warn!("the feed of events could not be read: {error}"),
        }
        if sender.receiver_count() == 0 && app.feeds.leave(&tenant) {
            return;
        }
        tokio::select! {
            alive = changes.next() => if !alive { return },
            () = app.stopping.cancelled() => return,
        }
    }
}

/// A page of what happened behind a cursor, with the approvals it happened to.
pub async fn read(
    app: &App,
    tenant: &Tenant,
    after: Cursor,
    limit: usize,
) -> Result<Vec<Happened>, StoreError> {
    let page: Vec<FeedEvent> = app.store().feed(tenant, after, limit).await?;
    let mut approvals: HashMap<ApprovalId, SharedApproval> = HashMap::new();
    let mut happened = Vec::with_capacity(page.len());
    for FeedEvent {
        cursor,
        approval,
        event,
    } in page
    {
        if !approvals.contains_key(&approval)
            && let Some(found) = app.store().approval(tenant, approval).await?
        {
            approvals.insert(approval, found);
        }
        if let Some(approval) = approvals.get(&approval).cloned() {
            happened.push(Happened {
                cursor,
                event,
                approval,
            });
        }
    }
    Ok(happened)
}

/// A cursor as it stands in an event's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub Cursor);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0.transaction, self.0.sequence)
    }
}

impl FromStr for Place {
    type Err = ();
    fn from_str(text: &str) -> Result<Place, ()> {
        if text == "0" {
            return Ok(Place(Cursor::default()));
        }
        let (transaction, sequence) = text.split_once('-').ok_or(())?;
        Ok(Place(Cursor {
            transaction: transaction.parse().map_err(|_| ())?,
            sequence: sequence.parse().map_err(|_| ())?,
        }))
    }
}
