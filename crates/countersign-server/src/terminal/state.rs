//! State of the inbox: pending approvals, the selected one, and the person's draft decision.
//!
//! Input: current approvals, and the person's actions. Output: the items to show and the decision to send. This module
//! uses neither the terminal nor the backend.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use countersign::call::Arguments;
use countersign::card::WholeCard;
use countersign::decision::{Choice, Verdict};
use countersign::effect::{Effect, Risk};
use countersign::id::ApprovalId;
use countersign::state::State;
use countersign::time::Time;
use serde_json::value::RawValue;

use super::seen::Seen;
use crate::backend::Deciding;
use crate::output::list;
use crate::view::ApprovalView;

/// Delay before a card that appeared on its own can be approved, so that a person can see it first.
const LOOK_FIRST: Duration = Duration::from_millis(800);

/// State of the inbox.
pub struct Inbox {
    /// Listed approvals, highest risk first, then by expiry.
    pub listed: Vec<Listed>,
    /// Draft decision on the selected approval.
    pub draft: Draft,
    /// First visible row of the card.
    pub scroll: usize,
    /// Current meaning of the keys.
    pub mode: Mode,
    /// Message above the key hints, until the next key.
    pub message: Option<Message>,
    /// Reason why the server cannot be reached; `None` while it can be.
    pub lost: Option<String>,
    /// Rows of the card that have been on the screen.
    pub seen: Seen,
    selected: Option<ApprovalId>,
    came_at: Instant,
}

/// An approval and the time at which it was read.
pub struct Listed {
    pub approval: ApprovalView,
    /// True if the approval was loaded on its own, with more details than in a list.
    pub is_whole: bool,
    read_at: Instant,
}

/// Meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Browse and decide.
    Look,
    /// Show the help.
    Help,
    /// Type a comment.
    Comment,
    /// Confirm the approval of a risky call; holds the question.
    Confirm(String),
}

/// Message above the key hints.
pub struct Message {
    /// Text, already escaped.
    pub text: String,
    /// True for an error.
    pub is_bad: bool,
}

/// Draft of a decision on one approval.
#[derive(Default)]
pub struct Draft {
    /// Positions of the calls to deny. All positions count from 1.
    pub denied: Vec<u8>,
    /// Edited arguments by position.
    pub edits: BTreeMap<u8, Arguments>,
    /// Edited text that is not valid yet, by position.
    pub unfinished: BTreeMap<u8, Vec<u8>>,
    /// Comment on the decision.
    pub comment: String,
    /// Position of the call that keys apply to.
    pub focus: u8,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new(now: Instant) -> Inbox {
        Inbox {
            listed: Vec::new(),
            draft: Draft::new(),
            scroll: 0,
            mode: Mode::Look,
            message: None,
            lost: None,
            seen: Seen::default(),
            selected: None,
            came_at: now,
        }
    }

    /// Replaces the pending approvals. If the selected approval is no longer pending, `looked_at` is that approval in
    /// its new state. It stays in the list while it is selected.
    pub fn refresh(&mut self, pending: Vec<ApprovalView>, looked_at: Option<ApprovalView>, now: Instant) {
        let before = self.index();
        let listed = |approval| Listed {
            approval,
            is_whole: false,
            read_at: now,
        };
        self.listed = pending.into_iter().map(listed).collect();
        self.listed.sort_by_key(|listed| {
            let approval = &listed.approval;
            (
                std::cmp::Reverse(approval.risk_level),
                approval.expires_at,
                approval.id,
            )
        });
        let is_gone = self.selected.is_some() && self.index().is_none();
        if let (true, Some(before), Some(approval)) = (is_gone, before, looked_at) {
            let at = before.min(self.listed.len());
            self.listed.insert(at, listed(approval));
            if self.mode != Mode::Help {
                self.mode = Mode::Look;
            }
        }
        if self.index().is_none() {
            let next = before.unwrap_or(0).min(self.listed.len().saturating_sub(1));
            self.select(next, now);
        }
    }

    /// Replaces a listed approval with `approval`, which has the full details.
    pub fn complete(&mut self, approval: ApprovalView, now: Instant) {
        let found = self
            .listed
            .iter_mut()
            .find(|listed| listed.approval.id == approval.id);
        if let Some(found) = found {
            *found = Listed {
                approval,
                is_whole: true,
                read_at: now,
            };
        }
    }

    /// Returns the selected approval; `None` if the list is empty.
    pub fn current(&self) -> Option<&Listed> {
        self.listed.get(self.index()?)
    }

    /// Returns the index of the selected approval in the list; `None` if no approval is selected.
    pub fn index(&self) -> Option<usize> {
        let selected = self.selected?;
        self.listed
            .iter()
            .position(|listed| listed.approval.id == selected)
    }

    /// Moves the selection by `by` entries, up if negative. Stops at either end of the list.
    pub fn step(&mut self, by: isize, now: Instant) {
        let Some(at) = self.index() else { return };
        let last = self.listed.len().saturating_sub(1);
        let next = at.saturating_add_signed(by).min(last);
        if next == at {
            return;
        }
        let left = self.selected;
        let wanted = self.listed.get(next).map(|listed| listed.approval.id);
        // An approval that is no longer pending is only listed while it is selected.
        self.listed
            .retain(|listed| Some(listed.approval.id) != left || listed.approval.status == State::Pending);
        let next = self
            .listed
            .iter()
            .position(|listed| Some(listed.approval.id) == wanted);
        self.select(next.unwrap_or(0), now);
        // The person chose this card, so they need no extra time to look at it.
        self.came_at = now.checked_sub(LOOK_FIRST).unwrap_or(now);
    }

