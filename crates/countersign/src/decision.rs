//! Decisions, and the reasons for refusing a decision.
//!
//! A refusal is an answer, not an error: it states the facts and what to do next.

use serde::{Deserialize, Serialize};

use crate::call::Arguments;
use crate::card::WholeCard;
use crate::hash::Hash;
use crate::id::{ApprovalId, Key, Person, Tenant};
use crate::registry::{Entry, Kind};
use crate::state::State;
use crate::time::Time;

/// Kind of interface from which a person decides. [`Assurance`] ranks how certain the decider's identity is on each
/// surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// A text reply in a conversation.
    Text,
    /// A button in a conversation.
    Button,
    /// An API request with a program's own credential.
    Api,
    /// The command line, on the machine that holds the store.
    CommandLine,
    /// A page of the inbox, on which the person is signed in.
    Page,
    /// A passkey's signature over the digest.
    Passkey,
}

impl Surface {
    /// All surfaces.
    pub const ALL: [Surface; 6] = [
        Surface::Text,
        Surface::Button,
        Surface::Api,
        Surface::CommandLine,
        Surface::Page,
        Surface::Passkey,
    ];

    /// Returns the word used in JSON and events.
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

    /// Returns how certain it is that the named person made a decision on this surface and saw the card.
    pub fn assurance(self) -> Assurance {
        match self {
            Surface::Text => Assurance::Text,
            Surface::Button => Assurance::Button,
            Surface::Api => Assurance::Api,
            Surface::CommandLine => Assurance::CommandLine,
            Surface::Page => Assurance::Page,
            Surface::Passkey => Assurance::Passkey,
        }
    }
}

/// Certainty that the named person made a decision, in increasing order. Each level is named after the surface that it
/// belongs to.
///
/// Stores save the position of a level in this list. So a new level goes to the end, even if it ranks lower; `Ord` then
/// has to be implemented by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assurance {
    /// A text that may have been sent by mistake, or from a hijacked account.
    Text,
    /// A button, which identifies the exact card.
    Button,
    /// A program's own credential.
    Api,
    /// An account on the machine that holds the store.
    CommandLine,
    /// A signed-in browser session.
    Page,
    /// A signature over the digest.
    Passkey,
}

impl Assurance {
    /// All levels, in increasing order.
    pub const ALL: [Assurance; 6] = [
        Assurance::Text,
        Assurance::Button,
        Assurance::Api,
        Assurance::CommandLine,
        Assurance::Page,
        Assurance::Passkey,
    ];

    /// Returns the word used in policies and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Assurance::Text => "text",
            Assurance::Button => "button",
            Assurance::Api => "api",
            Assurance::CommandLine => "command_line",
            Assurance::Page => "page",
            Assurance::Passkey => "passkey",
        }
    }

    /// Returns the level as words in a sentence, such as `a signed-in page`.
    pub fn phrase(self) -> &'static str {
        match self {
            Assurance::Text => "a text reply",
            Assurance::Button => "a button",
            Assurance::Api => "a program's credential",
            Assurance::CommandLine => "the command line",
            Assurance::Page => "a signed-in page",
            Assurance::Passkey => "a passkey",
        }
    }
}

/// The person who decides, as identified by the credential, never by the request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// Person whom the credential identifies.
    pub person: Person,
    /// Groups that the person belongs to.
    pub groups: Vec<String>,
    /// Surface from which the person decides.
    pub surface: Surface,
    /// Registry entries on which the authority rests. Empty if no credential is needed, as on the machine that holds
    /// the store.
    pub authority_bases: Vec<AuthorityBasis>,
}

impl Decider {
    /// Builds a decider whose authority rests on no registry entry.
    pub fn new(person: Person, groups: Vec<String>, surface: Surface) -> Decider {
        Decider {
            person,
            groups,
            surface,
            authority_bases: Vec::new(),
        }
    }

    /// Returns true if the person or one of their groups is listed. An empty list includes nobody.
    pub fn is_among(&self, approvers: &[String]) -> bool {
        approvers
            .iter()
            .any(|name| name == self.person.as_str() || self.groups.contains(name))
    }
}

/// A registry entry on which a decider's authority rests, such as the session or the account. The entry must still be
/// valid when the decision is written; otherwise the decision is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityBasis {
    /// Kind of the entry.
    pub kind: Kind,
    /// Key of the entry.
    pub key: String,
    /// Hash of the body that was checked; `None` if the entry may have any body. The version is not compared, because
    /// it starts again when an entry is removed and recreated.
    pub body: Option<Hash>,
}

