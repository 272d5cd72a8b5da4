//! Tokens: credentials of programs. Shown once, stored as a hash, deleted when revoked.

use std::time::Duration;

use countersign::decision::AuthorityBasis;
use countersign::id::{Agent, Person, Tenant};
use countersign::name;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{
    AccessError, Account, Caller, Credential, Role, Scope, Scopes, key_of, new_secret, read_body, write_body,
};

/// Prefix that lets secret scanners recognize a token.
const PREFIX: &str = "cst_";
/// Maximum lifetime of a token.
pub const LONGEST_TOKEN: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Token of a program, as stored in the registry under the hash of its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// Name of the token, shown as the requester of its proposals.
    pub name: Person,
    /// Scopes of the token, each of which permits some requests.
    pub scopes: Scopes,
    /// Agent that proposes with the token; `None` for every other kind of token.
    pub agent: Option<Agent>,
    /// Person who uses the token, or on whose behalf the agent acts, if any.
    pub person: Option<Person>,
    /// Generation of that person's account, so that the token is not valid for a later account of the same name.
    #[serde(default)]
    generation: String,
    /// Time at which the token was created, on the store's clock.
    pub created_at: Time,
    /// Time from which the token is no longer accepted, on the store's clock.
    pub expires_at: Time,
}

/// Settings of a token that is to be created by [`NewToken::mint`].
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Tenant in which the token will work.
    pub tenant: Tenant,
    /// Name of the token; by default that of the agent or person.
    pub name: Option<Person>,
    /// Scopes of the token. All of them must belong to one [`Role`].
    pub scopes: Scopes,
    /// Agent that will propose with the token. Required for the scopes `propose` and `wait`, and not allowed with
    /// others.
    pub agent: Option<Agent>,
    /// Person who will use the token, or on whose behalf the agent acts, if any.
    pub person: Option<Person>,
    /// Lifetime, at most [`LONGEST_TOKEN`].
    pub lasts: Duration,
}

/// A token that was just created. Its text is shown once and not stored.
#[derive(Debug)]
pub struct Minted {
    /// Text that the program sends.
    pub text: String,
    /// First 8 characters of the token's key, shown in lists and used to revoke the token.
    pub id: String,
    /// The token as stored.
    pub token: Token,
}

impl NewToken {
    /// Validates and stores the token. Fails if its scopes or names are not allowed, or if the person has no account.
    pub async fn mint(self, store: &dyn Store) -> Result<Minted, AccessError> {
        self.check()?;
        self.check_names(store).await?;
        let account = match &self.person {
            Some(person) => {
                let account = Account::find(store, &self.tenant, person).await?;
                Some(account.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?)
            }
            None => None,
        };
        let named = self.agent.as_ref().map(|agent| agent.as_str().to_owned());
        let named = named.or_else(|| self.person.as_ref().map(|person| person.as_str().to_owned()));
        let name = match (self.name, named) {
            (Some(name), _) => name,
            (None, Some(name)) => {
                Person::new(name).map_err(|problem| AccessError::NotAllowed(problem.to_string()))?
            }
            (None, None) => return Err(AccessError::NotAllowed("a token needs a name".to_owned())),
        };
        let created_at = store.now().await?;
        let token = Token {
            name,
            scopes: self.scopes,
            agent: self.agent,
            generation: account
                .as_ref()
                .map_or_else(String::new, |account| account.generation().to_owned()),
            person: account.map(|account| account.name),
            created_at,
            expires_at: created_at.plus(self.lasts),
        };
        let text = new_secret(PREFIX)?;
        let key = key_of(&text);
        let id = short(&key);
        let entry = Entry {
            kind: Kind::Token,
            key,
            tenant: self.tenant,
            body: write_body(&token)?,
            version: 0,
            expires_at: Some(token.expires_at),
        };
        match store.put_entry(entry).await? {
            Put::Written(_) => Ok(Minted { text, id, token }),
            Put::Conflict => Err(StoreError::Impossible("two tokens are the same".to_owned()).into()),
        }
    }

    /// Checks that names are normalized, and that the agent's name cannot be taken for another agent's.
    async fn check_names(&self, store: &dyn Store) -> Result<(), AccessError> {
        let agent = self.agent.as_ref().map(Agent::as_str);
        let named = self.name.as_ref().map(Person::as_str);
        for given in [agent, named, Some(self.tenant.as_str())].into_iter().flatten() {
            name::check(given).map_err(|odd| AccessError::NotAllowed(odd.to_string()))?;
        }
        let Some(agent) = agent else {
            return Ok(());
        };
        let tokens = Token::list(store, &self.tenant).await?;
        let mut agents = tokens.iter().filter_map(|(_, token)| token.agent.as_ref());
        let is_twin =
            |other: &&Agent| other.as_str() != agent && name::fold(other.as_str()) == name::fold(agent);
        if let Some(twin) = agents.clone().find(is_twin) {
            return Err(AccessError::Exists(format!("an agent `{twin}`: write it so")));
        }
        // Tokens of an earlier version may exist for both spellings. Each of these agents can still get new tokens.
        if agents.clone().any(|other| other.as_str() == agent) {
            return Ok(());
        }
        match agents.find(|other| name::looks_like(other.as_str(), agent)) {
            Some(other) => Err(AccessError::Exists(format!(
                "an agent `{other}`, and `{agent}` can be taken for it"
            ))),
            None => Ok(()),
        }
    }

