//! Scopes: what a credential may be used for, and which scopes one token may combine.
//!
//! INVARIANT: the scopes of a token belong to one [`Role`]. No role can both decide and propose or start, so no token
//! can. An agent can start its own released calls only.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A permission of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Propose calls, and read and withdraw the approvals of the credential's own agent.
    Propose,
    /// Wait for the approvals of the credential's own agent.
    Wait,
    /// Everything that `propose` and `wait` allow, and start and finish released calls of the credential's own agent.
    Agent,
    /// Read all approvals and events of the tenant.
    Read,
    /// Decide approvals.
    Decide,
    /// Start and finish released calls.
    Execute,
    /// Submit messages of people in a conversation, on their behalf.
    Reply,
    /// Talk to served agents as a person, and reply to cards in these conversations.
    Chat,
    /// Manage people and tokens, and administer the service.
    Admin,
}

impl Scope {
    /// All scopes, in the order in which they are listed.
    pub const ALL: [Scope; 9] = [
        Scope::Propose,
        Scope::Wait,
        Scope::Agent,
        Scope::Read,
        Scope::Decide,
        Scope::Execute,
        Scope::Reply,
        Scope::Chat,
        Scope::Admin,
    ];

    /// Returns the name used on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Propose => "propose",
            Scope::Wait => "wait",
            Scope::Agent => "agent",
            Scope::Read => "read",
            Scope::Decide => "decide",
            Scope::Execute => "execute",
            Scope::Reply => "reply",
            Scope::Chat => "chat",
            Scope::Admin => "admin",
        }
    }

    /// Returns true if a credential with this scope may do what `other` allows.
    pub fn includes(self, other: Scope) -> bool {
        self == other || (self == Scope::Agent && matches!(other, Scope::Propose | Scope::Wait))
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;
    fn from_str(text: &str) -> Result<Scope, String> {
        Scope::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| {
                format!(
                    "`{text}` is not a scope; there are propose, wait, agent, read, decide, execute, reply, chat, admin"
                )
            })
    }
}

/// Purpose of a token, which limits its scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A program that proposes calls, and may run its own.
    Agent,
    /// A person's own program, which decides and talks as that person.
    Person,
    /// A host that runs released calls.
    Host,
    /// A chat adapter, which submits the messages of people it verified, and so decides as any of them.
    Adapter,
    /// A program that administers the service.
    Operator,
}

impl Role {
    /// All roles, in the order in which they are tried and listed.
    pub const ALL: [Role; 5] = [
        Role::Agent,
        Role::Person,
        Role::Host,
        Role::Adapter,
        Role::Operator,
    ];

    /// Returns the role's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Person => "person",
            Role::Host => "host",
            Role::Adapter => "adapter",
            Role::Operator => "operator",
        }
    }

    /// Returns the scopes that a token of this role may have.
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Role::Agent => &[Scope::Propose, Scope::Wait, Scope::Agent],
            Role::Person => &[Scope::Read, Scope::Decide, Scope::Chat],
            Role::Host => &[Scope::Read, Scope::Execute],
            Role::Adapter => &[Scope::Read, Scope::Reply],
            Role::Operator => &[Scope::Read, Scope::Admin],
        }
    }
}

/// A sorted set of scopes, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Returns true if the set contains `scope`.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Iterates over the scopes in order.
    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }

    /// Returns the first role that allows all the scopes, or `None` if no role does or the set is empty.
    pub fn role(&self) -> Option<Role> {
        let fits = |role: &Role| self.iter().all(|scope| role.scopes().contains(&scope));
        Role::ALL.into_iter().find(|role| !self.is_empty() && fits(role))
    }

    /// Returns true if there are no scopes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        let mut scopes: Vec<Scope> = scopes.into_iter().collect();
        scopes.sort_unstable();
        scopes.dedup();
        Scopes(scopes)
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|scope| scope.as_str()).collect();
        f.write_str(&words.join(","))
    }
}
