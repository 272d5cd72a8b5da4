//! Credentials that an earlier version made and this one does not take: what they are, and what to do.

use countersign::display::escape;
use countersign::id::Tenant;
use countersign::store::{Store, StoreError};

use super::Finding;
use crate::access::Token;

/// Looks at the tokens of a tenant.
pub async fn look(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Finding>, StoreError> {
    let tokens = Token::list(store, tenant).await?;
    let mixed = tokens.iter().filter(|(_, token)| token.scopes.role().is_none());
    let mixed = mixed.map(|(id, token)| {
        let name = escape(token.name.as_str());
        Finding::warning(
            "tokens",
            format!(
                "token {id} of `{name}` holds {}, and so opens nothing",
                token.scopes
            ),
            format!("make one token for each role, and end it with `countersign token revoke {id}`"),
        )
    });
    Ok(mixed.collect())
}
