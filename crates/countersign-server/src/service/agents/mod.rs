//! Served agents: agents that people talk to through this service.
//!
//! Input: people's messages. Output: talks, each of them the conversation of one person with one agent. The turns of a
//! talk run one after the other, and all listeners get the news. When a card is decided, whatever the surface, its talk
//! continues without a further message. HTTP and HTML are in the surfaces. An agent's tools run only through the
//! service's own gate.

mod follow;
mod listen;
mod secret;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign::approval::Approval;
use countersign::conversation::Conversations;
use countersign::gate::Gate;
use countersign::id::{self, BadName, Tenant};
use countersign::store::{Store, StoreError};
use countersign_agent::agent::{Agent, AgentConfig, TurnContext};

use crate::access::{Account, Speaker};

pub use follow::follow;
pub use listen::listen;
pub use secret::TalkSecret;
pub use talk::{Busy, News, PersonAction, Talk, card_key};

use talk::Talks;

/// Maximum length of a person's message to an agent, in bytes.
pub const LONGEST_MESSAGE: usize = 16 * 1024;

/// All agents that a service serves.
#[derive(Default)]
pub struct Agents {
    served: BTreeMap<String, Arc<Served>>,
    talks: Talks,
    world: Option<(Tenant, TalkSecret)>,
    /// True if there is a page for talking to the agents.
    pub has_playground: bool,
}

/// One served agent.
pub struct Served {
    /// Name under which the agent is served.
    pub name: String,
    /// The agent, which proposes its calls to the service's gate.
    pub agent: Agent,
    /// The source of the answers: `a script`, or the names of the models.
    pub model: String,
    /// True if a script answers instead of a model.
    pub is_scripted: bool,
    /// Example messages that the playground page offers to start with.
    pub openings: Vec<String>,
}

/// An agent that is ready to be served.
pub struct Loaded {
    /// Configuration of the agent.
    pub plan: AgentConfig,
    /// True if a script answers instead of a model.
    pub is_scripted: bool,
    /// Example messages that the playground page offers to start with.
    pub openings: Vec<String>,
}

impl Agents {
    /// Creates the agents of a service for the people of one tenant, who all share the same data. Fails if a name is
    /// invalid.
    pub fn new(
        gate: &Gate,
        tenant: Tenant,
        secret: TalkSecret,
        loaded: Vec<Loaded>,
        has_playground: bool,
    ) -> Result<Agents, BadName> {
        let served = loaded.into_iter().map(|loaded| {
            let served = Served::new(gate, loaded)?;
            Ok((served.name.clone(), Arc::new(served)))
        });
        Ok(Agents {
            served: served.collect::<Result<_, BadName>>()?,
            talks: Talks::default(),
            world: Some((tenant, secret)),
            has_playground,
        })
    }

    /// Iterates over the agents and their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Served)> {
        self.served
            .iter()
            .map(|(name, served)| (name.as_str(), &**served))
    }

    /// Returns a person's talk with an agent; `None` if there is no such agent, the tenant is not the service's or the
    /// session id is invalid.
    pub fn talk(&self, tenant: &Tenant, agent: &str, session: &str, speaker: &Speaker) -> Option<Talk> {
        let served = self.served.get(agent)?;
        let (_, secret) = self.world.as_ref().filter(|(ours, _)| ours == tenant)?;
        let place = TurnContext {
            tenant: tenant.clone(),
            channel: secret.channel(tenant, served.agent.name(), session, speaker)?,
            person: speaker.person.clone(),
        };
        Some(self.talks.open(served, place, session))
    }

    /// Returns the talk in which an approval was proposed; `None` if the approval was not proposed in a talk of this
    /// speaker.
    pub fn talk_of(&self, approval: &Approval, speaker: &Speaker) -> Option<Talk> {
        let channel = approval.channel.as_ref()?;
        let agent = approval.agent.served_name()?;
        let talk = self.talk(&approval.tenant, agent, channel.talk_session()?, speaker)?;
        (talk.place().channel == *channel).then_some(talk)
    }

    /// Returns the talk in which an approval was proposed; `None` if it was proposed outside a talk with a served
    /// agent, or if the person's account no longer exists.
    pub async fn find_talk_of(
        &self,
        store: &dyn Store,
        approval: &Approval,
    ) -> Result<Option<Talk>, StoreError> {
        let (Some(person), Some(_)) = (&approval.on_behalf_of, approval.agent.served_name()) else {
            return Ok(None);
        };
        let account = Account::find(store, &approval.tenant, person).await?;
        Ok(account.and_then(|account| {
            let speaker = Speaker {
                generation: account.generation().to_owned(),
                person: account.name,
            };
            self.talk_of(approval, &speaker)
        }))
    }
}

impl Agents {
    /// Sets the URL of the inbox, to which a talk refers for cards that are too long for it.
    pub fn leading_to(mut self, page: &str) -> Agents {
        for served in self.served.values_mut() {
            if let Some(served) = Arc::get_mut(served) {
                served.agent = served.agent.clone().with_inbox_url(page);
            }
        }
        self
    }
}

impl Served {
    /// Creates a served agent. INVARIANT: the agent proposes under a name that no credential can have (X97).
    fn new(gate: &Gate, loaded: Loaded) -> Result<Served, BadName> {
        let Loaded {
            mut plan,
            is_scripted,
            openings,
        } = loaded;
        let name = plan.name.to_string();
        plan.name = id::Agent::served(&name)?;
        Ok(Served {
            name,
            model: match is_scripted {
                true => "a script".to_owned(),
                false => models(&plan),
            },
            agent: Agent::new(Conversations::new(gate.clone()), plan),
            is_scripted,
            openings,
        })
    }
}

fn models(plan: &AgentConfig) -> String {
    let mut names: Vec<String> = plan.specialists.iter().map(|one| one.role.model.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
