//! Looking twice: what the history says about a pending approval.

use super::Gate;
use crate::approval::Approval;
use crate::concern::{Concern, concerns};
use crate::store::{Filter, StoreError};

/// So many of the agent's latest approvals are its history.
const HISTORY: usize = 200;

impl Gate {
    /// What deserves a second look about each call, by what the same agent asked before this was proposed. Asked
    /// when a card is shown, so that proposing costs nothing.
    pub async fn concerns(&self, approval: &Approval) -> Result<Vec<Vec<Concern>>, StoreError> {
        let filter = Filter {
            agent: Some(approval.agent.clone()),
            after: Some(approval.id),
            limit: Some(HISTORY),
            ..Filter::default()
        };
        let before = self.store.list(&approval.tenant, &filter).await?;
        let found = approval.calls.iter().map(|call| {
            let is_secret = |pointer: &str| self.policy.is_secret(call.tool.as_str(), pointer);
            concerns(approval, call, &before, &is_secret)
        });
        Ok(found.collect())
    }
}
