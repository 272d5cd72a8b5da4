//! Sessions: the conversation between a person and an agent, stored in the store's registry.
//!
//! Input: steps, each appended before its effects are shown. Output: the same messages, also after a restart. A session
//! is an append-only log. Each entry is written once under the next number; a writer that finds the number taken has
//! lost a race. A session records only which approvals it waits for; how they ended is read from the store.

use std::sync::Arc;
use std::time::Duration;

use countersign::hash::Fields;
use countersign::id::{Agent, ApprovalId, Channel, Tenant};
use countersign::registry::{Entry, Kind, LARGEST_BODY, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::message::{CallResult, Message, Source};
use crate::model::Usage;

/// Time for which each entry of a session is kept.
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum number of entries in one session.
pub const MOST_ENTRIES: u32 = 20_000;

/// Flags of the first and the last entry of a step. A step without both is incomplete and ignored.
const FIRST_PIECE: u8 = 1;
const LAST_PIECE: u8 = 2;

/// Key of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// Tenant of the conversation.
    pub tenant: Tenant,
    /// Agent of the conversation.
    pub agent: Agent,
    /// The channel of the conversation.
    pub channel: Channel,
}

/// A loaded session: its messages, and the approvals that it waits for.
#[derive(Clone, Debug)]
pub struct Session {
    session_key: SessionKey,
    prefix: String,
    next: u32,
    messages: Vec<Message>,
    open: Vec<ApprovalId>,
    settled: Vec<ApprovalId>,
    specialist: Option<String>,
    usage: Usage,
}

/// One addition to a session, appended as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Messages to append.
    pub messages: Vec<Message>,
    /// Approval that the agent proposed in this step, if any. A later step has to tell the model its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<ApprovalId>,
    /// Approval whose outcome this step tells the model, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<ApprovalId>,
    /// Specialist that handles messages from now on, if that changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialist: Option<String>,
    /// Tokens used since the last step.
    #[serde(skip_serializing_if = "is_zero")]
    pub usage: Usage,
}

/// Error when reading a session or appending to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another writer has appended to the session meanwhile.
    #[error("another message is being answered in this session")]
    Changed,
    /// The session has reached [`MOST_ENTRIES`].
    #[error("this session has become too long")]
    TooLong,
    /// A stored entry cannot be parsed; with the reason.
    #[error("this session cannot be read: {0}")]
    Unreadable(String),
}

impl SessionError {
    /// Returns advice on what to do next.
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
    /// Loads the session with this key; empty if it has no steps yet.
    pub async fn open(store: &dyn Store, session_key: SessionKey) -> Result<Session, SessionError> {
        let hash = Fields::new("countersign/session/1")
            .field(session_key.tenant.as_str().as_bytes())
            .field(session_key.agent.as_str().as_bytes())
            .field(session_key.channel.as_str().as_bytes())
            .finish();
        let mut session = Session {
            prefix: format!("{hash}/"),
            next: 0,
            messages: Vec::new(),
            open: Vec::new(),
            settled: Vec::new(),
            specialist: None,
            usage: Usage::default(),
            session_key,
        };
        session.load(store).await?;
        session.add_missing_results();
        Ok(session)
    }

    /// Returns the key of the session.
    pub fn session_key(&self) -> &SessionKey {
        &self.session_key
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the approvals whose outcome the model has not been told yet, oldest first.
    pub fn open_approvals(&self) -> &[ApprovalId] {
        &self.open
    }

    /// Returns the approvals whose outcome the model has been told, oldest first.
    pub fn settled_approvals(&self) -> &[ApprovalId] {
        &self.settled
    }

    /// Returns the specialist that the session was last routed to; `None` before the first routing.
    pub fn specialist(&self) -> Option<&str> {
        self.specialist.as_deref()
    }

    /// Returns the tokens used by all answers so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns a run id for the next answer, unique within the store.
    pub fn next_run(&self) -> String {
        let short: String = self.prefix.chars().take(16).collect();
        format!("{short}-{}", self.next)
    }

    /// Appends a step. On return the step is as durable as the store.
    pub async fn append(&mut self, store: &dyn Store, step: Step) -> Result<(), SessionError> {
        let bytes = serde_json::to_vec(&step).map_err(|error| SessionError::Unreadable(error.to_string()))?;
        let expires_at = Some(store.now().await?.plus(RETENTION));
        let count = bytes.len().div_ceil(LARGEST_BODY - 1).max(1);
        for (number, piece) in bytes.chunks(LARGEST_BODY - 1).enumerate() {
            if self.next >= MOST_ENTRIES {
                return Err(SessionError::TooLong);
            }
            let first = if number == 0 { FIRST_PIECE } else { 0 };
            let last = if number + 1 == count { LAST_PIECE } else { 0 };
            let mut body = Vec::with_capacity(piece.len() + 1);
            body.push(first | last);
            body.extend_from_slice(piece);
            let entry = Entry {
                kind: Kind::Turn,
                key: self.key(self.next),
                tenant: self.session_key.tenant.clone(),
                body: Arc::from(body),
                version: 0,
                expires_at,
            };
            match store.put_entry(entry).await? {
                Put::Written(_) => self.next += 1,
                Put::Conflict => return Err(SessionError::Changed),
            }
        }
        self.apply(step);
        Ok(())
    }

    fn key(&self, number: u32) -> String {
        format!("{}{number:08}", self.prefix)
    }

    async fn load(&mut self, store: &dyn Store) -> Result<(), SessionError> {
        let mut after = self.prefix.clone();
        let mut piece: Option<Vec<u8>> = None;
        loop {
            let tenant = &self.session_key.tenant.clone();
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
        let Some((flags, text)) = body.split_first() else {
            return Err(SessionError::Unreadable("an entry is empty".to_owned()));
        };
        if flags & FIRST_PIECE != 0 {
            // An unfinished step before this one was never shown to anybody, so it is dropped.
            *piece = Some(Vec::new());
        }
        let Some(bytes) = piece else {
            // The first entries of this step have expired, so the step is left out.
            return Ok(());
        };
        bytes.extend_from_slice(text);
        if flags & LAST_PIECE != 0 {
            let step: Step =
                serde_json::from_slice(bytes).map_err(|error| SessionError::Unreadable(error.to_string()))?;
            *piece = None;
            self.apply(step);
        }
        Ok(())
    }

    fn apply(&mut self, step: Step) {
        self.messages.extend(step.messages);
        // A proposal may have joined a card that is open already.
        let is_new = |opened: &ApprovalId| !self.open.contains(opened);
        let opened = step.opened.filter(is_new);
        self.open.extend(opened);
        if let Some(settled) = step.settled {
            self.open.retain(|open| *open != settled);
            self.settled.push(settled);
        }
        if step.specialist.is_some() {
            self.specialist = step.specialist;
        }
        self.usage = self.usage.plus(step.usage);
    }

    /// Adds an `unknown` result for each call without a result, which a crashed process left behind. Model APIs reject
    /// a conversation in which a result is missing.
    fn add_missing_results(&mut self) {
        let mut complete = Vec::with_capacity(self.messages.len());
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
            complete.push(message);
            complete.extend(missing.map(|results| Message::Results { results }));
        }
        self.messages = complete;
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

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}
