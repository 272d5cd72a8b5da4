//! Accounts: the people who decide, with their groups and an optional password.
//!
//! Each account has a generation: a random value, new for every account that is added, even under a name that was used
//! before. Tokens, sessions, links, chat senders and endorsements carry it and are valid for that account only. A new
//! password ends sessions and links. Names are looked up in a normalized form; see [`countersign::name`].

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use countersign::decision::AuthorityBasis;
use countersign::id::{Person, Tenant};
use countersign::name;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{AccessError, SenderLink, new_secret, read_body, write_body};

/// Minimum characters of a password.
pub const SHORTEST_PASSWORD: usize = 10;
/// Maximum bytes of a password, because hashing longer ones only costs time.
const LONGEST_PASSWORD: usize = 1024;

/// Maximum number of groups of a person.
const MOST_GROUPS: usize = 100;
/// Maximum length of a group's name, in bytes.
const LONGEST_GROUP: usize = 256;
/// Group of a new person for whom none is given.
pub const USUAL_GROUP: &str = "approvers";

/// Returns what is wrong with the groups of a person, and what to do; `None` if they are acceptable.
pub fn groups_problem(groups: &[String]) -> Option<(String, &'static str)> {
    if groups.len() > MOST_GROUPS {
        let problem = format!("a person is in at most {MOST_GROUPS} groups");
        return Some((problem, "name fewer groups"));
    }
    let problem = |group: &String| match group.len() {
        1..=LONGEST_GROUP => name::check(group).err().map(|problem| problem.to_string()),
        _ => Some(format!("a group's name has 1 to {LONGEST_GROUP} bytes")),
    };
    let problem = groups.iter().find_map(problem)?;
    Some((problem, "choose another name for the group"))
}

/// Account of a person, as stored in the store's registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    /// Name of the person, as written when the account was added.
    pub name: Person,
    /// Groups of the person. A policy names groups as approvers.
    pub groups: Vec<String>,
    /// True if the person may manage people and tokens.
    pub admin: bool,
    /// Password hash, if the person has a password.
    password: Option<String>,
    /// Time at which the account was added.
    pub created_at: Time,
    /// Distinguishes this account from others of the same name; empty for accounts from the first release.
    #[serde(default)]
    generation: String,
    /// Random value, new with each password, which invalidates older sessions and links.
    #[serde(default)]
    sign_in: String,
}

impl Account {
    /// Creates an account that is not stored yet.
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

    /// Returns the generation, which the person's tokens and conversations are bound to.
    pub fn generation(&self) -> &str {
        &self.generation
    }

    /// Returns the value that the person's sessions and links are bound to: the generation, followed by the random
    /// value of the current password, if one was set.
    pub(super) fn sign_in_mark(&self) -> String {
        match self.sign_in.is_empty() {
            true => self.generation.clone(),
            false => format!("{}/{}", self.generation, self.sign_in),
        }
    }

    /// Returns true if the person can sign in with a password.
    pub fn has_a_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns the account of a person, by any spelling of the name. `None` if there is no account, or if an earlier
    /// version created two accounts whose names differ only in case.
    pub async fn find(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<Account>, StoreError> {
        let found = Account::find_with_basis(store, tenant, person).await?;
        Ok(found.map(|(account, _)| account))
    }

    /// Like [`Account::find`], with an [`AuthorityBasis`] that binds a decision by this person to the account as it is
    /// now.
    pub async fn find_with_basis(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<(Account, AuthorityBasis)>, StoreError> {
        let Some(entry) = find_entry(store, tenant, person).await? else {
            return Ok(None);
        };
        let account: Account = read_body(&entry.body)?;
        Ok(Some((account, AuthorityBasis::exactly(&entry))))
    }

    /// Returns the account that a credential names. Unlike [`Account::find`], only the exact spelling matches; for any
    /// other, returns `None`.
    pub(super) async fn of_credential(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
    ) -> Result<Option<(Account, AuthorityBasis)>, StoreError> {
        let found = Account::find_with_basis(store, tenant, person).await?;
        Ok(found.filter(|(account, _)| account.name == *person))
    }

    /// Stores a new account with a new generation. Fails if the name is in use or could be mistaken for another.
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
            Put::Written(_) => Ok(self),
            Put::Conflict => Err(exists(&self.name)),
        }
    }

    /// Sets the password hash. Ends all sessions and links of the person.
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

    /// Applies `change` to a stored account. If another process writes the account at the same time, the account is
    /// read and changed again, so `change` may run more than once.
    pub async fn change(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        change: impl Fn(&mut Account),
    ) -> Result<Account, AccessError> {
        loop {
            let entry = find_entry(store, tenant, person).await?;
            let entry = entry.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
            let mut account: Account = read_body(&entry.body)?;
            change(&mut account);
            let changed = account.entry(tenant, entry.key, entry.version)?;
            if let Put::Written(_) = store.put_entry(changed).await? {
                return Ok(account);
            }
        }
    }

    /// Removes an account. The person's sessions, tokens, links, chat senders and pending endorsements become invalid,
    /// even if somebody of that name is added later. The only administrator cannot be removed.
    pub async fn remove(store: &dyn Store, tenant: &Tenant, person: &Person) -> Result<(), AccessError> {
        if let Some(account) = Account::find(store, tenant, person).await?
            && account.admin
        {
            let accounts = Account::list(store, tenant).await?;
            if accounts.iter().filter(|account| account.admin).count() == 1 {
                let reason = format!("`{person}` is the only administrator; make somebody else one first");
                return Err(AccessError::NotAllowed(reason));
            }
        }
        // Earlier versions stored accounts under the name as written, including names that are not accepted now.
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
        let taken = taken.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
        // The links of the account's senders are void already, because the account is gone.
        if let Ok(account) = read_body::<Account>(&taken.body) {
            SenderLink::forget(store, tenant, &account).await?;
        }
        Ok(())
    }

    /// Returns all accounts of a tenant, in no particular order.
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

    /// Hashes a password. Slow on purpose: call it where blocking is allowed.
    pub fn hash_password(password: &str) -> Result<String, AccessError> {
        let length = password.len();
        if password.chars().count() < SHORTEST_PASSWORD || length > LONGEST_PASSWORD {
            let reason = format!(
                "a password has at least {SHORTEST_PASSWORD} characters and at most {LONGEST_PASSWORD} bytes"
            );
            return Err(AccessError::NotAllowed(reason));
        }
        let hash = Argon2::default().hash_password(password.as_bytes());
        hash.map(|hash| hash.to_string())
            .map_err(|error| StoreError::Unavailable(format!("cannot hash the password: {error}")).into())
    }

    /// Returns true if the password is correct. Takes the same time if the person has no password. For a person without
    /// an account, call [`waste_time`](Self::waste_time) instead.
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

    /// Takes as long as checking a password, so that response times do not reveal which names exist.
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

/// Returns the registry entry of a person; `None` if there is none. Earlier versions also accepted invalid names, and
/// names that differ only in case; such accounts are not found here, so nobody can sign in to the wrong one.
async fn find_entry(
    store: &dyn Store,
    tenant: &Tenant,
    person: &Person,
) -> Result<Option<Entry>, StoreError> {
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

/// Returns the registry key of a person's account. The key is a hash, because names may be long and contain any
/// character. The hashed text includes the tenant's length, so no two pairs of tenant and name give the same text.
fn key(tenant: &Tenant, person: &str) -> String {
    let named = format!("person:{}:{tenant}:{person}", tenant.as_str().len());
    countersign::hash::Hash::of(named.as_bytes()).to_string()
}
