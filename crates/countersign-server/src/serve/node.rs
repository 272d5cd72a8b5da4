//! Nodes: the services that run on one store, and the policy they all have to have.
//!
//! Enters: the policy's hash of a service that starts. Leaves: a lease in the store's registry, kept by a heartbeat, or a
//! refusal when a service with another policy is alive. The policy that was taken last is on record.
//! Deliberately absent: gateways, hooks and the command line. They rule with a policy of their own, and a call carries
//! its terms.

use std::time::Duration;

use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;

use crate::failure::Failure;

/// A node that did not say for so long that it is alive is not.
const LEASE: Duration = Duration::from_secs(15);
/// How often a node says that it is alive.
pub const BEAT: Duration = Duration::from_secs(5);
/// How often a start looks whether a node with another policy is still alive.
const LOOK: Duration = Duration::from_millis(500);

/// What a service that starts does about services with another policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It does not start while one is alive.
    Refuse,
    /// It starts: the operator replaces nodes one by one.
    Rolling,
}

/// A running service, as others see it in the store.
pub struct Node {
    tenant: Tenant,
    key: String,
    policy: Hash,
}

/// A node that joined.
pub struct Joined {
    /// The node.
    pub node: Node,
    /// The policy on record before was another one.
    pub is_new_policy: bool,
}

impl Node {
    /// Joins the nodes of a store, unless one of them has another policy. A lease that nobody renews is waited for.
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
            node.wait_for_others(store).await?;
        }
        node.beat(store).await?;
        // Whoever started at the same moment is seen now, by both.
        if change == Change::Refuse && node.other(store).await?.is_some() {
            node.leave(store).await?;
            return Err(another_policy());
        }
        let is_new_policy = node.record(store).await?;
        Ok(Joined { node, is_new_policy })
    }

    /// Says that this node is alive.
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
            Put::Kept(_) => Ok(()),
            Put::Changed => Err(StoreError::Busy("another node has this node's name".to_owned())),
        }
    }

    /// Says that this node is gone.
    pub async fn leave(&self, store: &dyn Store) -> Result<(), StoreError> {
        store.take_entry(Kind::Node, &self.key).await.map(|_| ())
    }

    /// Returns once no node with another policy is alive; fails as soon as one of them renews its lease.
    async fn wait_for_others(&self, store: &dyn Store) -> Result<(), Failure> {
        let mut seen: Option<Time> = None;
        while let Some(until) = self.other(store).await? {
            if seen.is_some_and(|seen| until > seen) {
                return Err(another_policy());
            }
            seen = Some(until);
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The latest end of a lease of a node with another policy.
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

    /// Puts the policy on record; true when another one was.
    async fn record(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let key = format!("policy/{}", self.tenant);
        let body = self.policy.to_string().into_bytes();
        let there = store.entry(Kind::Setting, &key).await?;
        if there.as_ref().is_some_and(|there| *there.body == *body) {
            return Ok(false);
        }
        let entry = Entry {
            kind: Kind::Setting,
            key,
            tenant: self.tenant.clone(),
            body: body.into(),
            version: there.as_ref().map_or(0, |there| there.version),
            expires_at: None,
        };
        // Another node may have written it at this moment; it has the same policy, or a change is on its way.
        store.put_entry(entry).await?;
        Ok(there.is_some())
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
        // One that ended without a word is forgotten with its lease.
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
