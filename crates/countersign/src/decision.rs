//! Decisions, and the true reasons for which one is refused.
//!
//! A refusal is an answer, not an error: it says what is so, and what to do now.

use serde::{Deserialize, Serialize};

use crate::call::Arguments;
use crate::card::WholeCard;
use crate::hash::Hash;
use crate::id::{ApprovalId, Key, Person, Tenant};
use crate::registry::{Entry, Kind};
use crate::state::State;
use crate::time::Time;

/// Where a decision was made. Later surfaces are more assured than earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// A text reply in a conversation.
    Text,
    /// A button in a conversation.
    Button,
    /// A program with a credential of its own.
    Api,
    /// The command line, on the machine that holds the store.
    CommandLine,
    /// A signed-in page.
    Page,
    /// A passkey's signature over the digest.
    Passkey,
}

impl Surface {
    /// The word used in JSON and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Surface::Text => "text",
            Surface::Button => "button",
            Surface::Api => "api",
            Surface::CommandLine => "command_line",
            Surface::Page => "page",
            Surface::Passkey => "passkey",
        }
    }

    /// The words used in sentences.
    pub fn phrase(self) -> &'static str {
        match self {
            Surface::Text => "a text reply",
            Surface::Button => "a button",
            Surface::Api => "a program's credential",
            Surface::CommandLine => "the command line",
            Surface::Page => "a signed-in page",
            Surface::Passkey => "a passkey",
        }
    }
}

/// Who decides: from the credential, never from the request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// The person.
    pub person: Person,
    /// The groups they are in.
    pub groups: Vec<String>,
    /// Where they decide.
    pub surface: Surface,
    /// What this rests on; nothing where no credential is needed, as on the machine that holds the store.
    pub grounds: Vec<Ground>,
}

impl Decider {
    /// Somebody who needs no credential here.
    pub fn new(person: Person, groups: Vec<String>, surface: Surface) -> Decider {
        Decider {
            person,
            groups,
            surface,
            grounds: Vec::new(),
        }
    }

    /// True when the person, or a group of theirs, is listed. Nobody is in an empty list.
    pub fn is_among(&self, approvers: &[String]) -> bool {
        approvers
            .iter()
            .any(|name| name == self.person.as_str() || self.groups.contains(name))
    }
}

/// An entry of the registry that a decision rests on, such as the session it came with or the account behind it. It must
/// still be there when the decision is written, or the person may not decide any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// What it is.
    pub kind: Kind,
    /// Its key.
    pub key: String,
    /// Hash of the body that was looked at; nothing when any will do. Not the version: that begins anew with an entry that
    /// was removed and made again.
    pub body: Option<Hash>,
}

impl Ground {
    /// An entry exactly as it is.
    pub fn exactly(entry: &Entry) -> Ground {
        Ground {
            kind: entry.kind,
            key: entry.key.clone(),
            body: Some(Hash::of(&entry.body)),
        }
    }

    /// An entry, whatever it says by then.
    pub fn any(entry: &Entry) -> Ground {
        Ground {
            body: None,
            ..Ground::exactly(entry)
        }
    }

    /// True if `entry`, found under this kind and key, is still what was looked at.
    pub fn holds(&self, entry: Option<&Entry>, now: Time) -> bool {
        entry.is_some_and(|entry| {
            entry.is_there(now) && self.body.is_none_or(|body| body == Hash::of(&entry.body))
        })
    }
}

/// What a person says to an approval.
///
/// INVARIANT: outside of this crate an approving decision is made from a [`WholeCard`] and from nothing else, so a
/// surface that showed part of a card can deny, but has nothing to approve with.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Whose approval.
    pub tenant: Tenant,
    pub(crate) approval: ApprovalId,
    /// Who decides.
    pub decider: Decider,
    pub(crate) verdict: Verdict,
    /// The digest of the card they saw; a decision that names one must match.
    pub digest: Option<Hash>,
    /// What they add.
    pub comment: Option<String>,
    /// Who the request's body says decided; kept as a claim.
    pub claimed_by: Option<String>,
    /// Says that this is the same decision sent again.
    pub key: Option<Key>,
}

impl Decision {
    /// A decision on a card that was shown whole, and on nothing else.
    pub fn on(tenant: Tenant, card: WholeCard, decider: Decider, verdict: Verdict) -> Decision {
        Decision {
            digest: Some(card.digest()),
            verdict,
            ..Decision::deny(tenant, card.approval(), decider)
        }
    }

    /// A denial. It needs no card: whoever saw part of it, or only its title, may say no.
    pub fn deny(tenant: Tenant, approval: ApprovalId, decider: Decider) -> Decision {
        Decision {
            tenant,
            approval,
            decider,
            verdict: Verdict::Deny,
            digest: None,
            comment: None,
            claimed_by: None,
            key: None,
        }
    }

    /// Which approval.
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    /// What was decided.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// Yes, no, or each call on its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every call may run.
    Approve,
    /// None may run.
    Deny,
    /// One choice per call, in order; the approval is approved when at least one call is.
    Each(Vec<Choice>),
}

/// What a person says to one call of an approval.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// It may run as shown.
    Approve,
    /// It may not run.
    Deny,
    /// It may run with these arguments instead.
    Edit(Arguments),
}

