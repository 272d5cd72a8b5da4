//! Durable state of a channel: the card last shown, and the ids of recent messages.
//!
//! The state is stored before anything is done with it, so a restart between the card and the reply, or a reply that
//! reaches another node, makes no difference. `conversation` determines what the state means.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::id::{Channel, Key, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::store::{Store, StoreError};

/// Number of message ids kept per channel, for recognising duplicates.
const MOST_MESSAGES: usize = 64;
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
    /// Records a message id. Returns false if the id was recorded before.
    pub(super) fn record_message(&mut self, message: &Key) -> bool {
        if self.heard.contains(message) {
            return false;
        }
        self.heard.push_back(message.clone());
        if self.heard.len() > MOST_MESSAGES {
            self.heard.pop_front();
        }
        true
    }

    /// Removes a message id, so that a retry of the message counts.
    pub(super) fn forget(&mut self, message: &Key) {
        self.heard.retain(|heard| heard != message);
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
        let before = match &entry {
            Some(entry) => read(&entry.body)?,
            None => ChannelState::default(),
        };
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