    /// Removes the selected approval and selects the next one.
    pub fn remove_selected(&mut self) {
        let left = self.selected;
        let at = self.index();
        self.listed.retain(|listed| Some(listed.approval.id) != left);
        self.select(
            at.unwrap_or(0).min(self.listed.len().saturating_sub(1)),
            Instant::now(),
        );
    }

    fn select(&mut self, at: usize, now: Instant) {
        self.selected = self.listed.get(at).map(|listed| listed.approval.id);
        self.draft = Draft::new();
        self.scroll = 0;
        self.seen = Seen::default();
        self.mode = Mode::Look;
        self.came_at = now;
    }

    /// Returns the selected approval with the person's edits applied, as it would run; `None` if none is selected.
    pub fn selected_as_edited(&self) -> Option<ApprovalView> {
        let mut approval = self.current()?.approval.clone();
        for (position, arguments) in &self.draft.edits {
            let call = usize::from(*position)
                .checked_sub(1)
                .and_then(|at| approval.calls.get_mut(at));
            let Some(call) = call else { continue };
            let text = String::from_utf8_lossy(arguments.as_bytes()).into_owned();
            call.arguments = RawValue::from_string(text).ok();
            call.arguments_hex = Some(crate::view::hex(arguments.as_bytes()));
            // The values come from the person, so the agent's provenance no longer applies.
            call.provenance = None;
            call.edited = true;
        }
        Some(approval)
    }

    /// Returns the question that the person has to confirm before approving; `None` if no confirmation is needed.
    pub fn question(&self) -> Option<String> {
        let approval = &self.current()?.approval;
        let is_grave = approval.risk_level >= Risk::High || list::effect(approval) == Effect::Destructive;
        let mut reasons = Vec::new();
        if is_grave {
            reasons.push(format!(
                "{}, {} risk",
                list::effect(approval),
                approval.risk_level
            ));
        }
        // Concerns are on the card; asking about them each time would teach people to press `y`.
        if approval.calls.iter().any(|call| !call.warnings.is_empty()) {
            reasons.push("it has warnings".to_owned());
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Returns true if the card appeared on its own less than `LOOK_FIRST` ago.
    pub fn is_new(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.came_at) < LOOK_FIRST
    }

    /// Returns the decision to approve, with the draft's denials and edits. `None` until every row of the card was on
    /// the screen.
    pub fn approving(&self) -> Option<Deciding> {
        if !self.seen.is_whole() {
            return None;
        }
        let approval = &self.current()?.approval;
        let draft = &self.draft;
        let choice = |position: u8| match draft.edits.get(&position) {
            _ if draft.denied.contains(&position) => Choice::Deny,
            Some(arguments) => Choice::Edit(arguments.clone()),
            None => Choice::Approve,
        };
        let verdict = match (draft.denied.is_empty(), draft.edits.is_empty()) {
            (true, true) => Verdict::Approve,
            _ if draft.denied.len() == approval.calls.len() => Verdict::Deny,
            _ => Verdict::Each(
                approval
                    .numbered()
                    .map(|(position, _)| choice(position))
                    .collect(),
            ),
        };
        Some(self.deciding(approval, verdict))
    }

    /// Returns a denial of the selected approval; `None` if none is selected.
    pub fn denying(&self) -> Option<Deciding> {
        let approval = &self.current()?.approval;
        Some(self.deciding(approval, Verdict::Deny))
    }

    fn deciding(&self, approval: &ApprovalView, verdict: Verdict) -> Deciding {
        let comment = self.draft.comment.trim();
        // INVARIANT: the decision is about the digest that was shown.
        let card = WholeCard::of(approval.id, approval.digest);
        let mut deciding = Deciding::on(card, verdict);
        deciding.comment = (!comment.is_empty()).then(|| comment.to_owned());
        deciding
    }

    /// Sets the message above the key hints.
    pub fn say(&mut self, text: impl Into<String>) {
        self.message = Some(Message {
            text: text.into(),
            is_bad: false,
        });
    }

    /// Sets an error message above the key hints.
    pub fn complain(&mut self, text: impl Into<String>) {
        self.message = Some(Message {
            text: text.into(),
            is_bad: true,
        });
    }
}

impl Draft {
    fn new() -> Draft {
        Draft {
            focus: 1,
            ..Draft::default()
        }
    }

    /// Marks a call as denied, or removes that mark.
    pub fn toggle(&mut self, position: u8) {
        match self.denied.iter().position(|denied| *denied == position) {
            Some(at) => _ = self.denied.remove(at),
            None => self.denied.push(position),
        }
    }
}

impl Listed {
    /// Estimates the store's current time: the time on the store's clock when the approval was read, plus the time
    /// since then.
    pub fn now(&self, now: Instant) -> Time {
        let since = now.saturating_duration_since(self.read_at);
        self.approval.now.0.plus(since)
    }

    /// Returns the time left to decide; `None` if the approval is no longer pending or has expired.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.approval.expires_at.0.since(self.now(now));
        (self.approval.status == State::Pending && !left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
