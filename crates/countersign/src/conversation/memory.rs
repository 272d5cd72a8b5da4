//! What is remembered of a channel: the card that stands there last, and the messages that were heard.
//!
//! Enters: a channel, and what to change. Leaves: what was remembered, durable before anybody acts on it, so that a
//! restart between the card and the yes, or another node, makes no difference.
//! Deliberately absent: what it means; see `conversation`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::id::{Channel, Key, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::store::{Store, StoreError};

/// How many messages of a channel are remembered, so that the same one counts once.
const MOST_MESSAGES: usize = 64;
/// How long a channel is remembered in which nothing is said.
const LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often others may write first before we give up.
const MOST_TRIES: usize = 32;

/// What is remembered of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The last card shown, if nothing was said since.
    pub(super) card: Option<Card>,
    heard: VecDeque<Key>,
}

/// A card that was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    /// The message that showed it.
    pub(super) message: Key,
    /// What it showed.
    pub(super) digest: Hash,
    /// The language it was shown in; absent in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// That all of it was shown. Version 0.1.0 did not say: then a yes shows the card again.
    #[serde(default)]
    pub(super) whole: bool,
}

impl Memory {
    /// Hears a message; false when it came before.
    pub(super) fn hear(&mut self, message: &Key) -> bool {
        if self.heard.contains(message) {
            return false;
        }
        self.heard.push_back(message.clone());
        if self.heard.len() > MOST_MESSAGES {
            self.heard.pop_front();
        }
        true
    }

    /// This message will be sent again, and then it counts.
    pub(super) fn forget(&mut self, message: &Key) {
        self.heard.retain(|heard| heard != message);
    }
}

/// Changes what is remembered of a channel, and gives what is remembered now and what `change` said. It may be tried
/// several times, each time on what is there by then; when it changes nothing, nothing is written.
pub(super) async fn remember<T: Send>(
    store: &dyn Store,
    tenant: &Tenant,
    channel: &Channel,
    change: impl Fn(&mut Memory) -> T + Send + Sync,
) -> Result<(Memory, T), StoreError> {
    let key = key(tenant, channel);
    for _ in 0..MOST_TRIES {
        let entry = store.entry(Kind::Channel, &key).await?;
        let before = match &entry {
            Some(entry) => read(&entry.body)?,
            None => Memory::default(),
        };
        let mut memory = before.clone();
        let said = change(&mut memory);
        if memory == before {
            return Ok((memory, said));
        }
        let entry = Entry {
            kind: Kind::Channel,
            key: key.clone(),
            tenant: tenant.clone(),
            body: write(&memory)?,
            version: entry.map_or(0, |entry| entry.version),
            expires_at: Some(store.now().await?.plus(LASTS)),
        };
        if let Put::Kept(_) = store.put_entry(entry).await? {
            return Ok((memory, said));
        }
    }
    Err(StoreError::Busy("everybody writes in this channel".to_owned()))
}

/// Channels may have long names, and two tenants the same one.
fn key(tenant: &Tenant, channel: &Channel) -> String {
    let length = u64::try_from(tenant.as_str().len()).unwrap_or(u64::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(tenant.as_str().as_bytes());
    bytes.extend_from_slice(channel.as_str().as_bytes());
    Hash::of(&bytes).to_string()
}

fn read(body: &[u8]) -> Result<Memory, StoreError> {
    serde_json::from_slice(body).map_err(|error| {
        StoreError::Impossible(format!("what was said in a channel cannot be read: {error}"))
    })
}

fn write(memory: &Memory) -> Result<Arc<[u8]>, StoreError> {
    let body = serde_json::to_vec(memory).map_err(|error| StoreError::Impossible(error.to_string()))?;
    Ok(body.into())
}
