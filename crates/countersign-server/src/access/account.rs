//! Accounts: the people who decide, with their groups and, if they want one, a password.
//!
//! An account has a generation: random, new with every account that is added, also under a name that was there before.
//! Tokens, sessions, links and endorsements carry it and hold for that account alone. A new password ends sessions and
//! links. Names are found by their one form; see [`countersign::name`].

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use countersign::decision::Ground;
use countersign::id::{Person, Tenant};
use countersign::name;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{AccessError, new_secret, read_body, write_body};

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
    password: Option<String>,
    /// When the account was made.
    pub created_at: Time,
    /// This account and no other of the same name; empty for one that the first release made.
    #[serde(default)]
    generation: String,
    /// Changes with the password: what was signed in before is not any more.
    #[serde(default)]
    sign_in: String,
}

impl Account {
    /// An account to be added.
    pub fn new(name: Person, groups: Vec<String>, created_at: Time) -> Account {
        Account {
            name,
            groups,
            admin: false,
            password: None,
            created_at,
            generation: String::new(),
            sign_in: String::new(),
        }
    }

    /// What tokens for this person carry, and what names their talks.
    pub fn generation(&self) -> &str {
        &self.generation
    }

    /// What sessions and links of this person carry.
    pub(super) fn sign_in_mark(&self) -> String {
        match self.sign_in.is_empty() {
            true => self.generation.clone(),
            false => format!("{}/{}", self.generation, self.sign_in),
        }
    }

    /// True if the person can sign in with a password.
    pub fn has_a_password(&self) -> bool {
        self.password.is_some()
    }

    /// The account of a person, if there is one, by any way to write the name.
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
        let Some(entry) = found(store, tenant, person).await? else {
            return Ok(None);
        };
        let account: Account = read_body(&entry.body)?;
        Ok(Some((account, Ground::exactly(&entry))))
    }

    /// The account that a credential was made for: of exactly this name.
    pub(super) async fn behind(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<(Account, Ground)>, StoreError> {
        let found = Account::look(store, tenant, person).await?;
        Ok(found.filter(|(account, _)| account.name == *person))
    }

    /// Keeps a new account, of a generation of its own.
    pub async fn add(mut self, store: &dyn Store, tenant: &Tenant) -> Result<Account, AccessError> {
        name::check(self.name.as_str()).map_err(|odd| AccessError::NotAllowed(odd.to_string()))?;
        let exists = |name: &Person| AccessError::Exists(format!("a person `{name}`"));
        let people = Account::list(store, tenant).await?;
        if let Some(there) = people.iter().find(|there| there.name.is_same(&self.name)) {
            return Err(exists(&there.name));
        }
        let is_alike = |there: &&Account| name::looks_like(there.name.as_str(), self.name.as_str());
        if let Some(there) = people.iter().find(is_alike) {
            let (there, name) = (&there.name, &self.name);
            let alike = format!("a person `{there}`, and `{name}` can be taken for them");
            return Err(AccessError::Exists(alike));
        }
        self.generation = new_secret("")?;
        let key = key(tenant, &name::fold(self.name.as_str()));
        match store.put_entry(self.entry(tenant, key, 0)?).await? {
            Put::Kept(_) => Ok(self),
            Put::Changed => Err(exists(&self.name)),
        }
    }

    /// Sets a password, by its hash. Ends every session and link of the person.
    pub async fn set_password(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        hash: &str,
    ) -> Result<Account, AccessError> {
        let sign_in = new_secret("")?;
        let change = |account: &mut Account| {
            account.password = Some(hash.to_owned());
            account.sign_in.clone_from(&sign_in);
        };
        Account::change(store, tenant, person, change).await
    }

    /// Changes an account as it is now. Tries again when somebody else was first.
    pub async fn change(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        change: impl Fn(&mut Account),
    ) -> Result<Account, AccessError> {
        loop {
            let entry = found(store, tenant, person).await?;
            let entry = entry.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
            let mut account: Account = read_body(&entry.body)?;
            change(&mut account);
            let changed = account.entry(tenant, entry.key, entry.version)?;
            if let Put::Kept(_) = store.put_entry(changed).await? {
                return Ok(account);
            }
        }
    }

    /// Removes an account. Sessions, tokens, links and pending endorsements of the person count for nothing any more, also
    /// if somebody of that name is added later.
    pub async fn remove(store: &dyn Store, tenant: &Tenant, person: &Person) -> Result<(), AccessError> {
        // An account of an earlier version stands under its name as written, and may have a name that is not taken now.
        let written = store
            .take_entry(Kind::Person, &key(tenant, person.as_str()))
            .await?;
        let taken = match written {
            Some(taken) => Some(taken),
            None => {
                let key = key(tenant, &name::fold(person.as_str()));
                store.take_entry(Kind::Person, &key).await?
            }
        };
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

    fn entry(&self, tenant: &Tenant, key: String, version: u32) -> Result<Entry, StoreError> {
        Ok(Entry {
            kind: Kind::Person,
            key,
            tenant: tenant.clone(),
            body: write_body(self)?,
            version,
            expires_at: None,
        })
    }
}

/// The entry of a person. Fails closed on names that an earlier version took: an odd one finds nothing, and neither does
/// one that is written like another account but for its case.
async fn found(store: &dyn Store, tenant: &Tenant, person: &Person) -> Result<Option<Entry>, StoreError> {
    if name::check(person.as_str()).is_err() {
        return Ok(None);
    }
    let folded = name::fold(person.as_str());
    let entry = store.entry(Kind::Person, &key(tenant, &folded)).await?;
    if folded == person.as_str() {
        return Ok(entry);
    }
    let written = store.entry(Kind::Person, &key(tenant, person.as_str())).await?;
    Ok(match (entry, written) {
        (Some(_), Some(_)) => None,
        (entry, written) => entry.or(written),
    })
}

/// Names may hold any character and be long, so the two are hashed, the first with its length.
fn key(tenant: &Tenant, person: &str) -> String {
    let named = format!("person:{}:{tenant}:{person}", tenant.as_str().len());
    countersign::hash::Hash::of(named.as_bytes()).to_string()
}