impl AuthorityBasis {
    /// Creates the requirement that the entry exists with exactly this body.
    pub fn exactly(entry: &Entry) -> AuthorityBasis {
        AuthorityBasis {
            kind: entry.kind,
            key: entry.key.clone(),
            body: Some(Hash::of(&entry.body)),
        }
    }

    /// Creates the requirement that the entry exists, with any body.
    pub fn any(entry: &Entry) -> AuthorityBasis {
        AuthorityBasis {
            body: None,
            ..AuthorityBasis::exactly(entry)
        }
    }

    /// Returns true if `entry`, found under this kind and key, is live at `now` and satisfies the requirement.
    pub fn holds(&self, entry: Option<&Entry>, now: Time) -> bool {
        entry.is_some_and(|entry| {
            entry.is_live(now) && self.body.is_none_or(|body| body == Hash::of(&entry.body))
        })
    }
}

/// A person's decision on an approval.
///
/// INVARIANT: outside this crate an approving decision can be built only from a [`WholeCard`], so a surface that showed
/// part of a card can deny but not approve.
///
/// ```
/// # use countersign::{Decider, Decision, Gate, MemoryStore, Policy, Submission, SubmittedCall, Surface};
/// # use countersign::{Refusal, Tenant, Verdict, WholeCard};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let gate = Gate::new(MemoryStore::default(), Policy::parse("[tools.delete_page]\neffect = \"destructive\"")?);
/// # let call = SubmittedCall::new("delete_page", r#"{"id":7}"#);
/// # let submitted = gate.submit(Submission::new(Tenant::single(), "cms", "cms-token", vec![call])?).await?;
/// # let approval = submitted.approval.ok_or("held")?;
/// let ana = Decider::new("ana".try_into()?, vec!["approvers".into()], Surface::Page);
/// let mut denial = Decision::deny(Tenant::single(), approval.id, ana.clone());
/// denial.comment = Some("that page is still linked".to_owned());
/// gate.decide(denial).await?.accepted()?;
///
/// // Every approval is decided once. A later decision is refused with the reason.
/// let late = Decision::on(Tenant::single(), WholeCard::shown(&approval), ana, Verdict::Approve);
/// let refused = gate.decide(late).await?.accepted().expect_err("already denied");
/// assert!(matches!(refused, Refusal::AlreadyDecided { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Tenant of the approval.
    pub tenant: Tenant,
    pub(crate) approval: ApprovalId,
    /// The person who decides.
    pub decider: Decider,
    pub(crate) verdict: Verdict,
    /// Digest of the card that the person saw; if given, it must match the approval's digest.
    pub digest: Option<Hash>,
    /// Comment by the person, if any.
    pub comment: Option<String>,
    /// Decider named in the request's body, if any; recorded as an unchecked claim.
    pub claimed_by: Option<String>,
    /// Idempotency key, if any: a retry with the same key gets the same answer.
    pub key: Option<Key>,
}

impl Decision {
    /// Builds a decision on a card that was shown whole.
    pub fn on(tenant: Tenant, card: WholeCard, decider: Decider, verdict: Verdict) -> Decision {
        Decision {
            digest: Some(card.digest()),
            verdict,
            ..Decision::deny(tenant, card.approval(), decider)
        }
    }

    /// Builds a denial. It needs no [`WholeCard`]: a person who saw only part of the card may still deny.
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

    /// Returns the id of the approval.
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    /// Returns the verdict: approve, deny, or a choice for each call.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// Effect of a decision on the calls of an approval.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Approves every call.
    Approve,
    /// Denies every call.
    Deny,
    /// One choice per call, in order. The approval counts as approved if at least one call is approved.
    Each(Vec<Choice>),
}

/// Decision on one call of an approval.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Approves the call as shown.
    Approve,
    /// Denies the call.
    Deny,
    /// Approves the call with these arguments instead.
    Edit(Arguments),
}

