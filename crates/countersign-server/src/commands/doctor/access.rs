//! Credentials that an earlier version made and this one does not take: what they are, and what to do.

use countersign::id::Tenant;
use countersign::name;
use countersign::store::{Store, StoreError};

use super::Finding;
use crate::access::{Account, Token};
use crate::output::foreign::named;

/// Looks at the tokens and accounts of a tenant.
pub async fn look(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Finding>, StoreError> {
    let tokens = Token::list(store, tenant).await?;
    let mixed = tokens.iter().filter(|(_, token)| token.scopes.role().is_none());
    let mixed = mixed.map(|(id, token)| {
        let name = named(token.name.as_str());
        Finding::warning(
            "tokens",
            format!(
                "token {id} of `{name}` holds {}, and so opens nothing",
                token.scopes
            ),
            format!("make one token for each role, and end it with `countersign token revoke {id}`"),
        )
    });
    let mut findings: Vec<Finding> = mixed.collect();
    let people = Account::list(store, tenant).await?;
    for (index, account) in people.iter().enumerate() {
        let written = account.name.as_str();
        let is_alike = |other: &&Account| {
            !other.name.is_same(&account.name) && name::looks_like(other.name.as_str(), written)
        };
        if let Some(other) = people.iter().skip(index + 1).find(is_alike) {
            findings.push(Finding::warning(
                "people",
                format!("`{}` can be taken for `{}`", named(written), named(other.name.as_str())),
                "remove one of the accounts with `countersign person remove NAME`, and add it under another name",
            ));
        }
        let is_twin = |other: &Account| other.name != account.name && other.name.is_same(&account.name);
        let why = match name::check(written) {
            Err(odd) => odd.to_string(),
            Ok(()) if people.iter().skip(index + 1).any(is_twin) => {
                "another account is written alike".to_owned()
            }
            Ok(()) => continue,
        };
        findings.push(Finding::warning(
            "people",
            format!("`{}` may not be able to sign in: {why}", named(written)),
            "remove the account with `countersign person remove NAME`, and add it under another name",
        ));
    }
    Ok(findings)
}
