//! The secret from which the channel names of talks are derived.
//!
//! Input: a person, an agent and a session. Output: a channel name that cannot be guessed without the secret. The
//! secret is created once per tenant and stored in the registry, so that talks are found after a restart and on other
//! nodes. Who may talk is checked elsewhere: [`Channel::new`] refuses these names for all callers.

use countersign::hash::Fields;
use countersign::id::{Agent, Channel, Person, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};

use crate::access::Speaker;

/// Maximum length of a session id, in bytes.
const LONGEST_SESSION: usize = 64;
/// Length of the secret, in bytes.
const LENGTH: usize = 32;

/// Derives the channel names of talks.
#[derive(Clone)]
pub struct TalkSecret([u8; LENGTH]);

impl TalkSecret {
    /// Loads the tenant's secret, or creates one.
    pub async fn load(store: &dyn Store, tenant: &Tenant) -> Result<TalkSecret, StoreError> {
        let key = format!("talks/{tenant}");
        // If another node creates the secret at the same time, the second attempt loads that secret.
        for _ in 0..2 {
            if let Some(entry) = store.entry(Kind::Setting, &key).await? {
                let secret = entry.body.as_ref().try_into();
                let damaged = || StoreError::Impossible("the secret of the talks cannot be read".to_owned());
                return secret.map(TalkSecret).map_err(|_| damaged());
            }
            let mut secret = [0; LENGTH];
            getrandom::fill(&mut secret)
                .map_err(|error| StoreError::Unavailable(format!("no random bytes: {error}")))?;
            let entry = Entry {
                kind: Kind::Setting,
                key: key.clone(),
                tenant: tenant.clone(),
                body: secret.to_vec().into(),
                version: 0,
                expires_at: None,
            };
            if let Put::Written(_) = store.put_entry(entry).await? {
                return Ok(TalkSecret(secret));
            }
        }
        Err(StoreError::Impossible(
            "the secret of the talks cannot be kept".to_owned(),
        ))
    }

    /// Returns the channel of a speaker's session with a served agent, or `None` if the session id is invalid.
    ///
    /// INVARIANT: the channel belongs to one account, not to a name (X67). Accounts from the first release have no
    /// generation; their talks keep their old channel names, which no account added later can have.
    pub fn channel(
        &self,
        tenant: &Tenant,
        agent: &Agent,
        session: &str,
        speaker: &Speaker,
    ) -> Option<Channel> {
        let fields = match speaker.generation.as_str() {
            "" => self.fields("countersign/talk/1", tenant, agent, session, &speaker.person),
            generation => self
                .fields("countersign/talk/2", tenant, agent, session, &speaker.person)
                .field(generation.as_bytes()),
        };
        named(fields, session)
    }

    /// Returns the channel of a person's session in `countersign chat`, or `None` if the session id is invalid. The
    /// channel never equals that of a session with a served agent.
    pub fn terminal(
        &self,
        tenant: &Tenant,
        agent: &Agent,
        session: &str,
        person: &Person,
    ) -> Option<Channel> {
        let fields = self.fields("countersign/terminal-talk/1", tenant, agent, session, person);
        named(fields, session)
    }

    fn fields(
        &self,
        domain: &'static str,
        tenant: &Tenant,
        agent: &Agent,
        session: &str,
        person: &Person,
    ) -> Fields {
        Fields::new(domain)
            .field(&self.0)
            .field(tenant.as_str().as_bytes())
            .field(agent.as_str().as_bytes())
            .field(session.as_bytes())
            .field(person.as_str().as_bytes())
    }
}

fn named(fields: Fields, session: &str) -> Option<Channel> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if session.is_empty() || session.len() > LONGEST_SESSION || !session.bytes().all(is_plain) {
        return None;
    }
    let secret = fields.finish().0.first_chunk().copied()?;
    Channel::talk(secret, session).ok()
}

#[cfg(test)]
mod tests {
    use countersign::store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn x97_a_talks_channel_can_be_found_again_and_not_be_guessed() {
        let store = MemoryStore::default();
        let tenant = Tenant::single();
        let secret = TalkSecret::load(&store, &tenant).await.unwrap();
        let crm = Agent::served("crm").unwrap();
        let channel = |secret: &TalkSecret, agent: &Agent, session: &str, person: &str| {
            let (person, generation) = person.split_once('#').unwrap_or((person, ""));
            let person = Person::new(person).unwrap();
            let speaker = Speaker {
                person,
                generation: generation.to_owned(),
            };
            secret.channel(&tenant, agent, session, &speaker)
        };
        let ana = channel(&secret, &crm, "main", "ana").unwrap();
        assert_eq!(ana.talk_session(), Some("main"));
        let again = TalkSecret::load(&store, &tenant).await.unwrap();
        assert_eq!(channel(&again, &crm, "main", "ana"), Some(ana.clone()));
        let elsewhere = TalkSecret::load(&MemoryStore::default(), &tenant).await.unwrap();
        let others = [
            channel(&secret, &crm, "main", "bo"),
            channel(&secret, &crm, "main", "ana#1"),
            channel(&secret, &crm, "main", "ana#2"),
            channel(&secret, &crm, "other", "ana"),
            channel(&secret, &Agent::served("cms").unwrap(), "main", "ana"),
            channel(&secret, &Agent::new("crm").unwrap(), "main", "ana"),
            channel(&elsewhere, &crm, "main", "ana"),
            secret.terminal(&tenant, &crm, "main", &Person::new("ana").unwrap()),
        ];
        for other in others {
            assert!(other.is_some() && other != Some(ana.clone()), "{other:?}");
        }
        for session in ["", "a/b", "ä", &"a".repeat(65)] {
            assert_eq!(channel(&secret, &crm, session, "ana"), None, "{session}");
        }
        assert!(channel(&secret, &crm, "a-1_B", &"a".repeat(256)).is_some());
    }
}
