//! Durable state of a channel: the card last shown, the ids of recent messages, and a mark for each message.
//!
//! The state is stored before anything is done with it, so a restart between the card and the reply, or a reply that
//! reaches another node, makes no difference. `conversation` determines what the state means.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::id::{ApprovalId, Channel, Key, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::store::{Store, StoreError};

/// Number of message ids kept per channel, for recognising duplicates.
const MOST_MESSAGES: usize = 64;
/// Number of messages per channel whose answers can be given again.
const MOST_ANSWERS: usize = 16;
/// How long the state of an inactive channel is kept.
const LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of attempts to write the state when other writers are faster.
const MOST_TRIES: usize = 32;

/// State of a channel that the store keeps between messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChannelState {
    /// The last card shown; `None` if there is none, or if something else was sent since.
    pub(super) card: Option<Card>,
    /// The language in which a card was fetched last, with the card's digest; `None` if no card was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fetched: Option<FetchedCard>,
    heard: VecDeque<Key>,
    /// Digest of the destructive card that was kept although a message was about something else; `None` if there was no
    /// such message. The next such message cancels the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept_once: Option<Hash>,
    /// Recent messages that came while an approval was pending, for answering a repeated message as the first time.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    answers: VecDeque<GivenAnswer>,
}

/// What a message was about, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenAnswer {
    message: Key,
    /// The approval that was pending.
    pub(super) approval: ApprovalId,
    /// Language of the card that was shown then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// Answer to a message that decided nothing. A decision is recorded in its approval, with the message's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undecided: Option<Undecided>,
}

/// Answer to a message that decided nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Undecided {
    pub(super) effect: UndecidedEffect,
    /// What was said. `None` if that names what the calls do, which is not stored a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) say: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UndecidedEffect {
    Cancelled,
    Kept,
    ShowAgain,
    Incomplete,
}

/// Language in which a card was fetched, to be posted in the channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FetchedCard {
    pub(super) digest: Hash,
    pub(super) language: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) message: Key,
    pub(super) digest: Hash,
    /// Language of the card; `None` in entries written by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// True if the whole card was shown. False in entries written by version 0.1.0, so that a yes shows the card again.
    #[serde(default)]
    pub(super) whole: bool,
}

impl ChannelState {
    /// Records a message id, and the approval that is pending. Returns false if the id was recorded before.
    pub(super) fn record_message(&mut self, message: &Key, pending: Option<ApprovalId>) -> bool {
        if self.heard.contains(message) {
            return false;
        }
        self.heard.push_back(message.clone());
        if self.heard.len() > MOST_MESSAGES {
            self.heard.pop_front();
        }
        if let Some(approval) = pending {
            self.answers.push_back(GivenAnswer {
                message: message.clone(),
                approval,
                language: self.card.as_ref().and_then(|card| card.language.clone()),
                undecided: None,
            });
            if self.answers.len() > MOST_ANSWERS {
                self.answers.pop_front();
            }
        }
        true
    }

    /// Records the answer to a message that decided nothing.
    pub(super) fn record_answer(&mut self, message: &Key, undecided: &Undecided) {
        let mut answers = self.answers.iter_mut();
        if let Some(given) = answers.find(|given| given.message == *message) {
            given.undecided = Some(undecided.clone());
        }
    }

    /// Returns what is known about the first answer to a message.
    pub(super) fn answer_to(&self, message: &Key) -> Option<&GivenAnswer> {
        self.answers.iter().find(|given| given.message == *message)
    }

    /// Records that something other than the card was sent. The card's buttons stay, so its language is kept.
    pub(super) fn forget_card(&mut self) {
        if let Some(card) = self.card.take()
            && let Some(language) = card.language
        {
            self.fetched.get_or_insert(FetchedCard {
                digest: card.digest,
                language,
            });
        }
    }

    /// Returns the language of a card that was shown or fetched last.
    pub(super) fn language_of(&self, digest: Hash) -> Option<&str> {
        let shown = self.card.as_ref().filter(|card| card.digest == digest);
        let fetched = self.fetched.as_ref().filter(|fetched| fetched.digest == digest);
        shown
            .and_then(|card| card.language.as_deref())
            .or(fetched.map(|fetched| fetched.language.as_str()))
    }

