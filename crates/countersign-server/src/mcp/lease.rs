//! Leases: which gateway a held call belongs to, and whether that gateway is alive (X77).
//!
//! Every proposal names a server of its gateway as its session, so the gateway of a call can be found. Each gateway has
//! one entry in the store and renews it by heartbeat, so calls cost no extra write. Calls of dead gateways are handled
//! in `abandoned`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::hash::Hash;
use countersign::id::{Session, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;

use crate::failure::Failure;
use crate::policy::record::{self, Change};

/// Default length of a lease. A gateway that has not renewed for this long may be dead.
pub const LEASE: Duration = Duration::from_secs(15);
/// How long the store keeps the record that a gateway has ended cleanly.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Prefix of the keys of leases in the store's registry.
const PLACE: &str = "mcp/gateway/";
/// Prefix of session names made by gateways.
const PREFIX: &str = "mcp:";
/// First line of the lease of a live gateway; the policy's hash and the servers' names follow, one per line.
const ALIVE: &str = "alive";
/// Content of the lease of a gateway that has ended.
const ENDED: &[u8] = b"ended";

/// The lease of this gateway, and which leases of other gateways were found lapsed.
pub struct Lease {
    owner: String,
    length: Duration,
    policy: Hash,
    servers: Vec<String>,
    /// For each other gateway, the time at which its lease was first found lapsed.
    silent: Mutex<HashMap<String, Instant>>,
}

/// Whether the gateway process that proposed a call is alive, by its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The lease is valid.
    Alive,
    /// The lease has lapsed. The gateway's machine, or this one too, may have been asleep.
    Silent,
    /// The gateway has ended, or its lease stayed lapsed for a full lease length while this machine was awake.
    Dead,
}

impl Lease {
    /// Creates the lease of a gateway that starts now, with the policy's hash and the names of its servers.
    pub fn new(length: Duration, policy: Hash, servers: Vec<String>) -> Result<Lease, Failure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Failure::error("no_random", error.to_string()))?;
        Ok(Lease {
            owner: format!("{:032x}", u128::from_be_bytes(random)),
            length,
            policy,
            servers,
            silent: Mutex::default(),
        })
    }

    /// Takes the lease. Unless `change` allows a policy change, first waits for the leases of gateways that have a
    /// server of the same name and another policy to lapse, and fails if such a gateway is alive (X98).
    pub async fn take(&self, store: &dyn Store, tenant: &Tenant, change: Change) -> Result<(), Failure> {
        if change == Change::Refuse {
            record::wait_for_others(async || self.other(store, tenant).await, another_policy).await?;
        }
        self.beat(store, tenant).await?;
        // If another gateway started at the same moment, each of the two sees the other's lease now.
        if change == Change::Refuse && self.other(store, tenant).await?.is_some() {
            self.leave(store, tenant).await?;
            return Err(another_policy());
        }
        Ok(())
    }

    /// Returns the latest expiry among leases of gateways that share a server with this one and have another policy;
    /// `None` if there is no such lease.
    async fn other(&self, store: &dyn Store, tenant: &Tenant) -> Result<Option<Time>, StoreError> {
        let mut latest = None;
        let mut after = key("");
        loop {
            let page = store
                .entries(tenant, Kind::Setting, Some(&after), LONGEST_PAGE)
                .await?;
            // Databases differ in how they sort punctuation, so other keys may sort between these.
            let leases = page.iter().filter(|entry| entry.key.starts_with(PLACE));
            let others = leases.clone().filter(|entry| self.rules_otherwise(&entry.body));
            latest = others.filter_map(|entry| entry.expires_at).chain(latest).max();
            let is_last = page.len() < LONGEST_PAGE || leases.count() == 0;
            match page.last() {
                Some(last) if !is_last => after.clone_from(&last.key),
                _ => return Ok(latest),
            }
        }
    }

    /// Returns true if a lease belongs to a live gateway that shares a server with this one and has another policy.
    /// Leases of older versions name no policy and never conflict.
    fn rules_otherwise(&self, body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body);
        let mut lines = text.lines();
        let (Some(ALIVE), Some(policy)) = (lines.next(), lines.next()) else {
            return false;
        };
        policy != self.policy.to_string()
            && lines.any(|server| self.servers.iter().any(|ours| ours == server))
    }

    /// Returns the interval at which to renew the lease.
    pub fn beat_every(&self) -> Duration {
        self.length / 3
    }

    /// Returns the session under which calls to a server are proposed. `server` is the server's number in this gateway.
    /// Never `None` in practice, because the name is always valid.
    pub fn session(&self, server: u64) -> Option<Session> {
        Session::new(format!("{PREFIX}{}.{server}", self.owner)).ok()
    }

    /// Returns the number of the server that a session belongs to, if the session is this gateway's own.
    pub fn own_server(&self, session: Option<&Session>) -> Option<u64> {
        let (owner, server) = parts(session?)?;
        (owner == self.owner).then_some(server)
    }

    /// Renews the lease.
    pub async fn beat(&self, store: &dyn Store, tenant: &Tenant) -> Result<(), StoreError> {
        let body = format!("{ALIVE}\n{}\n{}", self.policy, self.servers.join("\n"));
        self.put(store, tenant, body.as_bytes(), self.length).await
    }

    /// Records that this gateway has ended.
    pub async fn leave(&self, store: &dyn Store, tenant: &Tenant) -> Result<(), StoreError> {
        self.put(store, tenant, ENDED, REMEMBERED).await
    }

    /// Returns the standing of the gateway that proposed calls in `session`. Sessions of older versions name no
    /// gateway; their leases count as lapsed.
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
                // `Instant` does not advance while the machine sleeps, so after waking every gateway has time to renew.
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
    format!("{PLACE}{owner}")
}

