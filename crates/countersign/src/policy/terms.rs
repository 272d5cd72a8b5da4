//! The terms of a held call: how it is shown to people, and what approving it requires.
//!
//! The risk of a [`Draft`] may still be raised; that of finished [`Terms`] is final. The authority is derived from the
//! final risk, when a draft is finished.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::authority::{Authority, AuthorityOverrides, MinimumAssurances};
use super::{OnFailure, Undoable};
use crate::effect::{Effect, Risk};
use crate::secrecy::Secrecy;
use crate::summary::SecretPath;

/// Terms of a held call: how it is shown to people, what approving it requires, and how it runs once approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Terms {
    /// Kind of change that the tool makes.
    pub effect: Effect,
    /// The final risk, and the requirements for approving that follow from it.
    pub stakes: RiskAndAuthority,
    /// Summary sentence that a person checks; escaped for display.
    pub summary: String,
    /// Label of the approve button; `None` for the default label.
    pub yes: Option<String>,
    /// Label of the deny button; `None` for the default label.
    pub no: Option<String>,
    /// How long the approval stays pending before it expires.
    pub ttl: Duration,
    /// How long after its release the call may be started; if absent, as long as `ttl`.
    pub start_within: Option<Duration>,
    /// Maximum run time of the executor.
    pub timeout: Duration,
    /// Groups and people who may approve; if empty, nobody can.
    pub approvers: Vec<String>,
    /// Handling of the remaining calls of a batch when this one fails.
    pub on_failure: OnFailure,
    /// Whether the policy declares an undo for the call.
    pub undo: Undoable,
    /// Further facts about why the call is held, such as a condition that failed; escaped for display.
    pub notes: Vec<String>,
    /// Paths of arguments that are never shown; `None` for a call stored by an older version that did not record them.
    /// Stored separately; see `store/record.rs`.
    #[serde(skip)]
    pub secret: Option<Vec<SecretPath>>,
}

impl Terms {
    /// Makes the values at the paths `more` secret, and removes the secrets that `secrecy` knows from the summary and
    /// the notes. A summary that contains such a secret is replaced by `generic`, which hides values by their paths, so
    /// that a secret that equals a word of the policy does not hide that word.
    pub(crate) fn hide(
        &mut self,
        more: impl IntoIterator<Item = SecretPath>,
        secrecy: &Secrecy,
        generic: impl FnOnce(&[SecretPath]) -> String,
    ) {
        let paths = self.secret.get_or_insert_default();
        for path in more {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        if secrecy.is_in_words(&self.summary) {
            self.summary = generic(paths);
        }
        for note in &mut self.notes {
            *note = secrecy.text(note).into_owned();
        }
    }

    /// Returns the final risk: the degree of harm that a wrong call can do.
    pub fn risk(&self) -> Risk {
        self.stakes.risk
    }

    /// Requirements for approving, beyond being one of the approvers.
    pub fn authority(&self) -> Authority {
        self.stakes.authority
    }
}

/// A call's final risk and the authority derived from it. Built only by a policy and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RiskAndAuthority {
    risk: Risk,
    /// Requirements for approving that follow from the risk. Not serialized with the risk: stored rows keep them in a
    /// separate part; see `store/record.rs`.
    #[serde(skip)]
    authority: Authority,
}

impl RiskAndAuthority {
    /// Derives a call's authority from its risk.
    ///
    /// INVARIANT: this happens nowhere else.
    fn of(risk: Risk, overrides: AuthorityOverrides, surfaces: MinimumAssurances) -> RiskAndAuthority {
        RiskAndAuthority {
            risk,
            authority: overrides.authority(risk, surfaces),
        }
    }

    /// Restores the risk and the authority of a stored call.
    pub(crate) fn stored(risk: Risk, authority: Authority) -> RiskAndAuthority {
        RiskAndAuthority { risk, authority }
    }
}

/// Terms whose risk may still be raised.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) effect: Effect,
    pub(super) risk: Risk,
    pub(super) overrides: AuthorityOverrides,
    pub(super) summary: String,
    pub(super) yes: Option<String>,
    pub(super) no: Option<String>,
    pub(super) ttl: Duration,
    pub(super) start_within: Option<Duration>,
    pub(super) timeout: Duration,
    pub(super) approvers: Vec<String>,
    pub(super) on_failure: OnFailure,
    pub(super) undo: Undoable,
    pub(super) notes: Vec<String>,
    pub(super) secret: Vec<SecretPath>,
}

impl Draft {
    /// Raises the risk by one degree and notes the reason.
    pub(super) fn raise(mut self, note: String) -> Draft {
        self.risk = match self.risk {
            Risk::Low => Risk::Medium,
            Risk::Medium => Risk::High,
            Risk::High | Risk::Critical => Risk::Critical,
        };
        self.notes.push(note);
        self
    }

    /// Raises the risk to at least this degree. `None` changes nothing.
    pub(super) fn at_least(mut self, least: Option<Risk>) -> Draft {
        self.risk = least.map_or(self.risk, |least| least.max(self.risk));
        self
    }

    /// Fixes the risk and derives the authority from it.
    pub(super) fn finish(self, surfaces: MinimumAssurances) -> Terms {
        Terms {
            effect: self.effect,
            stakes: RiskAndAuthority::of(self.risk, self.overrides, surfaces),
            summary: self.summary,
            yes: self.yes,
            no: self.no,
            ttl: self.ttl,
            start_within: self.start_within,
            timeout: self.timeout,
            approvers: self.approvers,
            on_failure: self.on_failure,
            undo: self.undo,
            notes: self.notes,
            secret: Some(self.secret),
        }
    }
}
