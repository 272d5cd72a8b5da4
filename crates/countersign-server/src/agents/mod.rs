//! Served agents: agents that people talk to through this service.
//!
//! Enters: what the configuration says, and what people say. Leaves: talks, each with its turns one after the other,
//! and news of them for everybody who listens. A card that is decided anywhere lets its talk go on by itself.
//! Deliberately absent: HTTP and HTML. An agent's tools are run by the service's own gate, and by nothing else.

mod files;
mod follow;
mod load;
mod policy;
mod provider;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign::conversation::Conversations;
use countersign::gate::Gate;
use countersign::id::{Channel, Person, Tenant};
use countersign_agent::agent::{Agent, Place, Plan};

pub use files::{built_in, open_world, read, text};
pub use follow::follow;
pub use load::{AgentSource, Loaded, Ready, load};
pub use policy::{join, without};
pub use provider::{Choice, provider};
pub use talk::{Busy, News, Said, Talk, card_key};

use talk::Talks;

/// The longest id of a session.
const LONGEST_SESSION: usize = 64;

/// All agents a service serves.
#[derive(Default)]
pub struct Agents {
    served: BTreeMap<String, Arc<Served>>,
    talks: Talks,
    tenant: Option<Tenant>,
    /// Whether there is a page to talk to them.
    pub has_playground: bool,
}

/// One served agent.
pub struct Served {
    /// The agent.
    pub agent: Agent,
    /// Who answers, in a few words: `a script` or a model's name.
    pub model: String,
    /// Whether that is only a script.
    pub is_scripted: bool,
    /// Something to say to it, for who does not know what to say.
    pub openings: Vec<String>,
}

impl Agents {
    /// Serves these agents over a gate, to the people of one tenant: their tools act in one world, not in one for each.
    pub fn new(gate: &Gate, tenant: Tenant, loaded: Vec<Loaded>, has_playground: bool) -> Agents {
        let served = loaded.into_iter().map(|loaded| {
            let name = loaded.plan.name.to_string();
            (name, Arc::new(Served::new(gate, loaded)))
        });
        Agents {
            served: served.collect(),
            talks: Talks::default(),
            tenant: Some(tenant),
            has_playground,
        }
    }

    /// The agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Served)> {
        self.served
            .iter()
            .map(|(name, served)| (name.as_str(), &**served))
    }

    /// Somebody's talk with an agent; nothing when there is no such agent here, or the id is none.
    pub fn talk(&self, tenant: &Tenant, agent: &str, session: &str, person: &Person) -> Option<Talk> {
        let served = self
            .served
            .get(agent)
            .filter(|_| self.tenant.as_ref() == Some(tenant))?;
        let place = Place {
            tenant: tenant.clone(),
            channel: channel(agent, session, person)?,
            person: person.clone(),
        };
        Some(self.talks.open(served, place, session))
    }

    /// The talk that happens in a channel, if it is one of ours.
    pub fn talk_in(&self, tenant: &Tenant, agent: &str, channel: &Channel) -> Option<Talk> {
        let (session, person) = parts(agent, channel)?;
        self.talk(tenant, agent, session, &person)
    }
}

impl Served {
    fn new(gate: &Gate, loaded: Loaded) -> Served {
        let Loaded {
            plan,
            is_scripted,
            openings,
        } = loaded;
        Served {
            model: match is_scripted {
                true => "a script".to_owned(),
                false => models(&plan),
            },
            agent: Agent::new(Conversations::new(gate.clone()), plan),
            is_scripted,
            openings,
        }
    }
}

fn models(plan: &Plan) -> String {
    let mut names: Vec<String> = plan.specialists.iter().map(|one| one.role.model.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// A session's conversation. The person is part of its name: nobody else's session can be named.
fn channel(agent: &str, session: &str, person: &Person) -> Option<Channel> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if session.is_empty() || session.len() > LONGEST_SESSION || !session.bytes().all(is_plain) {
        return None;
    }
    Channel::new(format!("{agent}/{session}/{person}")).ok()
}

fn parts<'c>(agent: &str, channel: &'c Channel) -> Option<(&'c str, Person)> {
    let rest = channel.as_str().strip_prefix(agent)?.strip_prefix('/')?;
    let (session, person) = rest.split_once('/')?;
    Some((session, Person::new(person).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_names_its_session_and_its_person() {
        let check = |session: &str, person: &str, expected: Option<&str>| {
            let person = Person::new(person).unwrap();
            let made = channel("crm", session, &person);
            assert_eq!(made.as_ref().map(Channel::as_str), expected, "{session}");
            if let Some(made) = made {
                assert_eq!(parts("crm", &made), Some((session, person)));
                assert_eq!(parts("cms", &made), None);
            }
        };
        check("main", "ana", Some("crm/main/ana"));
        check("a-1_B", "ana/../bo", Some("crm/a-1_B/ana/../bo"));
        check("", "ana", None);
        check("a/b", "ana", None);
        check("ä", "ana", None);
        check(&"a".repeat(65), "ana", None);
        check("main", &"a".repeat(256), None);
    }
}