fn another_policy() -> Failure {
    Failure::error(
        "another_policy",
        "a gateway to a server of this name runs on this store with another policy",
    )
    .hint(
        "give both the same policy file, or another `--name`, or stop the other one first; `--policy-change` replaces \
         gateways one by one",
    )
}

/// Splits a session into the gateway's id and the number of the server in that gateway; `None` if no gateway made the
/// session's name.
fn parts(session: &Session) -> Option<(&str, u64)> {
    let (owner, server) = session.as_str().strip_prefix(PREFIX)?.split_once('.')?;
    Some((owner, server.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::store::memory::MemoryStore;
    use countersign::time::ManualClock;

    use super::*;

    #[test]
    fn a_session_names_its_gateway_and_its_server() {
        let lease = Lease::new(LEASE, Hash([1; 32]), vec!["files".to_owned()]).unwrap();
        let other = Lease::new(LEASE, Hash([1; 32]), vec!["files".to_owned()]).unwrap();
        let session = lease.session(7);
        assert_eq!(lease.own_server(session.as_ref()), Some(7));
        assert_eq!(other.own_server(session.as_ref()), None);
        assert_eq!(lease.own_server(None), None);
        for odd in ["mcp:", "mcp:7", "talk", "mcp:a.b"] {
            assert_eq!(lease.own_server(Some(&Session::new(odd).unwrap())), None, "{odd}");
        }
    }

    async fn take(store: &MemoryStore, policy: u8, server: &str, change: Change) -> Result<Lease, Failure> {
        let lease = Lease::new(LEASE, Hash([policy; 32]), vec![server.to_owned()])?;
        lease.take(store, &Tenant::single(), change).await.map(|()| lease)
    }

    #[tokio::test(start_paused = true)]
    async fn x98_gateways_to_one_server_have_one_policy() {
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_767_225_600_000_000)));
        let store = MemoryStore::with_clock(clock.clone());
        let tenant = Tenant::single();
        let first = take(&store, 1, "files", Change::Refuse).await.unwrap();
        // The same policy, and another policy for another server.
        take(&store, 1, "files", Change::Refuse).await.unwrap();
        let mail = take(&store, 2, "mail", Change::Refuse).await.unwrap();
        // Another policy for the same server, while a gateway with the first policy renews its lease.
        let beating = async {
            for _ in 0..10 {
                tokio::time::sleep(LEASE / 3).await;
                clock.advance(LEASE / 3);
                first.beat(&store, &tenant).await.unwrap();
            }
        };
        let (refused, ()) = tokio::join!(take(&store, 2, "files", Change::Refuse), beating);
        assert!(refused.is_err_and(|failure| failure.code == "another_policy"));
        // With an explicit policy change it starts, and also once the others have ended.
        let rolling = take(&store, 2, "files", Change::Rolling).await.unwrap();
        for lease in [&first, &rolling, &mail] {
            lease.leave(&store, &tenant).await.unwrap();
        }
        clock.advance(LEASE);
        take(&store, 3, "files", Change::Refuse).await.unwrap();
    }
}