    /// Checks scopes, lifetime and owner.
    ///
    /// INVARIANT: no token can both decide and propose, or both decide and start (I10, X66); an agent's token can only
    /// propose and wait, and start its own released calls.
    fn check(&self) -> Result<(), AccessError> {
        let not_allowed = |reason: &str| Err(AccessError::NotAllowed(reason.to_owned()));
        let has = |scope| self.scopes.has(scope);
        if self.scopes.is_empty() {
            return not_allowed("a token needs at least one scope");
        }
        if self.scopes.role().is_none() {
            return Err(AccessError::NotAllowed(format!(
                "a token cannot combine {}: {}; create one token for each",
                self.scopes,
                allowed_together()
            )));
        }
        if self.lasts > LONGEST_TOKEN || self.lasts.is_zero() {
            return not_allowed("a token's lifetime is at most 90 days");
        }
        let is_agents = |scope: Scope| matches!(scope, Scope::Propose | Scope::Wait | Scope::Agent);
        if self.agent.is_some() && !self.scopes.iter().all(is_agents) {
            return not_allowed("an agent's token can only propose, wait, and run its own calls");
        }
        if self.agent.is_none() && self.scopes.iter().any(is_agents) {
            return not_allowed("a token that proposes or waits needs an agent");
        }
        if has(Scope::Decide) && self.person.is_none() {
            return not_allowed("a token that decides needs a person");
        }
        if has(Scope::Chat) && self.person.is_none() {
            return not_allowed("a token for chat needs a person");
        }
        Ok(())
    }
}

impl Token {
    /// Returns the caller with this token. `None` if the token is unknown, revoked or expired, or if its person's
    /// account was removed.
    pub async fn open(store: &dyn Store, text: &str) -> Result<Option<Caller>, StoreError> {
        if !text.starts_with(PREFIX) {
            return Ok(None);
        }
        let Some(entry) = store.entry(Kind::Token, &key_of(text)).await? else {
            return Ok(None);
        };
        let token: Token = read_body(&entry.body)?;
        // INVARIANT: a token that an earlier version made with scopes of two roles is not accepted.
        if token.scopes.role().is_none() {
            return Ok(None);
        }
        let mut authority_bases = vec![AuthorityBasis::exactly(&entry)];
        // Groups are read from the person's current account, which has to be the one that the token was made for.
        let groups = match &token.person {
            Some(person) => {
                let account = Account::of_credential(store, &entry.tenant, person).await?;
                let account = account.filter(|(account, _)| account.generation() == token.generation);
                let Some((account, basis)) = account else {
                    return Ok(None);
                };
                authority_bases.push(basis);
                account.groups
            }
            None => Vec::new(),
        };
        Ok(Some(Caller {
            tenant: entry.tenant,
            name: token.name,
            scopes: token.scopes,
            agent: token.agent,
            person: token.person,
            generation: token.generation,
            groups,
            credential: Credential::Token,
            authority_bases,
            expires_at: entry.expires_at,
        }))
    }

    /// Returns all tokens of a tenant, each with the short id by which it can be revoked.
    pub async fn list(store: &dyn Store, tenant: &Tenant) -> Result<Vec<(String, Token)>, StoreError> {
        let entries = all(store, tenant).await?;
        let token = |entry: &Entry| Ok((short(&entry.key), read_body(&entry.body)?));
        entries.iter().map(token).collect()
    }

    /// Revokes a token at once. `id` is the beginning of the token's key, at least 8 characters. Fails unless exactly
    /// one token matches.
    pub async fn revoke(store: &dyn Store, tenant: &Tenant, id: &str) -> Result<Token, AccessError> {
        let not_found = || AccessError::NotFound(format!("token `{id}`"));
        let mut meant = all(store, tenant).await?;
        meant.retain(|entry| id.len() >= 8 && entry.key.starts_with(id));
        let [entry] = meant.as_slice() else {
            return Err(not_found());
        };
        let taken = store.take_entry(Kind::Token, &entry.key).await?;
        let taken = taken.ok_or_else(not_found)?;
        Ok(read_body(&taken.body)?)
    }
}

async fn all(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map(|entry| entry.key.clone());
        let page = store
            .entries(tenant, Kind::Token, after.as_deref(), LONGEST_PAGE)
            .await?;
        if page.is_empty() {
            return Ok(entries);
        }
        entries.extend(page);
    }
}

/// Lists the allowed combinations of scopes, for an error message.
fn allowed_together() -> String {
    let together = Role::ALL.map(|role| {
        let scopes: Scopes = role.scopes().iter().copied().collect();
        scopes.to_string()
    });
    format!(
        "all scopes of a token must come from one role: {}",
        together.join(" | ")
    )
}

fn short(key: &str) -> String {
    key.chars().take(8).collect()
}
