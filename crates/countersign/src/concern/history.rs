//! An agent's earlier approvals, indexed once for comparison with many calls.
//!
//! Input: earlier approvals of one agent. Output: for each call, the concerns about how it differs from those
//! approvals.
//! INVARIANT: secrets are neither stored here nor shown.

use std::collections::HashMap;

use super::changes::changes;
use super::{Concern, DENIAL_WINDOW, LARGE_BATCH, LARGER_FACTOR, MIN_SAMPLES, REPLACED_WITHIN};
use crate::approval::Approval;
use crate::call::{Call, RefusalReason};
use crate::display::clip;
use crate::hash::Hash;
use crate::id::{ApprovalId, Channel, ToolName};
use crate::json::{self, Kind, Leaf};
use crate::provenance::Coverage;
use crate::state::{CallState, State};
use crate::time::Time;

/// Minimum and maximum length, in characters, of a text that is compared letter by letter.
const TEXT_CHARS: std::ops::RangeInclusive<usize> = 6..=200;
/// Maximum number of texts that are remembered per tool.
const MOST_TEXTS: usize = 500;
/// Maximum length of a shown pointer or earlier text, in characters.
const SHOWN_CHARS: usize = 100;

/// Earlier approvals of one agent, indexed by tool.
pub struct History<'h> {
    tools: HashMap<&'h ToolName, Used>,
    /// Number of calls in each approval.
    sizes: Vec<(ApprovalId, usize)>,
    /// All approvals, by channel.
    in_channels: HashMap<&'h Channel, Vec<&'h Approval>>,
    /// The first approval that came with the person's conversation; `None` if none did.
    first_told: Option<ApprovalId>,
    looked_at: Option<usize>,
    is_secret: &'h dyn Fn(&Call, &str) -> bool,
}

/// Earlier uses of one tool.
struct Used {
    first: ApprovalId,
    /// The first approval in which the agent itself asked for the tool; `None` if only undos used it.
    first_asked: Option<ApprovalId>,
    /// Definition hashes of approved calls, each with the id of its approval.
    definitions: Vec<(ApprovalId, Hash)>,
    /// Approved texts by JSON pointer, each with the id of the first approval that contained it.
    texts: HashMap<String, HashMap<String, ApprovalId>>,
    text_count: usize,
    /// Approved numbers by JSON pointer, as absolute values.
    numbers: HashMap<String, Vec<(ApprovalId, f64)>>,
    /// Start times and canonical arguments of calls that were started and whose outcome is not known.
    open_ended: Vec<(ApprovalId, Time, Vec<u8>)>,
    /// Decision times and canonical arguments of denied calls.
    denied: Vec<(ApprovalId, Time, Vec<u8>)>,
}

