//! What an agent asked before, made ready once to be compared with many calls.
//!
//! Enters: earlier approvals of one agent. Leaves: for each call, what about it differs from them.
//! INVARIANT: a secret is neither kept here nor told.

use std::collections::HashMap;

use super::{Concern, FAR, LARGE_BATCH, LATELY, SOME};
use crate::approval::Approval;
use crate::call::{Because, Call};
use crate::display::clip;
use crate::hash::Hash;
use crate::id::{ApprovalId, ToolName};
use crate::json::{self, Kind, Leaf};
use crate::state::State;
use crate::time::Time;

/// The shortest and the longest text that is compared letter by letter.
const TEXT_CHARS: std::ops::RangeInclusive<usize> = 6..=200;
/// At most so many texts of a tool are remembered.
const MOST_TEXTS: usize = 500;
/// The longest text of an earlier call that is shown.
const SHOWN_CHARS: usize = 100;

/// The history of one agent.
pub struct History<'h> {
    tools: HashMap<&'h ToolName, Used>,
    /// How many calls each approval had.
    sizes: Vec<(ApprovalId, usize)>,
    looked_at: Option<usize>,
    is_secret: &'h dyn Fn(&Call, &str) -> bool,
}

/// How one tool was used.
struct Used {
    first: ApprovalId,
    /// Approved definitions, with their approvals.
    definitions: Vec<(ApprovalId, Hash)>,
    /// Approved texts by place, each with the first approval that had it.
    texts: HashMap<String, HashMap<String, ApprovalId>>,
    text_count: usize,
    /// Approved numbers by place.
    numbers: HashMap<String, Vec<(ApprovalId, f64)>>,
    /// Denied arguments, as values.
    denied: Vec<(ApprovalId, Time, Vec<u8>)>,
}

impl<'h> History<'h> {
    /// Makes the history of an agent ready. `looked_at` says that there is more of it than `before`; `is_secret` tells
    /// of a tool's value, by its place.
    pub fn of(
        before: &'h [impl AsRef<Approval>],
        looked_at: Option<usize>,
        is_secret: &'h dyn Fn(&Call, &str) -> bool,
    ) -> History<'h> {
        let mut history = History {
            tools: HashMap::new(),
            sizes: Vec::new(),
            looked_at,
            is_secret,
        };
        for approval in before.iter().map(AsRef::as_ref) {
            history.sizes.push((approval.id, approval.calls.len()));
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
        let is_denied = call.because == Some(Because::Denied);
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

    /// What deserves a look about `call`, a part of `approval`. What was asked after it does not count.
    pub fn concerns(&self, approval: &Approval, call: &Call) -> Vec<Concern> {
        let id = approval.id;
        let mut found = Vec::new();
        let used = self.tools.get(&call.tool).filter(|used| used.first < id);
        if let Some(used) = used {
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
        if used.is_none() {
            found.push(Concern::FirstUse {
                among: self.looked_at,
            });
        }
        found
    }
}

impl Used {
    fn since(first: ApprovalId) -> Used {
        Used {
            first,
            definitions: Vec::new(),
            texts: HashMap::new(),
            text_count: 0,
            numbers: HashMap::new(),
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

    fn was_denied(&self, approval: &Approval, call: &Call) -> bool {
        let is_late = |at: &Time| approval.created_at.since(*at) < LATELY;
        let mut late = self
            .denied
            .iter()
            .filter(|(earlier, at, _)| *earlier < approval.id && is_late(at));
        let values = json::canonical(call.arguments.as_bytes());
        late.any(|(_, _, denied)| *denied == values)
    }

    /// A text that is one edit away from an approved one at the same place, and is none of them.
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
        // The first in order, so that a card says the same each time.
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
        let is_far = earlier().count() >= SOME && largest > 0.0 && here.abs() > largest * FAR;
        is_far.then(|| Concern::FarLarger {
            pointer: clip(&leaf.pointer, SHOWN_CHARS).to_string(),
            largest: largest.to_string(),
        })
    }
}

/// Whether one letter was changed, added, left out, or two neighbours swapped. Digits that differ are other ids.
fn is_one_edit(known: &str, text: &str) -> bool {
    // Two characters of four bytes each, at most: cheap to tell for nearly all pairs.
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
