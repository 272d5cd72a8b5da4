//! A session: what was said between a person and an agent, kept in the store's registry.
//!
//! Enters: steps, each appended before anybody sees what it leads to. Leaves: the same messages, also after a restart.
//! It is a log: an entry is written once, under the next number, and whoever finds that number taken has lost a race.
//! Deliberately absent: decisions. A session remembers which approvals it waits for; what became of them is read from
//! the store, never from what was said.

use std::sync::Arc;
use std::time::Duration;

use countersign::hash::Fields;
use countersign::id::{Agent, ApprovalId, Channel, Tenant};
use countersign::registry::{Entry, Kind, LARGEST_BODY, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::message::{CallResult, Message, Source};
use crate::model::Usage;

/// How long what was said is kept.
pub const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most entries of one session.
pub const LONGEST: u32 = 20_000;

/// The first and the last piece of a step are marked, so that half a step is never taken for one.
const FIRST: u8 = 1;
const LAST: u8 = 2;

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Whose world.
    pub tenant: Tenant,
    /// The agent.
    pub agent: Agent,
    /// The conversation.
    pub channel: Channel,
}

/// What was said, and what is still open.
#[derive(Clone, Debug)]
pub struct Session {
    owner: Owner,
    prefix: String,
    next: u32,
    messages: Vec<Message>,
    open: Vec<ApprovalId>,
    settled: Vec<ApprovalId>,
    specialist: Option<String>,
    usage: Usage,
}

/// What one step adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// What was said.
    pub messages: Vec<Message>,
    /// An approval whose end the model is to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<ApprovalId>,
    /// An approval whose end it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<ApprovalId>,
    /// Who takes the messages from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialist: Option<String>,
    /// What it took.
    #[serde(skip_serializing_if = "is_none")]
    pub usage: Usage,
}

/// Why a session cannot be read, or does not take a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else added to it meanwhile.
    #[error("another message is being answered in this session")]
    Changed,
    /// It does not end.
    #[error("this session has become too long")]
    TooLong,
    /// What is kept is not what was written.
    #[error("this session cannot be read: {0}")]
    Unreadable(String),
}

impl SessionError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            SessionError::Store(error) => error.hint(),
            SessionError::Changed => "wait for the answer, then say it again",
            SessionError::TooLong => "start a new one",
            SessionError::Unreadable(_) => "start a new one, and keep a copy of the store",
        }
    }
}

impl Session {
    /// The session of an owner; empty when nothing was said yet.
    pub async fn open(store: &dyn Store, owner: Owner) -> Result<Session, SessionError> {
        let hash = Fields::new("countersign/session/1")
            .field(owner.tenant.as_str().as_bytes())
            .field(owner.agent.as_str().as_bytes())
            .field(owner.channel.as_str().as_bytes())
            .finish();
        let mut session = Session {
            prefix: format!("{hash}/"),
            next: 0,
            messages: Vec::new(),
            open: Vec::new(),
            settled: Vec::new(),
            specialist: None,
            usage: Usage::default(),
            owner,
        };
        session.load(store).await?;
        session.mend();
        Ok(session)
    }

    /// Whose it is.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What was said, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The approvals whose end the model was not told yet, oldest first.
    pub fn open_approvals(&self) -> &[ApprovalId] {
        &self.open
    }

    /// The approvals whose end it was told, oldest first.
    pub fn settled_approvals(&self) -> &[ApprovalId] {
        &self.settled
    }

    /// Who took the last message.
    pub fn specialist(&self) -> Option<&str> {
        self.specialist.as_deref()
    }

    /// What all answers took so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// A name for what is about to happen: the same for nothing else.
    pub fn next_run(&self) -> String {
        let short: String = self.prefix.chars().take(16).collect();
        format!("{short}-{}", self.next)
    }

