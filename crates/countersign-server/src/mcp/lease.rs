//! Which process a held call belongs to, and whether that process is alive (X77).
//!
//! Enters: a server that was started or reached, as a session that stands in every proposal. Leaves: whether the gateway
//! behind a session is alive. One entry in the store for each gateway, renewed by a heartbeat, so that no call costs a
//! write more. Deliberately absent: what becomes of calls whose gateway is dead; see `abandoned`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::id::{Session, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::store::{Store, StoreError};

use crate::failure::Failure;

/// A gateway that did not say for so long that it is alive may be dead.
pub const LEASE: Duration = Duration::from_secs(15);
/// How long it is remembered that a gateway has ended in order.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Sessions that gateways name begin so.
const PREFIX: &str = "mcp:";
/// The body of a lease whose gateway is alive, and of one that has ended.
const ALIVE: &[u8] = b"alive";
const ENDED: &[u8] = b"ended";

/// The lease of this gateway, and what it has seen of those of others.
pub struct Lease {
    owner: String,
    length: Duration,
    /// Since when the leases of others are found lapsed.
    silent: Mutex<HashMap<String, Instant>>,
}

/// Whether the gateway process that proposed a call is alive, by its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is alive.
    Alive,
    /// Its lease has lapsed. It may have been asleep, with us or without.
    Silent,
    /// It has ended, or was silent for the length of a lease while we were awake.
    Dead,
}

impl Lease {
    /// The lease of a gateway that starts now.
    pub fn new(length: Duration) -> Result<Lease, Failure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Failure::error("no_random", error.to_string()))?;
        Ok(Lease {
            owner: format!("{:032x}", u128::from_be_bytes(random)),
            length,
            silent: Mutex::default(),
        })
    }

    /// Returns how often the lease is to be renewed.
    pub fn beat_every(&self) -> Duration {
        self.length / 3
    }

    /// Names the session of calls to one server, by the number it has in this gateway.
    pub fn session(&self, server: u64) -> Option<Session> {
        Session::new(format!("{PREFIX}{}.{server}", self.owner)).ok()
    }

    /// Returns the number of the server that a session of this gateway's own is with.
    pub fn own_server(&self, session: Option<&Session>) -> Option<u64> {
        let (owner, server) = parts(session?)?;
        (owner == self.owner).then_some(server)
    }

    /// Says that this gateway is alive.
    pub async fn beat(&self, store: &dyn Store, tenant: &Tenant) -> Result<(), StoreError> {
        self.put(store, tenant, ALIVE, self.length).await
    }

    /// Says that this gateway has ended.
    pub async fn leave(&self, store: &dyn Store, tenant: &Tenant) -> Result<(), StoreError> {
        self.put(store, tenant, ENDED, REMEMBERED).await
    }

    /// Looks how the gateway of another session stands. A session that names none is of an older version.
    pub async fn standing(
        &self,
        store: &dyn Store,
        session: Option<&Session>,
    ) -> Result<Standing, StoreError> {
        let owner = session.and_then(parts).map_or("", |(owner, _)| owner);
        let found = match owner {
            "" => None,
            owner => store.entry(Kind::Setting, &key(owner)).await?,
        };
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match found {
            Some(entry) if *entry.body == *ENDED => Standing::Dead,
            Some(_) => {
                silent.remove(owner);
                Standing::Alive
            }
            None => {
                // Our own clock stands still while the machine sleeps: after that everybody has time to renew.
                let since = *silent.entry(owner.to_owned()).or_insert_with(Instant::now);
                match since.elapsed() >= self.length {
                    true => Standing::Dead,
                    false => Standing::Silent,
                }
            }
        })
    }

    async fn put(
        &self,
        store: &dyn Store,
        tenant: &Tenant,
        body: &[u8],
        lasts: Duration,
    ) -> Result<(), StoreError> {
        let key = key(&self.owner);
        let there = store.entry(Kind::Setting, &key).await?;
        let entry = Entry {
            kind: Kind::Setting,
            key,
            tenant: tenant.clone(),
            body: body.into(),
            version: there.map_or(0, |there| there.version),
            expires_at: Some(store.now().await?.plus(lasts)),
        };
        store.put_entry(entry).await.map(drop)
    }
}

fn key(owner: &str) -> String {
    format!("mcp/gateway/{owner}")
}

/// The gateway that a session names, and the number of the server there.
fn parts(session: &Session) -> Option<(&str, u64)> {
    let (owner, server) = session.as_str().strip_prefix(PREFIX)?.split_once('.')?;
    Some((owner, server.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_names_its_gateway_and_its_server() {
        let lease = Lease::new(LEASE).unwrap();
        let other = Lease::new(LEASE).unwrap();
        let session = lease.session(7);
        assert_eq!(lease.own_server(session.as_ref()), Some(7));
        assert_eq!(other.own_server(session.as_ref()), None);
        assert_eq!(lease.own_server(None), None);
        for odd in ["mcp:", "mcp:7", "talk", "mcp:a.b"] {
            assert_eq!(lease.own_server(Some(&Session::new(odd).unwrap())), None, "{odd}");
        }
    }
}