/// Why a decision was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such approval, or not this tenant's.
    #[error("there is no approval `{0}`")]
    NotFound(ApprovalId),
    /// Somebody was first.
    #[error("approval `{}` was already {state} by `{by}` at {at}", id.short())]
    AlreadyDecided {
        /// Which approval.
        id: ApprovalId,
        /// Approved or denied.
        state: State,
        /// By whom.
        by: Person,
        /// When.
        at: Time,
    },
    /// Too late.
    #[error("approval `{}` expired at {at}", id.short())]
    Expired {
        /// Which approval.
        id: ApprovalId,
        /// When.
        at: Time,
    },
    /// Another one took its place.
    #[error("approval `{}` was superseded by `{}`", id.short(), by.short())]
    Superseded {
        /// Which approval.
        id: ApprovalId,
        /// What took its place.
        by: ApprovalId,
    },
    /// It was taken back.
    #[error("approval `{}` was withdrawn at {at}", id.short())]
    Withdrawn {
        /// Which approval.
        id: ApprovalId,
        /// When.
        at: Time,
    },
    /// The policy let the call pass, so there is nothing to decide.
    #[error("approval `{}` was never asked for: the policy let the call pass at {at}", id.short())]
    NotAsked {
        /// Which approval.
        id: ApprovalId,
        /// When.
        at: Time,
    },
    /// The decision was made on something else than what is pending.
    #[error("the decision is about another card than approval `{}` shows now", id.short())]
    Stale {
        /// Which approval.
        id: ApprovalId,
        /// The digest of what is pending.
        digest: Hash,
    },
    /// The answer came from a place that showed only part of the card.
    #[error("part of approval `{}` was not shown there, so it cannot be approved from there", id.short())]
    Incomplete {
        /// Which approval.
        id: ApprovalId,
    },
    /// The person may not decide this.
    #[error("`{person}` may not decide approval `{}`", id.short())]
    NotAllowed {
        /// Which approval.
        id: ApprovalId,
        /// The person.
        person: Person,
    },
    /// The person asked for it, or is whom the agent acts for.
    #[error("`{person}` asked for approval `{}`, so somebody else has to approve it", id.short())]
    FourEyes {
        /// Which approval.
        id: ApprovalId,
        /// The person.
        person: Person,
    },
    /// The decision came from a place that is not safe enough.
    #[error("approval `{}` cannot be approved by {}: it takes {} or better", id.short(), on.phrase(), least.phrase())]
    SurfaceTooWeak {
        /// Which approval.
        id: ApprovalId,
        /// Where the decision was made.
        on: Surface,
        /// The least it takes.
        least: Surface,
    },
    /// The same person again, where several have to approve.
    #[error("`{person}` has already approved approval `{}`; it takes {missing} more", id.short())]
    AlreadyEndorsed {
        /// Which approval.
        id: ApprovalId,
        /// The person.
        person: Person,
        /// How many others still have to.
        missing: u8,
    },
    /// Whoever changes a call's arguments cannot be the only one to approve them.
    #[error("call {call} of approval `{}` needs more than one pair of eyes, so it cannot be edited", id.short())]
    EditNotAlone {
        /// Which approval.
        id: ApprovalId,
        /// Which call, from 1.
        call: u8,
    },
    /// The choices do not fit the calls.
    #[error("approval `{}` has {calls} calls, the decision speaks of {choices}", id.short())]
    BadChoices {
        /// Which approval.
        id: ApprovalId,
        /// How many calls it has.
        calls: usize,
        /// How many choices came.
        choices: usize,
    },
    /// The changed arguments are not acceptable.
    #[error("call {call}: {reason}")]
    BadEdit {
        /// Which call, from 1.
        call: u8,
        /// Why not.
        reason: String,
    },
    /// The idempotency key belongs to another decision.
    #[error("idempotency key `{0}` was used for something else")]
    KeyReused(Key),
}

impl Refusal {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::NotFound(_) => "not_found",
            Refusal::AlreadyDecided { .. } => "already_decided",
            Refusal::Expired { .. } => "expired",
            Refusal::Superseded { .. } => "superseded",
            Refusal::Withdrawn { .. } => "withdrawn",
            Refusal::NotAsked { .. } => "not_asked",
            Refusal::Stale { .. } => "stale",
            Refusal::Incomplete { .. } => "incomplete",
            Refusal::NotAllowed { .. } => "not_allowed",
            Refusal::FourEyes { .. } => "four_eyes",
            Refusal::SurfaceTooWeak { .. } => "surface_too_weak",
            Refusal::AlreadyEndorsed { .. } => "already_endorsed",
            Refusal::EditNotAlone { .. } => "edit_not_alone",
            Refusal::BadChoices { .. } => "bad_choices",
            Refusal::BadEdit { .. } => "bad_edit",
            Refusal::KeyReused(_) => "key_reused",
        }
    }

    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            Refusal::NotFound(_) => "list the pending approvals",
            Refusal::AlreadyDecided { .. } | Refusal::Expired { .. } | Refusal::Withdrawn { .. } => {
                "ask the agent to propose it again"
            }
            Refusal::NotAsked { .. } => {
                "undo it if it should not have run, and change the policy so that it is held"
            }
            Refusal::Superseded { .. } => "decide the newer approval instead",
            Refusal::Stale { .. } => "look at the current card and decide again",
            Refusal::Incomplete { .. } => "open the whole card and decide there, or deny it from here",
            Refusal::NotAllowed { .. } => "ask one of its approvers",
            Refusal::FourEyes { .. } => "ask another of its approvers, or deny it",
            Refusal::SurfaceTooWeak { .. } => "decide it there, or deny it from here",
            Refusal::AlreadyEndorsed { .. } => "ask another of its approvers, or deny it",
            Refusal::EditNotAlone { .. } => "deny it, and have it proposed again as it should be",
            Refusal::BadChoices { .. } => "give one choice per call",
            Refusal::BadEdit { .. } => "correct the arguments, or deny the call",
            Refusal::KeyReused(_) => "use a new key for a new decision",
        }
    }
}
