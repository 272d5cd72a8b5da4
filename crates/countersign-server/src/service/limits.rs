//! Rate limits and concurrency limits per caller.
//!
//! Callers are identified by tenant and name, or by client address. A method returns nothing, or a guard that holds a
//! slot until it is dropped. Over a limit it returns an error that becomes a 429 response, with the time to wait if
//! that is known. Memory use is bounded regardless of the number of callers.

pub mod hashing;
mod settings;
mod slots;

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign::id::{Person, Tenant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::hashing::Hashing;
pub use self::settings::LimitSettings;
pub use self::slots::{Slot, Slots};
use super::ServiceError;
use crate::rate::RateTable;

/// Default for the maximum number of decisions per person per second.
pub const DECISIONS_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// Maximum number of messages to agents per person and second.
const MESSAGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// Maximum number of sign-in attempts per minute under one name from one address.
const TRIES_PER_NAME: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// Maximum number of sign-in attempts per minute under one name from all addresses together. Higher than the limit for
/// one address, so that no single stranger can lock a person out.
const TRIES_PER_NAME_IN_ALL: NonZeroU32 = NonZeroU32::new(30).unwrap();
/// Maximum number of lists that are built at the same time, for all callers together. The same limit applies to reading
/// the missed events of event streams. Each list takes some megabytes.
const LISTS_AT_ONCE: usize = 4;
/// How long a list request waits for its turn before it is answered with 429.
const LIST_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of concurrent turns of served agents, for all people together.
const TURNS_AT_ONCE: usize = 64;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Counters and queues of all limits.
pub struct Limits {
    /// Queue for password hashing.
    pub hashing: Hashing,
    decisions: RateTable,
    messages: RateTable,
    sign_ins: RateTable,
    names_by_address: RateTable,
    names: RateTable,
    streams: Slots,
    waits: Slots,
    turns: Slots,
    all_turns: Slots,
    lists: Slots,
    listing: Arc<Semaphore>,
    reading: Arc<Semaphore>,
}

impl Limits {
    /// Creates the limits from the operator's settings.
    pub fn new(decisions_per_second: NonZeroU32, settings: &LimitSettings) -> Limits {
        let per = |count: NonZeroU32, span| RateTable::new(count, span, count.get());
        Limits {
            hashing: Hashing::default(),
            decisions: per(decisions_per_second, SECOND),
            messages: per(MESSAGES_PER_SECOND, SECOND),
            sign_ins: per(settings.sign_ins_per_minute, MINUTE),
            names_by_address: per(TRIES_PER_NAME, MINUTE),
            names: per(TRIES_PER_NAME_IN_ALL, MINUTE),
            streams: Slots::new(settings.streams_per_caller),
            waits: Slots::new(settings.waits_per_caller),
            turns: Slots::new(settings.turns_per_person),
            all_turns: Slots::new(TURNS_AT_ONCE),
            lists: Slots::new(settings.lists_per_caller),
            listing: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
            reading: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
        }
    }

    /// Counts a decision. Fails if the person makes too many decisions per second.
    pub fn decision(&self, tenant: &Tenant, person: &Person) -> Result<(), ServiceError> {
        let counted = self.decisions.take((tenant.as_str(), person.as_str()));
        counted.map_err(|wait| too_often("too many decisions in one second", wait))
    }

    /// Counts a message to an agent. Fails if the person sends too many messages per second.
    pub fn message(&self, tenant: &Tenant, person: &Person) -> Result<(), ServiceError> {
        let counted = self.messages.take((tenant.as_str(), person.as_str()));
        counted.map_err(|wait| too_often("too many messages in one second", wait))
    }

    /// Counts an attempt to sign in by link. Fails if there are too many attempts per minute from this address.
    pub fn sign_in_by_link(&self, client: impl Hash + Copy) -> Result<(), ServiceError> {
        let counted = self.sign_ins.take(client);
        counted.map_err(|wait| too_often("too many attempts to sign in from this address", wait))
    }

    /// Counts an attempt to sign in by name and password. Fails if there are too many attempts per minute from this
    /// address or under this name.
    pub fn sign_in(&self, client: impl Hash + Copy, name: &str) -> Result<(), ServiceError> {
        self.sign_in_by_link(client)?;
        let counted = self.names_by_address.take((client, name));
        let counted = counted.and_then(|()| self.names.take(name));
        counted.map_err(|wait| too_often("too many attempts to sign in under this name", wait))
    }

    /// Reserves one of the caller's event streams until the guard is dropped. Fails if the caller has too many open
    /// streams.
    pub fn stream(&self, tenant: &Tenant, caller: &str) -> Result<OpenStream, ServiceError> {
        let slot = self.streams.take((tenant.as_str(), caller));
        slot.ok_or_else(|| too_many_at_once("streams", self.streams.most()))
    }

    /// Reserves one of the caller's long polls until the guard is dropped. Fails if the caller has too many of them.
    pub fn wait(&self, tenant: &Tenant, caller: &str) -> Result<Slot, ServiceError> {
        let slot = self.waits.take((tenant.as_str(), caller));
        slot.ok_or_else(|| too_many_at_once("waiting requests", self.waits.most()))
    }

    /// Reserves a turn of a served agent until both guards are dropped: one guard counts for the person, the other for
    /// the whole service. Fails if either limit is reached.
    pub fn turn(&self, tenant: &Tenant, person: &Person) -> Result<(Slot, Slot), ServiceError> {
        let own = self.turns.take((tenant.as_str(), person.as_str()));
        let own = own.ok_or_else(|| too_many_at_once("messages being answered", self.turns.most()))?;
        let all = self.all_turns.take(());
        let all = all.ok_or_else(|| too_often("all agents are busy", Duration::from_secs(5)))?;
        Ok((own, all))
    }

    /// Waits for a permit to read the events that a reconnected stream has missed. `None` if the semaphore is closed.
    pub async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        self.reading.clone().acquire_owned().await.ok()
    }

    /// Takes one of the caller's list slots and waits up to `LIST_WITHIN` for a permit to build the list. Fails if no
    /// slot is free, or if there is no permit in time.
    pub async fn list(&self, tenant: &Tenant, caller: &str) -> Result<List, ServiceError> {
        let slot = self.lists.take((tenant.as_str(), caller));
        let slot = slot.ok_or_else(|| too_many_at_once("lists", self.lists.most()))?;
        let making = self.listing.clone().acquire_owned();
        match tokio::time::timeout(LIST_WITHIN, making).await {
            Ok(Ok(making)) => Ok(List {
                slot,
                _making: making,
            }),
            _ => Err(too_often("too many lists are being read", Duration::from_secs(5))),
        }
    }
}

/// Holds one of a caller's stream slots until dropped.
pub type OpenStream = Slot;

/// Permit to build a list, and one of the caller's list slots.
pub struct List {
    slot: Slot,
    _making: OwnedSemaphorePermit,
}

impl List {
    /// Makes the response body from the finished list. The caller's slot is held until the body is sent; the permit to
    /// build a list is released now.
    pub fn into_body(self, bytes: Vec<u8>) -> Bytes {
        struct Made(
            Vec<u8>,
            #[expect(dead_code, reason = "counts while the bytes are kept")] Slot,
        );
        impl AsRef<[u8]> for Made {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(Made(bytes, self.slot))
    }
}

fn too_often(message: &str, wait: Duration) -> ServiceError {
    ServiceError::TooMany(message.to_owned(), Some(wait))
}

fn too_many_at_once(what: &str, most: usize) -> ServiceError {
    ServiceError::TooMany(format!("at most {most} {what} at a time for one caller"), None)
}
