//! Chat senders: which person writes under which id in a chat, such as `telegram:123456`.
//!
//! A link carries the generation of the person's account, so a person who was removed and added again has to be linked
//! again. A sender is linked to one person at most. Ids are compared exactly.

use countersign::decision::AuthorityBasis;
use countersign::id::{Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{LONGEST_PAGE, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use super::{AccessError, Account, read_body, write_body};

/// Maximum length of a chat's name, in bytes.
const LONGEST_CHAT: usize = 32;
/// Maximum length of a sender's id within a chat, in bytes.
const LONGEST_ID: usize = 200;

/// Id of a sender: the name of the chat, a colon, and the sender's id in that chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SenderId(String);

impl SenderId {
    /// Parses an id such as `telegram:123456`. `None` if the text has another form.
    pub fn parse(text: &str) -> Option<SenderId> {
        let (chat, id) = text.split_once(':')?;
        let is_chat = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_valid = (1..=LONGEST_CHAT).contains(&chat.len())
            && chat.bytes().all(is_chat)
            && (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| SenderId(text.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Link of a chat sender to a person, as stored in the registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SenderLink {
    /// Id of the sender.
    pub sender: SenderId,
    /// Person who writes as this sender.
    pub person: Person,
    /// Generation of that person's account, so that the link does not pass to a later account of the same name.
    generation: String,
    /// Time at which the link was made.
    pub created_at: Time,
}

impl SenderLink {
    /// Links a sender to a person. Fails if there is no such person, if the sender is linked already, or if there is a
    /// person whose name is the sender's id.
    pub async fn add(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        sender: SenderId,
    ) -> Result<SenderLink, AccessError> {
        let account = Account::find(store, tenant, person).await?;
        let account = account.ok_or_else(|| AccessError::NotFound(format!("person `{person}`")))?;
        if named_like(store, tenant, &sender).await?.is_some() {
            let name = sender.as_str();
            return Err(AccessError::Exists(format!("a person of the name `{name}`")));
        }
        let key = key(tenant, &sender);
        let there = store.entry(Kind::Sender, &key).await?;
        if let Some(entry) = &there {
            let link: SenderLink = read_body(&entry.body)?;
            if link.account(store, tenant).await?.is_some() {
                let (sender, person) = (sender.as_str(), &link.person);
                return Err(AccessError::Exists(format!(
                    "a link of `{sender}`, to `{person}`"
                )));
            }
        }
        let link = SenderLink {
            sender,
            generation: account.generation().to_owned(),
            person: account.name,
            created_at: store.now().await?,
        };
        let entry = Entry {
            kind: Kind::Sender,
            key,
            tenant: tenant.clone(),
            body: write_body(&link)?,
            version: there.map_or(0, |there| there.version),
            expires_at: None,
        };
        match store.put_entry(entry).await? {
            Put::Written(_) => Ok(link),
            Put::Conflict => {
                let sender = link.sender.as_str();
                Err(AccessError::Exists(format!("a link of `{sender}`")))
            }
        }
    }

    /// Removes the link of a sender to this person. Fails if there is none.
    pub async fn remove(
        store: &dyn Store,
        tenant: &Tenant,
        person: &Person,
        sender: &SenderId,
    ) -> Result<(), AccessError> {
        let not_found = || AccessError::NotFound(format!("link of `{}` to `{person}`", sender.as_str()));
        let key = key(tenant, sender);
        let entry = store.entry(Kind::Sender, &key).await?.ok_or_else(not_found)?;
        let link: SenderLink = read_body(&entry.body)?;
        if !link.person.is_same(person) {
            return Err(not_found());
        }
        let taken = store.take_entry(Kind::Sender, &key).await?;
        taken.map(|_| ()).ok_or_else(not_found)
    }

    /// Removes all links to an account.
    pub(super) async fn forget(
        store: &dyn Store,
        tenant: &Tenant,
        account: &Account,
    ) -> Result<(), StoreError> {
        for link in SenderLink::stored(store, tenant).await? {
            if link.person == account.name && link.generation == account.generation() {
                store.take_entry(Kind::Sender, &key(tenant, &link.sender)).await?;
            }
        }
        Ok(())
    }

    /// Returns the links to this account, ordered by sender.
    pub fn of<'a>(links: &'a [SenderLink], account: &Account) -> Vec<&'a SenderLink> {
        let is_of =
            |link: &&SenderLink| link.person == account.name && link.generation == account.generation();
        let mut links: Vec<&SenderLink> = links.iter().filter(is_of).collect();
        links.sort_by(|left, right| left.sender.0.cmp(&right.sender.0));
        links
    }

    /// Returns all stored links of a tenant, also those to accounts that are gone, in no particular order.
    pub async fn stored(store: &dyn Store, tenant: &Tenant) -> Result<Vec<SenderLink>, StoreError> {
        let mut links = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = store
                .entries(tenant, Kind::Sender, after.as_deref(), LONGEST_PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(links);
            };
            after = Some(last.key.clone());
            for entry in &page {
                links.push(read_body(&entry.body)?);
            }
        }
    }

    /// Returns the account that a message's sender stands for, with the registry entries that a decision by that person
    /// rests on. `sender` is the name of an account, or the id of a linked sender. `None` if it is neither, and also if
    /// it is both, because then the adapter may mean either.
    pub async fn resolve(
        store: &dyn Store,
        tenant: &Tenant,
        sender: &Person,
    ) -> Result<Option<(Account, Vec<AuthorityBasis>)>, StoreError> {
        let named = Account::find_with_basis(store, tenant, sender).await?;
        let Some(id) = SenderId::parse(sender.as_str()) else {
            return Ok(named.map(|(account, basis)| (account, vec![basis])));
        };
        let entry = store.entry(Kind::Sender, &key(tenant, &id)).await?;
        let linked = match entry.filter(|entry| entry.tenant == *tenant) {
            Some(entry) => {
                let link: SenderLink = read_body(&entry.body)?;
                let account = link.account(store, tenant).await?;
                account.map(|(account, basis)| (account, vec![AuthorityBasis::exactly(&entry), basis]))
            }
            None => None,
        };
        Ok(match (named, linked) {
            (Some((account, basis)), None) => Some((account, vec![basis])),
            (None, linked) => linked,
            (Some(_), Some(_)) => None,
        })
    }

    /// Returns the account that the link was made for; `None` if that account is gone.
    async fn account(
        &self,
        store: &dyn Store,
        tenant: &Tenant,
    ) -> Result<Option<(Account, AuthorityBasis)>, StoreError> {
        let account = Account::of_credential(store, tenant, &self.person).await?;
        Ok(account.filter(|(account, _)| account.generation() == self.generation))
    }
}

/// Returns the account whose name is the sender's id; `None` if there is none.
async fn named_like(
    store: &dyn Store,
    tenant: &Tenant,
    sender: &SenderId,
) -> Result<Option<Account>, StoreError> {
    match Person::new(sender.as_str()) {
        Ok(name) => Account::find(store, tenant, &name).await,
        Err(_) => Ok(None),
    }
}

/// Returns the registry key of a sender. As for people, the key is a hash, and the hashed text includes the tenant's
/// length.
fn key(tenant: &Tenant, sender: &SenderId) -> String {
    let named = format!("sender:{}:{tenant}:{}", tenant.as_str().len(), sender.as_str());
    countersign::hash::Hash::of(named.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::SenderId;

    #[test]
    fn a_sender_is_a_chat_and_an_id() {
        for (text, expected) in [
            ("telegram:123456", true),
            ("slack:T01/U02", true),
            ("irc-2:a:b", true),
            ("ana", false),
            ("Telegram:1", false),
            (":1", false),
            ("telegram:", false),
            ("telegram:1 2", false),
            ("telegram:é", false),
            ("telegram:1\n", false),
        ] {
            assert_eq!(SenderId::parse(text).is_some(), expected, "`{text}`");
        }
        assert!(SenderId::parse(&format!("a:{}", "1".repeat(201))).is_none());
    }
}
