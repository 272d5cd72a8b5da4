//! Who calls, as their credential says.

use countersign::decision::{Decider, Ground, Surface};
use countersign::id::{Agent, Person, Tenant};
use countersign::time::Time;

use super::{Scope, Scopes};

/// Who calls. Made from a credential alone, never from what a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose world.
    pub tenant: Tenant,
    /// The credential's name: what stands as requester on an approval.
    pub name: Person,
    /// What it may be used for.
    pub scopes: Scopes,
    /// The agent it belongs to; such a caller sees and touches only what is the agent's own.
    pub agent: Option<Agent>,
    /// The person behind it: who decides, or for whom the agent acts.
    pub person: Option<Person>,
    /// The generation of that person's account; empty for an account of the first release, and without a person.
    pub generation: String,
    /// The groups of that person.
    pub groups: Vec<String>,
    /// What was shown.
    pub credential: Credential,
    /// What a decision by this caller rests on.
    pub grounds: Vec<Ground>,
    /// When the credential ends by itself.
    pub expires_at: Option<Time>,
}

/// A person as one account, for what belongs to the account and not to the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// The person.
    pub person: Person,
    /// The generation of the account; empty for one of the first release.
    pub generation: String,
}

/// What was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A token, by a program.
    Token,
    /// A session's cookie, by a browser.
    Session,
}

impl Caller {
    /// True when the credential may be used so.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// The person as one who decides; nothing for a credential with no person behind it, and for an agent's.
    pub fn decider(&self) -> Option<Decider> {
        if self.agent.is_some() || !self.may(Scope::Decide) {
            return None;
        }
        Some(Decider {
            person: self.person.clone()?,
            groups: self.groups.clone(),
            surface: match self.credential {
                Credential::Token => Surface::Api,
                Credential::Session => Surface::Page,
            },
            grounds: self.grounds.clone(),
        })
    }

    /// Whose talks this caller finds.
    pub fn talks_as(&self) -> Option<Speaker> {
        Some(Speaker {
            person: self.person.clone()?,
            generation: self.generation.clone(),
        })
    }

    /// The person as one who talks to an agent, and answers its cards by words or by its buttons.
    pub fn speaker(&self, surface: Surface) -> Option<Decider> {
        if self.agent.is_some() || !self.may(Scope::Chat) {
            return None;
        }
        Some(Decider {
            person: self.person.clone()?,
            groups: self.groups.clone(),
            surface,
            grounds: self.grounds.clone(),
        })
    }
}