    /// Adds a step. When this answers, it is as durable as the store.
    pub async fn append(&mut self, store: &dyn Store, step: Step) -> Result<(), SessionError> {
        let bytes = serde_json::to_vec(&step).map_err(|error| SessionError::Unreadable(error.to_string()))?;
        let expires_at = Some(store.now().await?.plus(KEPT));
        let count = bytes.len().div_ceil(LARGEST_BODY - 1).max(1);
        for (number, piece) in bytes.chunks(LARGEST_BODY - 1).enumerate() {
            if self.next >= LONGEST {
                return Err(SessionError::TooLong);
            }
            let first = if number == 0 { FIRST } else { 0 };
            let last = if number + 1 == count { LAST } else { 0 };
            let mut body = Vec::with_capacity(piece.len() + 1);
            body.push(first | last);
            body.extend_from_slice(piece);
            let entry = Entry {
                kind: Kind::Turn,
                key: self.key(self.next),
                tenant: self.owner.tenant.clone(),
                body: Arc::from(body),
                version: 0,
                expires_at,
            };
            match store.put_entry(entry).await? {
                Put::Kept(_) => self.next += 1,
                Put::Changed => return Err(SessionError::Changed),
            }
        }
        self.take(step);
        Ok(())
    }

    fn key(&self, number: u32) -> String {
        format!("{}{number:08}", self.prefix)
    }

    async fn load(&mut self, store: &dyn Store) -> Result<(), SessionError> {
        let mut after = self.prefix.clone();
        let mut piece: Option<Vec<u8>> = None;
        loop {
            let tenant = &self.owner.tenant.clone();
            let page = store
                .entries(tenant, Kind::Turn, Some(&after), LONGEST_PAGE)
                .await?;
            let is_last = page.len() < LONGEST_PAGE;
            for entry in page {
                let Some(number) = entry.key.strip_prefix(&self.prefix) else {
                    return Ok(());
                };
                let number: u32 = number
                    .parse()
                    .map_err(|_| SessionError::Unreadable(format!("`{number}` is not a number")))?;
                self.next = number.saturating_add(1);
                self.read_piece(&entry.body, &mut piece)?;
                after = entry.key;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn read_piece(&mut self, body: &[u8], piece: &mut Option<Vec<u8>>) -> Result<(), SessionError> {
        let Some((mark, text)) = body.split_first() else {
            return Err(SessionError::Unreadable("an entry is empty".to_owned()));
        };
        if mark & FIRST != 0 {
            // Whatever was begun before was never finished, and nobody was told of it.
            *piece = Some(Vec::new());
        }
        let Some(bytes) = piece else {
            // The beginning was swept away with its time.
            return Ok(());
        };
        bytes.extend_from_slice(text);
        if mark & LAST != 0 {
            let step: Step =
                serde_json::from_slice(bytes).map_err(|error| SessionError::Unreadable(error.to_string()))?;
            *piece = None;
            self.take(step);
        }
        Ok(())
    }

    fn take(&mut self, step: Step) {
        self.messages.extend(step.messages);
        self.open.extend(step.opened);
        if let Some(settled) = step.settled {
            self.open.retain(|open| *open != settled);
            self.settled.push(settled);
        }
        if step.specialist.is_some() {
            self.specialist = step.specialist;
        }
        self.usage = self.usage.plus(step.usage);
    }

    /// Calls without results are those of a process that ended in the middle: nobody knows what became of them, and a
    /// model takes no conversation in which a result is missing.
    fn mend(&mut self) {
        let mut mended = Vec::with_capacity(self.messages.len());
        let mut messages = std::mem::take(&mut self.messages).into_iter().peekable();
        while let Some(message) = messages.next() {
            let missing = match &message {
                Message::Agent { calls, .. }
                    if !calls.is_empty() && !matches!(messages.peek(), Some(Message::Results { .. })) =>
                {
                    Some(calls.iter().map(interrupted).collect::<Vec<_>>())
                }
                _ => None,
            };
            mended.push(message);
            mended.extend(missing.map(|results| Message::Results { results }));
        }
        self.messages = mended;
    }
}

fn interrupted(call: &crate::message::ModelCall) -> CallResult {
    CallResult {
        id: call.id.clone(),
        tool: call.tool.clone(),
        status: "unknown".to_owned(),
        is_error: true,
        content: r#"{"status":"unknown","message":"It was interrupted. Look before you try again."}"#
            .to_owned(),
        from: Source::Gate,
    }
}

fn is_none(usage: &Usage) -> bool {
    *usage == Usage::default()
}
