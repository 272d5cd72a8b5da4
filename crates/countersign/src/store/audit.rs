//! Audit of a store: checks that its rows, events and log are consistent.
//!
//! The rows of each approval, its calls and its events are compared with each other. Each fault has a hint on what to
//! do. Reading is left to the store: it reads its rows as of one moment, compares its order of events with the log's
//! head, and checks its own indexes.

use std::fmt;

use super::record::{ApprovalColumns, ApprovalRow, CallColumns, CallRow, decode_approval, decode_call};
use crate::approval::Approval;
use crate::event::{ContentHash, Event, verify_rows};
use crate::hash::Hash;
use crate::id::{Agent, ApprovalId, Channel, Run, Tenant};
use crate::log::{Checkpoint, LogHead};
use crate::store::StoreError;
use crate::time::Time;

/// Maximum number of faults in a result. Further ones are only counted.
pub const MOST_FAULTS: usize = 1_000;

/// Scope of an audit.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Only approvals of this tenant; `None` for all tenants. The SQL stores skip the log for a single tenant, because
    /// the log covers all of them.
    pub tenant: Option<Tenant>,
    /// If given, the audit checks only this many of the newest approvals and as many chosen at random, and skips the
    /// log.
    pub sample: Option<u32>,
    /// A checkpoint of the log that was saved outside the store: the log must still begin with it. Ignored if the log
    /// is skipped.
    pub expected: Option<Checkpoint>,
}

/// Progress of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditProgress {
    /// Steps done so far.
    pub done: u64,
    /// Total number of steps, as known at the start.
    pub total: u64,
}

/// Result of an audit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Audited {
    /// Number of approvals checked.
    pub approvals: u64,
    /// Number of events checked.
    pub events: u64,
    /// The stored head of the log.
    pub head: Checkpoint,
    /// Number of events not in the log yet. The next sweep of any service adds them.
    pub unlogged: u64,
    /// Inconsistencies found; at most [`MOST_FAULTS`].
    pub faults: Vec<Fault>,
    /// Number of further faults that are not in `faults`.
    pub more_faults: u64,
}

impl Audited {
    /// Creates a result without faults, for a log with this head.
    pub fn new(head: Checkpoint) -> Audited {
        Audited {
            approvals: 0,
            events: 0,
            head,
            unlogged: 0,
            faults: Vec::new(),
            more_faults: 0,
        }
    }

    /// Creates the result of an audit that ended early because of this fault.
    pub fn ended_by(fault: Fault) -> Audited {
        let mut audited = Audited::new(crate::log::LogHead::default().checkpoint());
        audited.add(fault);
        audited
    }

    /// Returns true if no fault was found.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.more_faults == 0
    }

    /// Adds a fault, or only counts it once there are [`MOST_FAULTS`].
    pub fn add(&mut self, fault: Fault) {
        match self.faults.len() < MOST_FAULTS {
            true => self.faults.push(fault),
            false => self.more_faults = self.more_faults.saturating_add(1),
        }
    }

    /// Merges the result of another part of the same audit.
    pub fn join(&mut self, other: Audited) {
        self.approvals = self.approvals.saturating_add(other.approvals);
        self.events = self.events.saturating_add(other.events);
        self.more_faults = self.more_faults.saturating_add(other.more_faults);
        other.faults.into_iter().for_each(|fault| self.add(fault));
    }
}

/// An inconsistency in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Stored tenant of the approval; `None` if the fault concerns the whole store.
    pub tenant: Option<String>,
    /// Id of the approval, unless the fault concerns the whole store.
    pub approval: Option<String>,
    /// Stable code for programs.
    pub code: &'static str,
    /// Description of the fault, for operators.
    pub message: String,
    /// Advice on what to do next.
    pub hint: &'static str,
}

const FROM_BACKUP: &str =
    "none of its calls run; compare it with a backup, and find out who can write to the store";
const LOG_CHANGED: &str =
    "compare with a backup: something other than this program removed, added or moved events";

impl Fault {
    /// Creates a fault of the whole store, usually its log.
    pub fn of_store(code: &'static str, message: impl fmt::Display) -> Fault {
        Fault {
            tenant: None,
            approval: None,
            code,
            message: message.to_string(),
            hint: LOG_CHANGED,
        }
    }

    /// Creates a fault for damaged data: the store could be opened but part of it not read, so the rest was not
    /// audited.
    pub fn of_damage(message: impl fmt::Display) -> Fault {
        Fault {
            hint: "keep a copy of it and restore a backup; the check stopped here",
            ..Fault::of_store("damaged", message)
        }
    }