    /// Removes a message id, so that a retry of the message counts.
    pub(super) fn forget(&mut self, message: &Key) {
        self.heard.retain(|heard| heard != message);
        self.answers.retain(|given| given.message != *message);
    }
}

/// Applies `change` to a channel's state and returns the new state with the result of `change`. If another writer was
/// faster, `change` is called again with the newer state. Nothing is written if the state stays the same.
pub(super) async fn update_channel<T: Send>(
    store: &dyn Store,
    tenant: &Tenant,
    channel: &Channel,
    change: impl Fn(&mut ChannelState) -> T + Send + Sync,
) -> Result<(ChannelState, T), StoreError> {
    let key = key(tenant, channel);
    for _ in 0..MOST_TRIES {
        let entry = store.entry(Kind::Channel, &key).await?;
        let before = read_entry(entry.as_ref())?;
        let mut state = before.clone();
        let said = change(&mut state);
        if state == before {
            return Ok((state, said));
        }
        let entry = Entry {
            kind: Kind::Channel,
            key: key.clone(),
            tenant: tenant.clone(),
            body: write(&state)?,
            version: entry.map_or(0, |entry| entry.version),
            expires_at: Some(store.now().await?.plus(LASTS)),
        };
        if let Put::Written(_) = store.put_entry(entry).await? {
            return Ok((state, said));
        }
    }
    Err(StoreError::Busy("everybody writes in this channel".to_owned()))
}

/// Returns a channel's state.
pub(super) async fn read_channel(
    store: &dyn Store,
    tenant: &Tenant,
    channel: &Channel,
) -> Result<ChannelState, StoreError> {
    let entry = store.entry(Kind::Channel, &key(tenant, channel)).await?;
    read_entry(entry.as_ref())
}

/// Marks a message as heard, for as long as the state of a channel is kept. The state has only the latest ids, and a
/// "yes" that is delivered again after much talk must not decide a later card. Returns false if the message was marked
/// before.
pub(super) async fn mark_heard(
    store: &dyn Store,
    tenant: &Tenant,
    channel: &Channel,
    message: &Key,
) -> Result<bool, StoreError> {
    let entry = Entry {
        kind: Kind::Channel,
        key: message_key(tenant, channel, message),
        tenant: tenant.clone(),
        body: Arc::from([]),
        version: 0,
        expires_at: Some(store.now().await?.plus(LASTS)),
    };
    Ok(matches!(store.put_entry(entry).await?, Put::Written(_)))
}

/// Removes the mark of a message that could not be handled, so that a retry counts.
pub(super) async fn unmark_heard(
    store: &dyn Store,
    tenant: &Tenant,
    channel: &Channel,
    message: &Key,
) -> Result<(), StoreError> {
    let key = message_key(tenant, channel, message);
    store.take_entry(Kind::Channel, &key).await.map(|_| ())
}

fn message_key(tenant: &Tenant, channel: &Channel, message: &Key) -> String {
    let text = format!("message/{}/{message}", key(tenant, channel));
    Hash::of(text.as_bytes()).to_string()
}

fn read_entry(entry: Option<&Entry>) -> Result<ChannelState, StoreError> {
    match entry {
        Some(entry) => read(&entry.body),
        None => Ok(ChannelState::default()),
    }
}

/// Returns the key of the channel's entry. It is a hash, because channel names may be long and tenants may use the same
/// names.
fn key(tenant: &Tenant, channel: &Channel) -> String {
    let length = u64::try_from(tenant.as_str().len()).unwrap_or(u64::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(tenant.as_str().as_bytes());
    bytes.extend_from_slice(channel.as_str().as_bytes());
    Hash::of(&bytes).to_string()
}

fn read(body: &[u8]) -> Result<ChannelState, StoreError> {
    serde_json::from_slice(body).map_err(|error| {
        StoreError::Impossible(format!("what was said in a channel cannot be read: {error}"))
    })
}

fn write(state: &ChannelState) -> Result<Arc<[u8]>, StoreError> {
    let body = serde_json::to_vec(state).map_err(|error| StoreError::Impossible(error.to_string()))?;
    Ok(body.into())
}
