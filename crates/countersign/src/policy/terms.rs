//! The terms of a held call: how it is put to a person, and what approving it takes.
//!
//! Enters: a [`Draft`], whose risk every rule may still raise. Leaves: [`Terms`], whose risk is final.
//! Deliberately absent: a way to raise the risk of finished terms. Authority follows from the final risk, in one place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::authority::{Asks, Authority, Surfaces};
use super::{OnFailure, Undoable};
use crate::effect::{Effect, Risk};
use crate::secrecy::Secrecy;
use crate::summary::SecretPath;

/// How a held call is put to a person, and what follows an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The kind of change.
    pub effect: Effect,
    /// The final risk, and what approving takes because of it.
    pub stakes: Stakes,
    /// The sentence a person verifies; safe to show.
    pub summary: String,
    /// What the approving button says.
    pub yes: Option<String>,
    /// What the denying button says.
    pub no: Option<String>,
    /// How long the approval waits.
    pub ttl: Duration,
    /// How long a release stays fresh; absent: as long as the approval waits.
    pub start_within: Option<Duration>,
    /// How long the executor may take.
    pub timeout: Duration,
    /// Groups and people who may approve; empty: nobody.
    pub approvers: Vec<String>,
    /// What happens to the rest of a batch when this call fails.
    pub on_failure: OnFailure,
    /// Whether an undo is declared.
    pub undo: Undoable,
    /// Why it is held, where that is not plain; safe to show.
    pub notes: Vec<String>,
    /// Places of the arguments that nobody is shown; nothing when an older version kept the call and did not say. Kept
    /// apart from the rest; see `store/record.rs`.
    #[serde(skip)]
    pub secret: Option<Vec<SecretPath>>,
}

impl Terms {
    /// Makes more places secret, and hides in what people read what `secrecy` knows of.
    pub(crate) fn hide(&mut self, more: impl IntoIterator<Item = SecretPath>, secrecy: &Secrecy) {
        let paths = self.secret.get_or_insert_default();
        for path in more {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        self.summary = secrecy.text(&self.summary).into_owned();
        for note in &mut self.notes {
            *note = secrecy.text(note).into_owned();
        }
    }

    /// The degree of harm.
    pub fn risk(&self) -> Risk {
        self.stakes.risk
    }

    /// What approving takes beyond being among the approvers.
    pub fn authority(&self) -> Authority {
        self.stakes.authority
    }
}

/// A call's final risk with the authority that follows from it. Only a policy makes one, and nothing changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stakes {
    risk: Risk,
    /// Kept apart from the rest; see `store/record.rs`.
    #[serde(skip)]
    authority: Authority,
}

impl Stakes {
    /// INVARIANT: the only place where a risk becomes an authority for a call.
    fn of(risk: Risk, asks: Asks, surfaces: Surfaces) -> Stakes {
        Stakes {
            risk,
            authority: asks.authority(risk, surfaces),
        }
    }

    /// Takes what a store kept.
    pub(crate) fn stored(risk: Risk, authority: Authority) -> Stakes {
        Stakes { risk, authority }
    }
}

/// Terms in the making: what any rule still may raise.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) effect: Effect,
    pub(super) risk: Risk,
    pub(super) asks: Asks,
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
    /// One degree more risk, with the reason.
    pub(super) fn raise(mut self, note: String) -> Draft {
        self.risk = match self.risk {
            Risk::Low => Risk::Medium,
            Risk::Medium => Risk::High,
            Risk::High | Risk::Critical => Risk::Critical,
        };
        self.notes.push(note);
        self
    }

    /// At least this risk.
    pub(super) fn at_least(mut self, least: Option<Risk>) -> Draft {
        self.risk = least.map_or(self.risk, |least| least.max(self.risk));
        self
    }

    /// The terms, now that nothing raises the risk any more.
    pub(super) fn finish(self, surfaces: Surfaces) -> Terms {
        Terms {
            effect: self.effect,
            stakes: Stakes::of(self.risk, self.asks, surfaces),
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
