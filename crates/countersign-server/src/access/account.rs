//! Accounts: the people who decide, with their groups and, if they want one, a password.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use countersign::decision::Ground;
use countersign::id::{Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{AccessError, read_body, write_body};

/// Shorter passwords are not taken.
pub const SHORTEST_PASSWORD: usize = 10;
/// Longer ones would only keep the machine busy.
const LONGEST_PASSWORD: usize = 1024;

/// A person as they are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    /// Their name.
    pub name: Person,
    /// The groups they are in.
    pub groups: Vec<String>,
    /// May manage people and tokens.
    pub admin: bool,
    /// The hash of their password; nothing when they have none.
    pub password: Option<String>,
    /// When the account was made.
    pub created_at: Time,
}

impl Account {
    /// The account of a person, if there is one.
    pub async fn find(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<Account>, StoreError> {
        let found = Account::look(store, tenant, person).await?;
        Ok(found.map(|(account, _)| account))
    }

    /// The same, with what a decision by this person rests on.
    pub async fn look(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<(Account, Ground)>, StoreError> {
        let Some(entry) = store.entry(Kind::Person, &key(tenant, person)).await? else {
            return Ok(None);
        };
        let account = read_body(&entry.body)?;
        let ground = Ground {
            kind: entry.kind,
            key: entry.key,
            version: Some(entry.version),
        };
        Ok(Some((account, ground)))
    }

    /// Keeps a new account.
    pub async fn add(self, store: &dyn Store, tenant: &Tenant) -> Result<(), AccessError> {
        let name = self.name.clone();
        match store.put_entry(self.entry(tenant, 0)?).await? {
            Put::Kept(_) => Ok(()),
            Put::Changed => Err(AccessError::Exists(format!("a person `{name}`"))),
        }
    }

    /// Changes an account as it is now. Tries again when somebody else was first.
    pub async fn change(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        change: impl Fn(&mut Account),
    ) -> Result<Account, AccessError> {
        loop {
            let entry = store.entry(Kind::Person, &key(tenant, person)).await?;
            let entry = entry.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
            let mut account: Account = read_body(&entry.body)?;
            change(&mut account);
            if let Put::Kept(_) = store.put_entry(account.entry(tenant, entry.version)?).await? {
                return Ok(account);
            }
        }
    }

    /// Removes an account. Sessions and tokens of the person open nothing any more.
    pub async fn remove(store: &dyn Store, tenant: &Tenant, person: &Person) -> Result<(), AccessError> {
        let taken = store.take_entry(Kind::Person, &key(tenant, person)).await?;
        taken
            .map(|_| ())
            .ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))
    }

    /// All accounts of a tenant.
    pub async fn list(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Account>, StoreError> {
        let mut accounts = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = store
                .entries(tenant, Kind::Person, after.as_deref(), LONGEST_PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(accounts);
            };
            after = Some(last.key.clone());
            for entry in &page {
                accounts.push(read_body(&entry.body)?);
            }
        }
    }

    /// The hash under which a password is kept. Slow on purpose: call it where blocking is allowed.
    pub fn hash_password(password: &str) -> Result<String, AccessError> {
        let length = password.len();
        if password.chars().count() < SHORTEST_PASSWORD || length > LONGEST_PASSWORD {
            let reason = format!("a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters");
            return Err(AccessError::NotAllowed(reason));
        }
        let hash = Argon2::default().hash_password(password.as_bytes());
        hash.map(|hash| hash.to_string())
            .map_err(|error| StoreError::Unavailable(format!("cannot hash the password: {error}")).into())
    }

    /// True when `password` is theirs. Takes as long for a person who has none, or does not exist: see
    /// [`waste_time`](Self::waste_time).
    pub fn has_password(&self, password: &str) -> bool {
        match self.password.as_deref().map(PasswordHash::new) {
            Some(Ok(hash)) if password.len() <= LONGEST_PASSWORD => Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok(),
            _ => {
                Account::waste_time(password);
                false
            }
        }
    }

    /// As slow as a check, so that nobody can tell by the clock which names exist.
    pub fn waste_time(password: &str) {
        let text: String = password.chars().take(LONGEST_PASSWORD / 4).collect();
        let _ = Argon2::default().hash_password(text.as_bytes());
    }

    fn entry(&self, tenant: &Tenant, version: u32) -> Result<Entry, StoreError> {
        Ok(Entry {
            kind: Kind::Person,
            key: key(tenant, &self.name),
            tenant: tenant.clone(),
            body: write_body(self)?,
            version,
            expires_at: None,
        })
    }
}

/// Names may hold any character and be long, so the two are hashed, the first with its length.
fn key(tenant: &Tenant, person: &Person) -> String {
    let named = format!("person:{}:{tenant}:{person}", tenant.as_str().len());
    countersign::hash::Hash::of(named.as_bytes()).to_string()
}