impl<'h> History<'h> {
    /// Indexes an agent's earlier approvals. `looked_at` is the number of these if the agent has further ones,
    /// otherwise `None`. `is_secret` returns true if the value at a JSON pointer of a call is secret.
    pub fn of(
        before: &'h [impl AsRef<Approval>],
        looked_at: Option<usize>,
        is_secret: &'h dyn Fn(&Call, &str) -> bool,
    ) -> History<'h> {
        let mut history = History {
            tools: HashMap::new(),
            sizes: Vec::new(),
            in_channels: HashMap::new(),
            first_told: None,
            looked_at,
            is_secret,
        };
        for approval in before.iter().map(AsRef::as_ref) {
            history.sizes.push((approval.id, approval.calls.len()));
            if let Some(channel) = &approval.channel {
                history.in_channels.entry(channel).or_default().push(approval);
            }
            for call in &approval.calls {
                history.add(approval, call);
            }
        }
        history
    }

    fn add(&mut self, approval: &'h Approval, call: &'h Call) {
        let id = approval.id;
        let used = self.tools.entry(&call.tool).or_insert_with(|| Used::since(id));
        used.first = used.first.min(id);
        if approval.undoes.is_none() {
            used.first_asked = Some(used.first_asked.map_or(id, |first| first.min(id)));
        }
        if has_conversation(approval, call) {
            self.first_told = Some(self.first_told.map_or(id, |first| first.min(id)));
        }
        if let (CallState::Running | CallState::Unknown, Some(execution)) = (call.state, &call.execution) {
            // Both the arguments that ran and, if a person edited them, those that the agent proposed.
            for arguments in [Some(&call.arguments), call.original.as_ref()]
                .into_iter()
                .flatten()
            {
                let values = json::canonical(arguments.as_bytes());
                used.open_ended.push((id, execution.started_at, values));
            }
        }
        let is_denied = call.because == Some(RefusalReason::Denied);
        match (&approval.decision, approval.state) {
            (Some(decided), _) if is_denied => {
                let values = json::canonical(call.arguments.as_bytes());
                used.denied.push((id, decided.at, values));
            }
            (_, State::Approved) => {
                used.definitions
                    .extend(call.definition.hash().map(|definition| (id, definition)));
                for leaf in json::leaves(call.arguments.as_bytes()) {
                    if !(self.is_secret)(call, &leaf.pointer) {
                        used.keep(id, leaf);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the concerns about each call of `approval`, in order, and how the calls differ from the card that they
    /// replace.
    pub fn concerns_of(&self, approval: &Approval) -> Vec<Vec<Concern>> {
        let calls = approval.calls.iter();
        let found = calls.map(|call| self.concerns(approval, call));
        let Some(before) = self.replaced_by(approval) else {
            return found.collect();
        };
        let changes = changes(approval, before, self.is_secret);
        let pairs = changes.into_iter().zip(found);
        pairs.map(|(changes, found)| [changes, found].concat()).collect()
    }

    /// Returns the approval that `approval` replaced: the one that it superseded, or the last one in its channel if that
    /// was withdrawn shortly before and has a value in common with it.
    fn replaced_by(&self, approval: &Approval) -> Option<&'h Approval> {
        let earlier = self.in_channels.get(approval.channel.as_ref()?)?;
        let last = earlier.iter().filter(|earlier| earlier.id < approval.id);
        let last = last.max_by_key(|earlier| earlier.id)?;
        let is_replaced = match last.state {
            State::Superseded => last.superseded_by == Some(approval.id),
            State::Withdrawn => {
                approval.created_at.since(last.created_at) < REPLACED_WITHIN
                    && have_value_in_common(approval, last)
            }
            _ => false,
        };
        is_replaced.then_some(*last)
    }

    /// Returns the concerns about `call`, which is part of `approval`. Only approvals older than `approval` count.
    pub fn concerns(&self, approval: &Approval, call: &Call) -> Vec<Concern> {
        let id = approval.id;
        let mut found = Vec::new();
        let used = self.tools.get(&call.tool).filter(|used| used.first < id);
        if let Some(used) = used {
            found.extend(
                used.started_before(id, call)
                    .map(|at| Concern::StartedBefore { at }),
            );
            if used.was_denied(approval, call) {
                found.push(Concern::DeniedLately);
            }
            let leaves = json::leaves(call.arguments.as_bytes());
            let is_plain = |leaf: &&Leaf<'_>| !(self.is_secret)(call, &leaf.pointer);
            let leaves: Vec<&Leaf<'_>> = leaves.iter().filter(is_plain).collect();
            found.extend(leaves.iter().filter_map(|leaf| used.look_alike(id, leaf)));
            let earlier = used.definitions.iter().filter(|(earlier, _)| *earlier < id);
            let last = earlier.max_by_key(|(earlier, _)| *earlier);
            let is_other = |(_, last): &(_, Hash)| call.definition.hash().is_some_and(|now| now != *last);
            if last.is_some_and(is_other) {
                found.push(Concern::DefinitionChanged);
            }
            found.extend(leaves.iter().filter_map(|leaf| used.far_larger(id, leaf)));
        }
        let sizes = self.sizes.iter().filter(|(earlier, _)| *earlier < id);
        let most = sizes.map(|(_, calls)| *calls).max();
        let calls = approval.calls.len();
        if let Some(most) = most.filter(|most| calls > LARGE_BATCH && calls > most * 2) {
            found.push(Concern::LargeBatch { calls, most });
        }
        if self.lacks_conversation(approval, call) {
            found.push(Concern::NoConversation);
        }
        let was_asked = used.is_some_and(|used| used.first_asked.is_some_and(|first| first < id));
        // For an agent without a history every tool is new, so that this concern would say nothing about the call.
        let has_history = self.looked_at.is_some() || self.sizes.iter().any(|(earlier, _)| *earlier < id);
        if !was_asked && has_history && approval.undoes.is_none() {
            found.push(Concern::FirstUse {
                among: self.looked_at,
            });
        }
        found
    }

    /// Returns true if the call came without a conversation although earlier calls of the agent came with one.
    fn lacks_conversation(&self, approval: &Approval, call: &Call) -> bool {
        let was_told = self.first_told.is_some_and(|first| first < approval.id);
        // The values of an edited call come from the person who edits it, those of an undo from the call it undoes.
        let needs_none = call.original.is_some() || approval.undoes.is_some();
        was_told && call.provenance.is_none() && !needs_none
    }
}

/// Returns true if the call came with a conversation that contains the person's messages. Tool results alone do not
/// count: a gateway may have seen some in one session and none in the next.
fn has_conversation(approval: &Approval, call: &Call) -> bool {
    let heard = call.provenance.as_ref().map(|provenance| provenance.heard);
    approval.undoes.is_none() && heard.is_some_and(|heard| heard != Coverage::Tools)
}

impl Used {
    fn since(first: ApprovalId) -> Used {
        Used {
            first,
            first_asked: None,
            definitions: Vec::new(),
            texts: HashMap::new(),
            text_count: 0,
            numbers: HashMap::new(),
            open_ended: Vec::new(),
            denied: Vec::new(),
        }
    }

    fn keep(&mut self, id: ApprovalId, leaf: Leaf<'_>) {
        match leaf.kind {
            Kind::String if self.text_count < MOST_TEXTS => {
                let text = leaf.text().into_owned();
                let texts = self.texts.entry(leaf.pointer).or_default();
                let first = texts.entry(text).or_insert_with(|| {
                    self.text_count += 1;
                    id
                });
                *first = id.min(*first);
            }
            Kind::Number => {
                let number = leaf.raw.parse::<f64>().ok();
                let numbers = self.numbers.entry(leaf.pointer).or_default();
                numbers.extend(number.map(|number| (id, number.abs())));
            }
            _ => {}
        }
    }

    /// Returns the last time at which the same call was started without a known outcome; `None` if there is none. The
    /// age of that start does not matter, because the call may have run.
    fn started_before(&self, id: ApprovalId, call: &Call) -> Option<Time> {
        let mut earlier = self
            .open_ended
            .iter()
            .filter(|(earlier, ..)| *earlier < id)
            .peekable();
        earlier.peek()?;
        let values = json::canonical(call.arguments.as_bytes());
        let same = earlier.filter(|(_, _, started)| *started == values);
        same.map(|(_, at, _)| *at).max()
    }

    fn was_denied(&self, approval: &Approval, call: &Call) -> bool {
        let is_late = |at: &Time| approval.created_at.since(*at) < DENIAL_WINDOW;
        let mut late = self
            .denied
            .iter()
            .filter(|(earlier, at, _)| *earlier < approval.id && is_late(at));
        let values = json::canonical(call.arguments.as_bytes());
        late.any(|(_, _, denied)| *denied == values)
    }

    /// Returns a concern if an approved text at the same pointer is one edit away; `None` if there is none, or if the
    /// text itself was approved before.
    fn look_alike(&self, id: ApprovalId, leaf: &Leaf<'_>) -> Option<Concern> {
        let known = self
            .texts
            .get(&leaf.pointer)
            .filter(|_| leaf.kind == Kind::String)?;
        let text = leaf.text();
        let is_known = known.get(&*text).is_some_and(|first| *first < id);
        if is_known || !TEXT_CHARS.contains(&text.chars().count()) {
            return None;
        }
        let alike = known
            .iter()
            .filter(|(value, first)| **first < id && is_one_edit(value, &text));
        // Choose the first in alphabetical order, so that a card always shows the same text.
        let (like, _) = alike.min()?;
        Some(Concern::LooksLike {
            pointer: clip(&leaf.pointer, SHOWN_CHARS).to_string(),
            known: clip(like, SHOWN_CHARS).to_string(),
        })
    }

    fn far_larger(&self, id: ApprovalId, leaf: &Leaf<'_>) -> Option<Concern> {
        let here = leaf
            .raw
            .parse::<f64>()
            .ok()
            .filter(|_| leaf.kind == Kind::Number)?;
        let numbers = self.numbers.get(&leaf.pointer)?;
        let earlier = || numbers.iter().filter(|(earlier, _)| *earlier < id);
        let largest = earlier().map(|(_, number)| *number).fold(0.0, f64::max);
        let is_far =
            earlier().count() >= MIN_SAMPLES && largest > 0.0 && here.abs() > largest * LARGER_FACTOR;
        is_far.then(|| Concern::FarLarger {
            pointer: clip(&leaf.pointer, SHOWN_CHARS).to_string(),
            largest: largest.to_string(),
        })
    }
}

/// Returns true if two calls of the same tool have the same value in the same place.
fn have_value_in_common(approval: &Approval, before: &Approval) -> bool {
    approval.calls.iter().any(|call| {
        let leaves = json::leaves(call.arguments.as_bytes());
        let same_tool = before.calls.iter().filter(|old| old.tool == call.tool);
        same_tool.into_iter().any(|old| {
            let old = json::leaves(old.arguments.as_bytes());
            let is_equal = |a: &Leaf<'_>, b: &Leaf<'_>| a.pointer == b.pointer && a.raw == b.raw;
            leaves
                .iter()
                .any(|leaf| old.iter().any(|old| is_equal(leaf, old)))
        })
    })
}

/// Returns true if the texts differ by one letter that is changed, added or left out, or by two neighbouring letters
/// that are swapped. A difference in digits alone does not count, because it usually means another id.
fn is_one_edit(known: &str, text: &str) -> bool {
    // Rules out most pairs cheaply: one edit changes the length by less than this.
    if known.len().abs_diff(text.len()) > 8 {
        return false;
    }
    let head = known.chars().zip(text.chars()).take_while(|(a, b)| a == b);
    let head: usize = head.map(|(a, _)| a.len_utf8()).sum();
    let (known, text) = (known.get(head..), text.get(head..));
    let (known, text) = (known.unwrap_or_default(), text.unwrap_or_default());
    let tail = known
        .chars()
        .rev()
        .zip(text.chars().rev())
        .take_while(|(a, b)| a == b);
    let tail: usize = tail.map(|(a, _)| a.len_utf8()).sum();
    let changed = |rest: &str| -> Vec<char> {
        let inner = rest.get(..rest.len().saturating_sub(tail)).unwrap_or_default();
        inner.chars().take(3).collect()
    };
    let (was, is) = (changed(known), changed(text));
    let are_letters = was.iter().chain(&is).all(|c| !c.is_ascii_digit())
        || was.len() + is.len() == 2 && was.iter().chain(&is).any(|c| c.is_alphabetic());
    let is_swapped = was.len() == 2 && is.len() == 2 && was.iter().eq(is.iter().rev());
    are_letters && (was.len().max(is.len()) == 1 || is_swapped)
}
