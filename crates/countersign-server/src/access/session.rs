//! Sessions: a person signed in on the page.

use std::time::Duration;

use countersign::decision::Ground;
use countersign::id::{Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{Account, Caller, Credential, Scope, key_of, new_secret, read_body, write_body};

/// Nobody did anything for so long: signed out.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// No session lasts longer.
pub const SESSION_LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// A session's last use is written down at most so often.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

/// A session as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Who signed in.
    pub person: Person,
    /// The account's mark when they did; see [`Account`].
    #[serde(default)]
    mark: String,
    /// When.
    pub created_at: Time,
    /// When it was last used, to the minute.
    pub used_at: Time,
}

impl Session {
    /// Signs a person in; the text is what their browser shows from now on.
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
            Put::Kept(_) => Ok(text),
            Put::Changed => Err(StoreError::Impossible("two sessions are the same".to_owned())),
        }
    }

    /// The caller who shows `text`, if it is a session in force of somebody who still has an account.
    pub async fn open(store: &dyn Store, text: &str) -> Result<Option<Caller>, StoreError> {
        let Some(entry) = store.entry(Kind::Session, &key_of(text)).await? else {
            return Ok(None);
        };
        let session: Session = read_body(&entry.body)?;
        session.touch(store, &entry).await?;
        session.caller(store, entry).await
    }

    /// As [`open`](Self::open), for what a page asks by itself: it does not count as use, so a page that is left open
    /// keeps nobody signed in.
    pub async fn look(store: &dyn Store, text: &str) -> Result<Option<Caller>, StoreError> {
        let Some(entry) = store.entry(Kind::Session, &key_of(text)).await? else {
            return Ok(None);
        };
        let session: Session = read_body(&entry.body)?;
        session.caller(store, entry).await
    }

    async fn caller(&self, store: &dyn Store, entry: Entry) -> Result<Option<Caller>, StoreError> {
        let account = Account::behind(store, &entry.tenant, &self.person).await?;
        let account = account.filter(|(account, _)| account.sign_in_mark() == self.mark);
        let Some((account, ground)) = account else {
            return Ok(None);
        };
        // A session's entry is written anew now and then as it is used: it only has to be there.
        let session = Ground::any(&entry);
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
            grounds: vec![session, ground],
            expires_at: entry.expires_at,
        }))
    }

    /// Signs out.
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
        // Somebody else wrote it down, or it ended meanwhile: both are fine.
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
