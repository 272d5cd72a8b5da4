//! Sessions of people who are signed in on the inbox page.

use std::time::Duration;

use countersign::decision::AuthorityBasis;
use countersign::id::{Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{Account, Caller, Credential, Scope, key_of, new_secret, read_body, write_body};

/// Time without use after which a session ends.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum duration of a session.
pub const SESSION_LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Minimum time between two writes of a session's last use.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

/// Session of a signed-in person, as stored in the registry under the hash of its cookie.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Person who signed in.
    pub person: Person,
    /// Value of the account's `sign_in_mark` at sign-in. A new password changes it and so ends the session.
    #[serde(default)]
    mark: String,
    /// Time of the sign-in.
    pub created_at: Time,
    /// Time of the last use, to the minute.
    pub used_at: Time,
}

impl Session {
    /// Signs a person in and returns the secret for the cookie.
    pub async fn begin(store: &dyn Store, tenant: &Tenant, account: &Account) -> Result<String, StoreError> {
        let now = store.now().await?;
        let text = new_secret("css_")?;
        let session = Session {
            person: account.name.clone(),
            mark: account.sign_in_mark(),
            created_at: now,
            used_at: now,
        };
        match store.put_entry(session.entry(tenant, key_of(&text), 0)?).await? {
            Put::Written(_) => Ok(text),
            Put::Conflict => Err(StoreError::Impossible("two sessions are the same".to_owned())),
        }
    }

    /// Returns the caller with this cookie, and extends the session. `None` if the session has ended, or if the account
    /// was removed or got a new password since.
    pub async fn open(store: &dyn Store, text: &str) -> Result<Option<Caller>, StoreError> {
        let Some(entry) = store.entry(Kind::Session, &key_of(text)).await? else {
            return Ok(None);
        };
        let session: Session = read_body(&entry.body)?;
        session.touch(store, &entry).await?;
        session.caller(store, entry).await
    }

    /// Like [`open`](Self::open), for requests that a page makes on its own. Does not count as use, so that a page that
    /// is left open does not keep the person signed in.
    pub async fn open_unextended(store: &dyn Store, text: &str) -> Result<Option<Caller>, StoreError> {
        let Some(entry) = store.entry(Kind::Session, &key_of(text)).await? else {
            return Ok(None);
        };
        let session: Session = read_body(&entry.body)?;
        session.caller(store, entry).await
    }

    async fn caller(&self, store: &dyn Store, entry: Entry) -> Result<Option<Caller>, StoreError> {
        let account = Account::of_credential(store, &entry.tenant, &self.person).await?;
        let account = account.filter(|(account, _)| account.sign_in_mark() == self.mark);
        let Some((account, basis)) = account else {
            return Ok(None);
        };
        // The entry is rewritten as the session is used, so its version may change; it only has to exist.
        let session = AuthorityBasis::any(&entry);
        let mut scopes = vec![Scope::Read, Scope::Decide, Scope::Chat];
        if account.admin {
            scopes.push(Scope::Admin);
        }
        Ok(Some(Caller {
            tenant: entry.tenant,
            name: account.name.clone(),
            scopes: scopes.into_iter().collect(),
            agent: None,
            generation: account.generation().to_owned(),
            person: Some(account.name),
            groups: account.groups,
            credential: Credential::Session,
            authority_bases: vec![session, basis],
            expires_at: entry.expires_at,
        }))
    }

    /// Signs out: deletes the session, if it exists.
    pub async fn end(store: &dyn Store, text: &str) -> Result<(), StoreError> {
        store.take_entry(Kind::Session, &key_of(text)).await.map(|_| ())
    }

    async fn touch(&self, store: &dyn Store, entry: &Entry) -> Result<(), StoreError> {
        let now = store.now().await?;
        if now.since(self.used_at) < WRITTEN_EVERY {
            return Ok(());
        }
        let used = Session {
            used_at: now,
            ..self.clone()
        };
        // If another request has written the entry, or the session has ended meanwhile, there is nothing to do.
        let entry = used.entry(&entry.tenant, entry.key.clone(), entry.version)?;
        store.put_entry(entry).await.map(|_| ())
    }

    fn entry(&self, tenant: &Tenant, key: String, version: u32) -> Result<Entry, StoreError> {
        let ends = self
            .used_at
            .plus(SESSION_IDLE)
            .min(self.created_at.plus(SESSION_LONGEST));
        Ok(Entry {
            kind: Kind::Session,
            key,
            tenant: tenant.clone(),
            body: write_body(self)?,
            version,
            expires_at: Some(ends),
        })
    }
}
