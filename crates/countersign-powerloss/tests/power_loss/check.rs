//! Checks that a store satisfies the invariants after a power cut.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::event::{Event, EventKind, verify};
use countersign::id::{ApprovalId, CallId, Tenant};
use countersign::registry::Kind;
use countersign::state::{CallState, State};
use countersign::store::{Filter, Store, StoreError};
use countersign::time::{Clock as _, ManualClock};

use crate::client;
use crate::life::{self, Ack, Record};

/// Longer than any timeout in the tests.
const HOUR: Duration = Duration::from_secs(3600);

/// Description of a violation. Begins with the violated invariant; a lost acknowledged step violates I5.
pub type Violation = String;

/// Checks a store that was reopened.
pub async fn check(store: Arc<dyn Store>, clock: &ManualClock, record: &Record) -> Vec<Violation> {
    match find_violations(store, clock, record).await {
        Ok(found) => found,
        Err(error) => vec![format!("I5: the store cannot be read: {error}")],
    }
}

/// Runs SQLite's `integrity_check` on the file.
pub fn check_file(path: &Path) -> Vec<Violation> {
    let ask = || {
        let connection = rusqlite::Connection::open(path)?;
        connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    match ask() {
        Ok(verdict) if verdict == "ok" => Vec::new(),
        Ok(verdict) => vec![format!("the file is damaged: {verdict}")],
        Err(error) => vec![format!("the file cannot be checked: {error}")],
    }
}

/// An approval and its events.
type Found = (SharedApproval, Vec<Event>);

async fn find_violations(
    store: Arc<dyn Store>,
    clock: &ManualClock,
    record: &Record,
) -> Result<Vec<Violation>, StoreError> {
    let mut violations = Vec::new();
    let found = everything(&*store).await?;
    for (approval, events) in found.values() {
        violations.extend(check_history(approval, events));
    }
    for ack in record.acks() {
        if !holds(&*store, &found, &ack).await? {
            violations.push(format!("I5: `{ack:?}` was acknowledged, and is lost"));
        }
    }
    let effects = record.effects();
    violations.extend(check_effects(&found, &effects));
    violations.extend(check_end(store, clock, &found).await?);
    Ok(violations)
}

async fn everything(store: &dyn Store) -> Result<BTreeMap<ApprovalId, Found>, StoreError> {
    let tenant = Tenant::single();
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = Filter {
            after,
            limit: Some(500),
            ..Filter::default()
        };
        let page = store.list(&tenant, &filter).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.id);
        for approval in page {
            let events = store.events(&tenant, approval.id).await?;
            all.insert(approval.id, (approval, events));
        }
    }
}

fn check_history(approval: &Approval, events: &[Event]) -> Vec<Violation> {
    let id = approval.id;
    let mut violations = Vec::new();
    if let Err(broken) = verify(approval, events) {
        violations.push(format!("I4: approval {id}: {broken}"));
    }
    let mut is_approved = false;
    for event in events {
        match event.what {
            EventKind::Approved { .. } => is_approved = true,
            EventKind::Started { call, .. } if !is_approved => {
                violations.push(format!("I1: call {id}.{call} started before it was approved"));
            }
            EventKind::Started { call, .. } if starts(events, call) != 1 => {
                violations.push(format!("I2: call {id}.{call} started twice"));
            }
            _ => {}
        }
    }
    violations
}

fn starts(events: &[Event], position: u8) -> usize {
    let started = |event: &&Event| matches!(event.what, EventKind::Started { call, .. } if call == position);
    events.iter().filter(started).count()
}

async fn holds(
    store: &dyn Store,
    found: &BTreeMap<ApprovalId, Found>,
    ack: &Ack,
) -> Result<bool, StoreError> {
    let is = |id, state| found.get(id).is_some_and(|(approval, _)| approval.state == state);
    let call = |call: &CallId| found.get(&call.approval)?.0.call(call.position);
    Ok(match ack {
        Ack::Client(client::Ack::Proposed(id)) => found.contains_key(id),
        Ack::Client(client::Ack::Approved(id)) => is(id, State::Approved),
        Ack::Client(client::Ack::Denied(id)) => is(id, State::Denied),
        Ack::Superseded(id) => is(id, State::Superseded),
        Ack::Withdrawn(id) => is(id, State::Withdrawn),
        Ack::Client(client::Ack::Started(id)) => call(id).is_some_and(|call| call.execution.is_some()),
        Ack::Client(client::Ack::Finished(id)) => {
            call(id).is_some_and(|call| call.state == CallState::Succeeded)
        }
        Ack::Erased(id) => found
            .get(id)
            .is_some_and(|(approval, _)| approval.erased_at.is_some()),
        Ack::Kept(key, version) => {
            let entry = store.entry(Kind::Setting, key).await?;
            entry.is_some_and(|entry| entry.version >= *version)
        }
    })
}

/// Checks I1 and I2: each effect has a recorded start and happened once.
fn check_effects(found: &BTreeMap<ApprovalId, Found>, effects: &[CallId]) -> Vec<Violation> {
    let mut once = HashSet::new();
    let mut violations = Vec::new();
    for call in effects {
        if !once.insert(*call) {
            violations.push(format!("I2: call {call} had its effect twice"));
        }
        let events = found
            .get(&call.approval)
            .map_or(&[][..], |(_, events)| events.as_slice());
        if starts(events, call.position) != 1 {
            violations.push(format!("I1: call {call} had an effect and no start is on record"));
        }
    }
    violations
}

/// Checks I2, I12 and I13: an hour later everything is finished, running calls are unknown, and nothing can be started.
async fn check_end(
    store: Arc<dyn Store>,
    clock: &ManualClock,
    found: &BTreeMap<ApprovalId, Found>,
) -> Result<Vec<Violation>, StoreError> {
    let mut violations = Vec::new();
    clock.set(clock.now().plus(HOUR));
    let gate = life::recording_client(store.clone(), &Arc::default()).gate;
    gate.expire_due().await?;
    for (id, (before, _)) in found {
        let Some(after) = store.approval(&before.tenant, *id).await? else {
            violations.push(format!("approval {id} is gone"));
            continue;
        };
        if !after.is_finished() {
            violations.push(format!("I13: approval {id} is not over"));
        }
        for (position, call) in after.numbered() {
            let was_running = before
                .call(position)
                .is_some_and(|call| call.state == CallState::Running);
            if was_running && call.state != CallState::Unknown {
                violations.push(format!("I12: call {id}.{position} became {}", call.state));
            }
            let approval = *id;
            if gate
                .start(&after.tenant, CallId { approval, position })
                .await?
                .is_ok()
            {
                violations.push(format!("I2: call {id}.{position} started again"));
            }
        }
    }
    Ok(violations)
}
