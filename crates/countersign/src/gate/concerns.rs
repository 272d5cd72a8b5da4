//! Concerns: facts from an agent's history that deserve a second look at a pending approval.

use std::collections::HashMap;

use super::Gate;
use crate::approval::Approval;
use crate::call::Call;
use crate::concern::{Concern, History};
use crate::id::{Agent, ApprovalId};
use crate::store::{Filter, StoreError};

/// Maximum number of an agent's latest approvals to read as its history.
const HISTORY: usize = 200;
/// Maximum number of approvals to read in total for a page with cards of several agents. Each agent gets at least
/// `A_FEW`.
const MOST: usize = 1_000;
const A_FEW: usize = 20;
/// Maximum number of bytes to read of one agent's history.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The concerns about each call of an approval.
pub type Concerns = Vec<Vec<Concern>>;

impl Gate {
    /// Returns the concerns about each call, based on the agent's earlier proposals. They are computed when a card is
    /// shown, so that proposing stays cheap.
    pub async fn concerns(&self, approval: &Approval) -> Result<Concerns, StoreError> {
        let found = self.concerns_about(&[approval]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Returns the concerns for a page of one tenant's approvals, reading each agent's history once.
    pub async fn concerns_about(&self, approvals: &[&Approval]) -> Result<Vec<Concerns>, StoreError> {
        let mut newest: HashMap<&Agent, ApprovalId> = HashMap::new();
        for approval in approvals {
            let id = newest.entry(&approval.agent).or_insert(approval.id);
            *id = approval.id.max(*id);
        }
        let limit = (MOST / newest.len().max(1)).clamp(A_FEW, HISTORY);
        let is_secret = |call: &Call, pointer: &str| self.policy.is_secret_of(call, pointer);
        let mut found = vec![Concerns::new(); approvals.len()];
        for (agent, id) in newest {
            let of_agent = || approvals.iter().filter(|approval| approval.agent == *agent);
            let Some(tenant) = of_agent().next().map(|approval| &approval.tenant) else {
                continue;
            };
            let filter = Filter {
                // No person has judged passed calls, so they must not crowd decided approvals off the page.
                asked: true,
                agent: Some(agent.clone()),
                after: Some(id),
                limit: Some(limit),
                most_bytes: Some(MOST_BYTES),
                ..Filter::default()
            };
            let before = self.store.list(tenant, &filter).await?;
            let looked_at = filter.is_full(&before).then_some(before.len());
            let history = History::of(&before, looked_at, &is_secret);
            let pairs = found.iter_mut().zip(approvals);
            for (found, approval) in pairs.filter(|(_, approval)| approval.agent == *agent) {
                *found = history.concerns_of(approval);
            }
        }
        Ok(found)
    }
}
