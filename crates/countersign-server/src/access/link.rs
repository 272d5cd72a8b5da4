//! One-time links, with which people sign in for the first time or without a password.

use std::time::Duration;

use countersign::id::{Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};
use serde::{Deserialize, Serialize};

use super::{AccessError, Account, key_of, new_secret, read_body, write_body};

/// Lifetime of an unused link.
pub const LINK_LASTS: Duration = Duration::from_secs(15 * 60);

/// Sign-in link, as stored in the registry under the hash of its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Person whom the link signs in.
    pub person: Person,
    /// Value of the account's `sign_in_mark` when the link was made. A new password changes it and so voids the link.
    #[serde(default)]
    mark: String,
}

impl Link {
    /// Creates a link for a person and returns the secret part of its URL. Fails if there is no such account.
    pub async fn make(store: &dyn Store, tenant: &Tenant, person: Person) -> Result<String, AccessError> {
        let account = Account::find(store, tenant, &person).await?;
        let account = account.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
        let link = Link {
            mark: account.sign_in_mark(),
            person: account.name,
        };
        let text = new_secret("csl_")?;
        let entry = Entry {
            kind: Kind::Link,
            key: key_of(&text),
            tenant: tenant.clone(),
            body: write_body(&link)?,
            version: 0,
            expires_at: Some(store.now().await?.plus(LINK_LASTS)),
        };
        match store.put_entry(entry).await? {
            Put::Written(_) => Ok(text),
            Put::Conflict => Err(StoreError::Impossible("two links are the same".to_owned()).into()),
        }
    }

    /// Redeems a link, which works once. Returns `None` if the link is unknown, used or expired, or if the account was
    /// replaced or got a new password since.
    pub async fn redeem(store: &dyn Store, text: &str) -> Result<Option<(Tenant, Account)>, StoreError> {
        let Some(entry) = store.take_entry(Kind::Link, &key_of(text)).await? else {
            return Ok(None);
        };
        let link: Link = read_body(&entry.body)?;
        let account = Account::of_credential(store, &entry.tenant, &link.person).await?;
        let account = account.map(|(account, _)| account);
        let account = account.filter(|account| account.sign_in_mark() == link.mark);
        Ok(account.map(|account| (entry.tenant, account)))
    }
}
