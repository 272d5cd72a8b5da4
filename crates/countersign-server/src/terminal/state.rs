//! What the inbox on the terminal knows: what is pending, what is looked at, and what the person has begun.
//!
//! Enters: approvals as they are now, and the person's wishes. Leaves: what to show and what to decide.
//! Deliberately absent: the terminal, the desk, and time that is not handed in.

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
use crate::desk::Deciding;
use crate::output::list;
use crate::view::ApprovalView;

/// A card that came by itself cannot be approved before somebody can have seen it.
const LOOK_FIRST: Duration = Duration::from_millis(800);

/// The inbox.
pub struct Inbox {
    /// What is listed, the gravest and most urgent first.
    pub listed: Vec<Listed>,
    /// What the person has begun with the approval they look at.
    pub draft: Draft,
    /// How far down the card they are.
    pub scroll: usize,
    /// What the keys do now.
    pub mode: Mode,
    /// What was said last.
    pub message: Option<Message>,
    /// Why the server cannot be asked, while it cannot.
    pub lost: Option<String>,
    /// Which rows of the card have been on the screen.
    pub seen: Seen,
    selected: Option<ApprovalId>,
    came_at: Instant,
}

/// An approval and when it was read.
pub struct Listed {
    /// The approval.
    pub approval: ApprovalView,
    /// It was asked for by itself, which says more than a list does.
    pub is_whole: bool,
    read_at: Instant,
}

/// What the keys do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Look and decide.
    Look,
    /// Read about the keys.
    Help,
    /// Write a comment.
    Comment,
    /// Asked once more before something grave is approved.
    Confirm(String),
}

/// What is said in the last line.
pub struct Message {
    /// The words; safe to show.
    pub text: String,
    /// Something did not work.
    pub is_bad: bool,
}

/// What the person has begun with one approval.
#[derive(Default)]
pub struct Draft {
    /// Calls they do not want to run.
    pub denied: Vec<u8>,
    /// Calls they want to run with other arguments.
    pub edits: BTreeMap<u8, Arguments>,
    /// What they wrote that cannot be arguments yet.
    pub unfinished: BTreeMap<u8, Vec<u8>>,
    /// Their words.
    pub comment: String,
    /// The call the keys are about.
    pub focus: u8,
}

impl Inbox {
    /// An empty inbox.
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

    /// Takes what is pending now. The one that is looked at stays, with `looked_at` as it has become.
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

    /// Takes all there is to know about the one that is looked at.
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

    /// The approval that is looked at.
    pub fn current(&self) -> Option<&Listed> {
        self.listed.get(self.index()?)
    }

    /// Its place in the list.
    pub fn index(&self) -> Option<usize> {
        let selected = self.selected?;
        self.listed
            .iter()
            .position(|listed| listed.approval.id == selected)
    }

    /// Looks at another one, by how far it is away.
    pub fn step(&mut self, by: isize, now: Instant) {
        let Some(at) = self.index() else { return };
        let last = self.listed.len().saturating_sub(1);
        let next = at.saturating_add_signed(by).min(last);
        if next == at {
            return;
        }
        let left = self.selected;
        let wanted = self.listed.get(next).map(|listed| listed.approval.id);
        // One that is over stays only as long as it is looked at.
        self.listed
            .retain(|listed| Some(listed.approval.id) != left || listed.approval.status == State::Pending);
        let next = self
            .listed
            .iter()
            .position(|listed| Some(listed.approval.id) == wanted);
        self.select(next.unwrap_or(0), now);
        // The person went there: they look.
        self.came_at = now.checked_sub(LOOK_FIRST).unwrap_or(now);
    }

    /// The person is done with the one they looked at; the next takes its place.
    pub fn leave_behind(&mut self) {
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

    /// The card as it would run: with the person's own changes in it.
    pub fn shown(&self) -> Option<ApprovalView> {
        let mut approval = self.current()?.approval.clone();
        for (position, arguments) in &self.draft.edits {
            let call = usize::from(*position)
                .checked_sub(1)
                .and_then(|at| approval.calls.get_mut(at));
            let Some(call) = call else { continue };
            let text = String::from_utf8_lossy(arguments.as_bytes()).into_owned();
            call.arguments = RawValue::from_string(text).ok();
            call.arguments_hex = Some(crate::view::hex(arguments.as_bytes()));
            // Where they came from is known: from this person.
            call.provenance = None;
            call.edited = true;
        }
        Some(approval)
    }

    /// Whether the approval may be approved without being asked again; else what to ask.
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
        // What deserves a second look stands on the card; asking about it each time would teach to press `y`.
        if approval.calls.iter().any(|call| !call.warnings.is_empty()) {
            reasons.push("it has warnings".to_owned());
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Whether the card came only just now, by itself.
    pub fn is_new(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.came_at) < LOOK_FIRST
    }

    /// The decision as it stands, about what is shown. There is none while a row of the card was never on the screen.
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

    /// A no to what is shown.
    pub fn denying(&self) -> Option<Deciding> {
        let approval = &self.current()?.approval;
        Some(self.deciding(approval, Verdict::Deny))
    }

    fn deciding(&self, approval: &ApprovalView, verdict: Verdict) -> Deciding {
        let comment = self.draft.comment.trim();
        // INVARIANT: what was shown is what is decided.
        let card = WholeCard::of(approval.id, approval.digest);
        let mut deciding = Deciding::on(card, verdict);
        deciding.comment = (!comment.is_empty()).then(|| comment.to_owned());
        deciding
    }

    /// Says something in the last line.
    pub fn say(&mut self, text: impl Into<String>) {
        self.message = Some(Message {
            text: text.into(),
            is_bad: false,
        });
    }

    /// Says that something did not work.
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

    /// Wants a call, or does not.
    pub fn toggle(&mut self, position: u8) {
        match self.denied.iter().position(|denied| *denied == position) {
            Some(at) => _ = self.denied.remove(at),
            None => self.denied.push(position),
        }
    }
}

impl Listed {
    /// The store's clock, carried on since it was read.
    pub fn now(&self, now: Instant) -> Time {
        let since = now.saturating_duration_since(self.read_at);
        self.approval.now.0.plus(since)
    }

    /// The time left; nothing when it is over.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.approval.expires_at.0.since(self.now(now));
        (self.approval.status == State::Pending && !left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