/// Reason why a decision was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The tenant has no such approval.
    #[error("there is no approval `{0}`")]
    NotFound(ApprovalId),
    /// The approval was decided before.
    #[error("approval `{}` was already {state} by `{by}` at {at}", id.short())]
    AlreadyDecided {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// State of the approval: approved or denied.
        state: State,
        /// The person who decided before.
        by: Person,
        /// Time of that decision.
        at: Time,
    },
    /// The approval has expired.
    #[error("approval `{}` expired at {at}", id.short())]
    Expired {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Time of expiry.
        at: Time,
    },
    /// The approval was superseded by a newer one.
    #[error("approval `{}` was superseded by `{}`", id.short(), by.short())]
    Superseded {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Approval that replaced this one.
        by: ApprovalId,
    },
    /// The approval was withdrawn.
    #[error("approval `{}` was withdrawn at {at}", id.short())]
    Withdrawn {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Time of the withdrawal.
        at: Time,
    },
    /// The policy let the call pass, so there is nothing to decide.
    #[error("approval `{}` needs no decision: the policy let the call pass at {at}", id.short())]
    NotAsked {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Time at which the call passed.
        at: Time,
    },
    /// The decision refers to a digest that is not the one of the pending approval.
    #[error("the decision is about another card than approval `{}` shows now", id.short())]
    Stale {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Digest of the pending approval.
        digest: Hash,
    },
    /// The surface showed only part of the card.
    #[error("part of approval `{}` was not shown there, so it cannot be approved from there", id.short())]
    Incomplete {
        /// Approval that the decision was about.
        id: ApprovalId,
    },
    /// The card would hide a value that the policy does not call secret, because the value repeats a secret.
    #[error("approval `{}` cannot be approved: {what}", id.short())]
    Concealed {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Description of the value that would be hidden, and of the secret that hides it.
        what: String,
    },
    /// The person may not decide this approval.
    #[error("`{person}` may not decide approval `{}`", id.short())]
    NotAllowed {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Person who tried to decide.
        person: Person,
    },
    /// The policy demands a second person, but this person proposed the calls or is the one for whom the agent acts.
    #[error("`{person}` asked for approval `{}`, so somebody else has to approve it", id.short())]
    FourEyes {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Person who tried to decide.
        person: Person,
    },
    /// The surface is weaker than required.
    #[error("approval `{}` cannot be approved by {}: it needs {} or better", id.short(), on.assurance().phrase(), least.phrase())]
    SurfaceTooWeak {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Surface of the decision.
        on: Surface,
        /// Weakest assurance that the policy accepts.
        least: Assurance,
    },
    /// This person has already approved; the missing approvals have to come from others.
    #[error("`{person}` has already approved approval `{}`; it takes {missing} more", id.short())]
    AlreadyEndorsed {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Person who tried to decide.
        person: Person,
        /// Number of people who still have to approve.
        missing: u8,
    },
    /// A call that requires four eyes or a quorum cannot be edited, because the editor alone would approve the new
    /// arguments.
    #[error("call {call} of approval `{}` needs more than one pair of eyes, so it cannot be edited", id.short())]
    EditNotAlone {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Position of the call, from 1.
        call: u8,
    },
    /// The choices do not match the calls.
    #[error("approval `{}` has {calls} calls, but the decision covers {choices}", id.short())]
    BadChoices {
        /// Approval that the decision was about.
        id: ApprovalId,
        /// Number of calls in the approval.
        calls: usize,
        /// Number of choices given.
        choices: usize,
    },
    /// The edited arguments are invalid.
    #[error("call {call}: {reason}")]
    BadEdit {
        /// Position of the call, from 1.
        call: u8,
        /// Description of what is wrong with the arguments.
        reason: String,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key `{0}` was used for something else")]
    KeyReused(Key),
}

impl Refusal {
    /// Returns a stable code for programs, such as `already_decided`.
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
            Refusal::Concealed { .. } => "concealed",
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

    /// Returns advice on what to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Refusal::NotFound(_) => "list the pending approvals",
            // Another proposal of an approved call would run it a second time.
            Refusal::AlreadyDecided { state, .. } if *state == State::Approved => {
                "nothing is left to decide; look at the approval to see what came of it"
            }
            Refusal::AlreadyDecided { .. } | Refusal::Expired { .. } | Refusal::Withdrawn { .. } => {
                "ask the agent to propose it again"
            }
            Refusal::NotAsked { .. } => {
                "undo it if it should not have run, and change the policy so that it is held"
            }
            Refusal::Superseded { .. } => "decide the newer approval instead",
            Refusal::Stale { .. } => "look at the current card and decide again",
            Refusal::Incomplete { .. } => "open the whole card and decide there, or deny it from here",
            Refusal::Concealed { .. } => {
                "deny it, and have it proposed again without the secret in that other place"
            }
            Refusal::NotAllowed { .. } => "ask one of its approvers",
            Refusal::FourEyes { .. } => "ask another of its approvers, or deny it",
            Refusal::SurfaceTooWeak { .. } => "decide it there, or deny it from here",
            Refusal::AlreadyEndorsed { .. } => "ask another of its approvers, or deny it",
            Refusal::EditNotAlone { .. } => "deny it, and ask the agent to propose it correctly",
            Refusal::BadChoices { .. } => "give one choice per call",
            Refusal::BadEdit { .. } => "correct the arguments, or deny the call",
            Refusal::KeyReused(_) => "use a new key for a new decision",
        }
    }
}