    /// Creates a fault that reports an unexpected database schema.
    pub fn of_schema(message: impl fmt::Display) -> Fault {
        Fault {
            hint: "something other than this program has changed the database; restore a backup",
            ..Fault::of_store("schema", message)
        }
    }

    /// Creates a fault of one approval.
    pub fn of_approval(tenant: &str, id: &[u8], code: &'static str, message: impl fmt::Display) -> Fault {
        let id = match id.try_into() {
            Ok(id) => ApprovalId::from_bytes(id).to_string(),
            Err(_) => format!("of {} bytes", id.len()),
        };
        Fault {
            tenant: Some(tenant.to_owned()),
            approval: Some(id),
            code,
            message: message.to_string(),
            hint: FROM_BACKUP,
        }
    }
}

/// Formats as `approval ID of TENANT: MESSAGE`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(approval) = &self.approval {
            write!(f, "approval {approval}")?;
            if let Some(tenant) = &self.tenant {
                write!(f, " of `{tenant}`")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

/// A stored approval row.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are columns")]
pub struct StoredApproval {
    pub tenant: String,
    pub id: Vec<u8>,
    pub channel: Option<String>,
    pub agent: String,
    pub run: Option<String>,
    pub state: i64,
    pub version: i64,
    pub due_at: Option<i64>,
    pub key: Option<String>,
    pub body: Vec<u8>,
    /// Column `expires_at`, in microseconds since 1970; `None` if the store has no such column.
    pub expires_at: Option<i64>,
    /// The approval that this one undoes. The outer `None` means that the store has no such column.
    pub undoes: Option<Option<Vec<u8>>>,
}

/// A stored call row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are columns")]
pub struct StoredCall {
    pub position: i64,
    pub columns: CallColumns,
    pub body: Vec<u8>,
}

/// A stored event row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are columns")]
pub struct StoredEvent {
    pub number: i64,
    pub at: i64,
    /// Hash of the policy that the event refers to; `None` if that policy is missing from the store.
    pub policy: Option<[u8; 32]>,
    pub by: String,
    pub what: String,
    pub link: [u8; 32],
    pub content: Option<[u8; 16]>,
}

/// Checks an approval's rows against its events, which must be in order. Returns the first fault, or `None` if there is
/// none.
pub fn check(row: &StoredApproval, calls: Vec<StoredCall>, events: Vec<StoredEvent>) -> Option<Fault> {
    let fault = |code, message: String| Some(Fault::of_approval(&row.tenant, &row.id, code, message));
    if events.is_empty() {
        return fault("no_events", "it has no events".to_owned());
    }
    let events = match events
        .into_iter()
        .map(StoredEvent::read)
        .collect::<Result<Vec<Event>, _>>()
    {
        Ok(events) => events,
        Err(why) => return fault("unreadable", why),
    };
    let (approval, content) = match read(row, calls) {
        Ok(read) => read,
        Err(why) => return fault("unreadable", why),
    };
    if let Err(broken) = verify_rows(&approval, &events, content) {
        return fault("history", broken.to_string());
    }
    match other_column(row, &approval) {
        Some(column) => fault(
            "column",
            format!("the column `{column}` is not what its body says"),
        ),
        None => None,
    }
}

/// Checks an approval that a command is about to change or act on.
///
/// INVARIANT: no command acts on rows that do not match their events, so rows changed by anything other than this
/// program never release a call (X63).
pub fn check_locked(
    approval: &Approval,
    events: &[Event],
    content: Option<ContentHash>,
) -> Result<(), StoreError> {
    verify_rows(approval, events, content).map_err(|broken| {
        StoreError::Impossible(format!(
            "approval {} was changed by something other than this program: {broken}",
            approval.id
        ))
    })
}

fn read(row: &StoredApproval, calls: Vec<StoredCall>) -> Result<(Approval, Option<ContentHash>), String> {
    let in_order = (1i64..).zip(&calls).all(|(place, call)| place == call.position);
    if calls.is_empty() || !in_order {
        return Err("its calls have gaps".to_owned());
    }
    let state = i16::try_from(row.state).map_err(|_| "an unknown state")?;
    let version = u32::try_from(row.version).map_err(|_| "an unknown version")?;
    let stored = ApprovalRow {
        tenant: &row.tenant,
        id: &row.id,
        channel: row.channel.as_deref(),
        agent: &row.agent,
        run: row.run.as_deref(),
        state,
        version,
        body: &row.body,
    };
    let content = stored.content(calls.iter().map(|call| CallRow {
        state: call.columns.state,
        tool: &call.columns.tool,
        original: call.columns.original.as_deref(),
        sealed: call.columns.sealed.as_deref(),
        body: &call.body,
    }));
    let columns = ApprovalColumns {
        tenant: Tenant::new(row.tenant.as_str()).map_err(text)?,
        id: ApprovalId::from_bytes(row.id.as_slice().try_into().map_err(text)?),
        channel: row
            .channel
            .as_deref()
            .map(Channel::stored)
            .transpose()
            .map_err(text)?,
        agent: Agent::stored(row.agent.as_str()).map_err(text)?,
        run: row.run.as_deref().map(Run::new).transpose().map_err(text)?,
        state,
        version,
    };
    let calls = calls.into_iter();
    let calls = calls.map(|call| decode_call(call.columns, &call.body));
    let calls = calls.collect::<Result<Vec<_>, _>>().map_err(text)?;
    let approval = decode_approval(columns, &row.body, calls).map_err(text)?;
    Ok((approval, content))
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

/// Returns the name of the first redundant column that disagrees with the body; `None` if all agree.
fn other_column(row: &StoredApproval, approval: &Approval) -> Option<&'static str> {
    let key = approval.key.as_ref().map(|(key, _)| key.as_str());
    let undoes = approval.undoes.map(|undoes| undoes.approval);
    let undoes = undoes.as_ref().map(|id| id.as_bytes().as_slice());
    let same = [
        ("due_at", row.due_at == approval.due_at().map(Time::as_micros)),
        ("key", row.key.as_deref() == key),
        (
            "expires_at",
            row.expires_at
                .is_none_or(|at| at == approval.expires_at.as_micros()),
        ),
        (
            "undoes",
            row.undoes.as_ref().is_none_or(|found| found.as_deref() == undoes),
        ),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(column, _)| column)
}

impl StoredEvent {
    fn read(self) -> Result<Event, String> {
        let number = self.number;
        let unreadable = |why: &dyn fmt::Display| format!("event {number} cannot be read: {why}");
        let policy = self
            .policy
            .ok_or_else(|| unreadable(&"its policy is not there"))?;
        let by = self.by.parse().map_err(|error| unreadable(&error))?;
        let event = Event::stored(
            u32::try_from(number).map_err(|error| unreadable(&error))?,
            Time::from_micros(self.at),
            Hash(policy),
            by,
            self.what,
            Hash(self.link),
            self.content.map(ContentHash),
        );
        event.map_err(|error| unreadable(&error))
    }
}

/// Compares a log with its stored head, and with a checkpoint that was saved outside the store.
#[derive(Debug)]
pub struct LogCheck {
    kept: LogHead,
    expected: Option<Checkpoint>,
    found: LogHead,
    at_expected: Option<Checkpoint>,
}

impl LogCheck {
    /// Creates a check to which the events of the log are added from the first one on. `kept` is the stored head;
    /// `expected` is a checkpoint saved outside the store, if there is one.
    pub fn new(kept: LogHead, expected: Option<Checkpoint>) -> LogCheck {
        let mut check = LogCheck {
            kept,
            expected,
            found: LogHead::default(),
            at_expected: None,
        };
        check.note();
        check
    }

    /// Returns the number of events added so far.
    pub fn size(&self) -> u64 {
        self.found.size()
    }

    /// Adds the leaf hash of the log's next event.
    pub fn push(&mut self, leaf: Hash) {
        self.found.push(leaf);
        self.note();
    }

    fn note(&mut self) {
        if self
            .expected
            .is_some_and(|expected| expected.size == self.found.size())
        {
            self.at_expected = Some(self.found.checkpoint());
        }
    }

    /// Returns the faults found. Must be called after the last event was added.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let (kept, found) = (self.kept.checkpoint(), self.found.checkpoint());
        if kept.size != found.size {
            let message = format!("the log has {} events, and there are {}", kept.size, found.size);
            faults.push(Fault::of_store("log_size", message));
        } else if kept != found {
            let message = format!("the events do not give the log's root {}", kept.root.short());
            faults.push(Fault::of_store("log_root", message));
        }
        if let Some(expected) = self.expected
            && self.at_expected != self.expected
        {
            let message = match found.size < expected.size {
                true => format!(
                    "the log has {} events, and once had {}",
                    found.size, expected.size
                ),
                false => format!(
                    "the first {} events are not those of the given root",
                    expected.size
                ),
            };
            faults.push(Fault::of_store("log_prefix", message));
        }
        faults
    }
}
