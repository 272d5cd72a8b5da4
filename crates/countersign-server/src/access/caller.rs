//! The caller of a request, as identified by its credential.

use countersign::decision::{AuthorityBasis, Decider, Surface};
use countersign::id::{Agent, Person, Tenant};
use countersign::time::Time;

use super::{Scope, Scopes};

/// The caller of a request. Built from a credential only, never from the request's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Tenant of the credential. All requests of the caller work in this tenant.
    pub tenant: Tenant,
    /// Name of the credential, shown as the requester of an approval.
    pub name: Person,
    /// Scopes of the credential, each of which permits some requests.
    pub scopes: Scopes,
    /// Agent of the credential, if any; the caller then only sees and changes that agent's approvals.
    pub agent: Option<Agent>,
    /// Person of the credential, if any, who decides or for whom the agent acts.
    pub person: Option<Person>,
    /// Generation of that person's account. Empty if the credential names no person, or if the account was created by
    /// the first release.
    pub generation: String,
    /// Groups of that person, read from the account at the time of the request.
    pub groups: Vec<String>,
    /// Kind of credential that identified the caller.
    pub credential: Credential,
    /// Registry entries (token or session, account) that must still be valid when a decision is recorded.
    pub authority_bases: Vec<AuthorityBasis>,
    /// Time at which the credential expires, if it does. Using a session moves its expiry.
    pub expires_at: Option<Time>,
}

/// A person together with the generation of the account, for data that must not pass to a later account of the same
/// name, such as conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Name of the person.
    pub person: Person,
    /// Generation of the account; empty for accounts from the first release.
    pub generation: String,
}

/// Kinds of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API token, sent by a program.
    Token,
    /// A session cookie, sent by a browser.
    Session,
}

impl Caller {
    /// Returns true if the credential has the scope, or one that includes it.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|own| own.includes(scope))
    }

    /// Returns the person as a decider. `None` if the credential belongs to an agent, lacks the scope `decide`, or
    /// names no person.
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
            authority_bases: self.authority_bases.clone(),
        })
    }

    /// Returns the person whose conversations with served agents the caller may use; `None` for a credential without a
    /// person.
    pub fn talks_as(&self) -> Option<Speaker> {
        Some(Speaker {
            person: self.person.clone()?,
            generation: self.generation.clone(),
        })
    }

    /// Returns the person as a decider in a conversation with an agent, where replies and buttons decide. `None` if the
    /// credential belongs to an agent, lacks the scope `chat`, or names no person.
    pub fn speaker(&self, surface: Surface) -> Option<Decider> {
        if self.agent.is_some() || !self.may(Scope::Chat) {
            return None;
        }
        Some(Decider {
            person: self.person.clone()?,
            groups: self.groups.clone(),
            surface,
            authority_bases: self.authority_bases.clone(),
        })
    }
}
