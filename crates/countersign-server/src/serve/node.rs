//! Nodes: services that share a store. All of them must have the same policy.
//!
//! Input: the policy hash of a starting service. Output: a lease in the store's registry, renewed by a heartbeat; or a
//! refusal if a service with another policy is alive. The policy of the service that joined last is on record.
//!
//! Gateways and hooks are not nodes: they agree on a policy among themselves (see `policy::record`). The command line
//! is not a node either and applies its own policy. Each call carries the terms under which it was proposed.

use std::time::Duration;

use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;

use crate::failure::Failure;
use crate::policy::record::{self, Change};

/// Duration of a lease. A node that has not renewed its lease for this long is taken for dead.
const LEASE: Duration = Duration::from_secs(15);
/// Interval of the heartbeat.
pub const BEAT: Duration = Duration::from_secs(5);

/// Membership of this service among the nodes of a store.
pub struct Node {
    tenant: Tenant,
    key: String,
    policy: Hash,
}

/// Result of [`Node::join`].
pub struct Joined {
    pub node: Node,
    /// True if another policy was on record before.
    pub is_new_policy: bool,
}

impl Node {
    /// Registers a new node with a lease, and records its policy as the store's current one. With [`Change::Refuse`],
    /// first waits for the leases of nodes with another policy to expire, and fails if one of these leases is renewed.
    pub async fn join(
        store: &dyn Store,
        tenant: &Tenant,
        policy: Hash,
        change: Change,
    ) -> Result<Joined, Failure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Failure::error("no_random", error.to_string()))?;
        let node = Node {
            tenant: tenant.clone(),
            key: format!("{:032x}", u128::from_be_bytes(random)),
            policy,
        };
        if change == Change::Refuse {
            record::wait_for_others(async || node.other(store).await, another_policy).await?;
        }
        node.beat(store).await?;
        // If two nodes with different policies start at the same moment, each sees the other here at the latest.
        if change == Change::Refuse && node.other(store).await?.is_some() {
            node.leave(store).await?;
            return Err(another_policy());
        }
        let key = format!("policy/{tenant}");
        let is_new_policy = record::put(store, tenant, key, policy).await?;
        Ok(Joined { node, is_new_policy })
    }

    /// Renews this node's lease.
    pub async fn beat(&self, store: &dyn Store) -> Result<(), StoreError> {
        let there = store.entry(Kind::Node, &self.key).await?;
        let expires_at = Some(store.now().await?.plus(LEASE));
        let entry = Entry {
            kind: Kind::Node,
            key: self.key.clone(),
            tenant: self.tenant.clone(),
            body: self.policy.to_string().into_bytes().into(),
            version: there.map_or(0, |there| there.version),
            expires_at,
        };
        match store.put_entry(entry).await? {
            Put::Written(_) => Ok(()),
            Put::Conflict => Err(StoreError::Busy("another node has this node's name".to_owned())),
        }
    }

    /// Gives up this node's lease, so that a service with another policy can start at once.
    pub async fn leave(&self, store: &dyn Store) -> Result<(), StoreError> {
        store.take_entry(Kind::Node, &self.key).await.map(|_| ())
    }

    /// Returns the latest expiry among the leases of nodes with another policy; `None` if there are no such nodes.
    async fn other(&self, store: &dyn Store) -> Result<Option<Time>, StoreError> {
        let nodes = store
            .entries(&self.tenant, Kind::Node, None, LONGEST_PAGE)
            .await?;
        let policy = self.policy.to_string();
        let others = nodes
            .iter()
            .filter(|node| node.key != self.key && *node.body != *policy.as_bytes());
        Ok(others.filter_map(|node| node.expires_at).max())
    }
}

fn another_policy() -> Failure {
    Failure::error(
        "another_policy",
        "a service with another policy is running on this store",
    )
    .hint("give both the same policy file, or stop the other one first; `--policy-change` replaces services one by one")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::store::memory::MemoryStore;
    use countersign::time::ManualClock;

    use super::*;

    const A: Hash = Hash([1; 32]);
    const B: Hash = Hash([2; 32]);

    fn store() -> (MemoryStore, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_767_225_600_000_000)));
        (MemoryStore::with_clock(clock.clone()), clock)
    }

    async fn join(store: &MemoryStore, policy: Hash, change: Change) -> Result<Joined, Failure> {
        Node::join(store, &Tenant::single(), policy, change).await
    }

    #[tokio::test(start_paused = true)]
    async fn x98_a_node_with_another_policy_does_not_start_beside_a_live_one() {
        let (store, clock) = store();
        let first = join(&store, A, Change::Refuse).await.unwrap();
        assert!(!first.is_new_policy);
        join(&store, A, Change::Refuse).await.unwrap();
        let beating = async {
            for _ in 0..10 {
                tokio::time::sleep(BEAT).await;
                clock.advance(BEAT);
                first.node.beat(&store).await.unwrap();
            }
        };
        let (refused, ()) = tokio::join!(join(&store, B, Change::Refuse), beating);
        assert!(refused.is_err_and(|failure| failure.code == "another_policy"));
        let policy = store.entry(Kind::Setting, "policy/main").await.unwrap().unwrap();
        assert_eq!(*policy.body, *A.to_string().as_bytes());
    }

    #[tokio::test]
    async fn x98_without_a_live_node_the_new_policy_is_taken() {
        let (store, clock) = store();
        let first = join(&store, A, Change::Refuse).await.unwrap();
        first.node.leave(&store).await.unwrap();
        let second = join(&store, B, Change::Refuse).await.unwrap();
        assert!(second.is_new_policy);
        // The lease of a node that died expires.
        clock.advance(LEASE);
        assert!(join(&store, A, Change::Refuse).await.unwrap().is_new_policy);
    }

    #[tokio::test]
    async fn x98_a_rolling_change_is_said_explicitly() {
        let (store, _) = store();
        join(&store, A, Change::Refuse).await.unwrap();
        assert!(join(&store, B, Change::Rolling).await.unwrap().is_new_policy);
    }
}
