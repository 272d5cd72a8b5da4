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
mod secret;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign::approval::Approval;
use countersign::conversation::Conversations;
use countersign::gate::Gate;
use countersign::id::{self, BadName, Tenant};
use countersign::store::{Store, StoreError};
use countersign_agent::agent::{Agent, Place, Plan};

use crate::access::{Account, Speaker};

pub use files::{built_in, open_world, read, text};
pub use follow::follow;
pub use load::{AgentSource, Loaded, Ready, load};
pub use policy::{join, without};
pub use provider::{Choice, provider};
pub use secret::TalkSecret;
pub use talk::{Busy, News, Said, Talk, card_key};

use talk::Talks;

/// All agents a service serves.
#[derive(Default)]
pub struct Agents {
    served: BTreeMap<String, Arc<Served>>,
    talks: Talks,
    world: Option<(Tenant, TalkSecret)>,
    /// Whether there is a page to talk to them.
    pub has_playground: bool,
}

/// One served agent.
pub struct Served {
    /// The name it is served under.
    pub name: String,
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

    /// The agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Served)> {
        self.served
            .iter()
            .map(|(name, served)| (name.as_str(), &**served))
    }

    /// Somebody's talk with an agent; nothing when there is no such agent here, or the id is none.
    pub fn talk(&self, tenant: &Tenant, agent: &str, session: &str, speaker: &Speaker) -> Option<Talk> {
        let served = self.served.get(agent)?;
        let (_, secret) = self.world.as_ref().filter(|(ours, _)| ours == tenant)?;
        let place = Place {
            tenant: tenant.clone(),
            channel: secret.channel(tenant, served.agent.name(), session, speaker)?,
            person: speaker.person.clone(),
        };
        Some(self.talks.open(served, place, session))
    }

    /// The talk that an approval was proposed in, if it is this speaker's.
    pub fn talk_of(&self, approval: &Approval, speaker: &Speaker) -> Option<Talk> {
        let channel = approval.channel.as_ref()?;
        let agent = approval.agent.served_name()?;
        let talk = self.talk(&approval.tenant, agent, channel.talk_session()?, speaker)?;
        (talk.place().channel == *channel).then_some(talk)
    }

    /// The talk that an approval was proposed in, if it is one of ours and its account is still there.
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
    /// Names the address of the pages: a card that is too long for a talk is shown there.
    pub fn leading_to(mut self, page: &str) -> Agents {
        for served in self.served.values_mut() {
            if let Some(served) = Arc::get_mut(served) {
                served.agent = served.agent.clone().leading_to(page);
            }
        }
        self
    }
}

impl Served {
    /// INVARIANT: it proposes as an agent that no credential can name (X97).
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

fn models(plan: &Plan) -> String {
    let mut names: Vec<String> = plan.specialists.iter().map(|one| one.role.model.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
