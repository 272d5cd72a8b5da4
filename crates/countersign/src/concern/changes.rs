//! Compares a card with the card that it replaces in its channel, value by value.
//!
//! Input: a pending approval and the one before it. Output: for each call, what was changed, left out or added, so that
//! a person who asked for a correction can see that it was made, and that nothing else changed.
//! INVARIANT: values that are secret in either card are not shown.

use std::collections::BTreeMap;

use super::Concern;
use crate::approval::Approval;
use crate::call::Call;
use crate::display::clip;
use crate::json::{self, Kind, Leaf};

/// Maximum number of changed values that are named for one call. The others are counted.
const MOST_VALUES: usize = 12;
/// Maximum number of omitted calls that are named. The others are counted.
const MOST_CALLS: usize = 12;
/// Maximum length of a shown pointer, value or summary, in characters.
const SHOWN_CHARS: usize = 100;

/// Returns the differences for each call of `approval`, in order. Calls that are no longer on the card are listed with the
/// first call.
pub(super) fn changes(
    approval: &Approval,
    before: &Approval,
    is_secret: &dyn Fn(&Call, &str) -> bool,
) -> Vec<Vec<Concern>> {
    let mut left: Vec<Option<&Call>> = before.calls.iter().map(Some).collect();
    let mut take = |fits: &dyn Fn(&Call) -> bool| {
        let found = left.iter_mut().find(|call| call.is_some_and(fits));
        found.and_then(Option::take)
    };
    let values = |call: &Call| json::canonical(call.arguments.as_bytes());
    let is_same: Vec<bool> = approval
        .calls
        .iter()
        .map(|call| {
            let wanted = values(call);
            take(&|old: &Call| old.tool == call.tool && values(old) == wanted).is_some()
        })
        .collect();
    let mut found: Vec<Vec<Concern>> = Vec::with_capacity(approval.calls.len());
    for (call, is_same) in approval.calls.iter().zip(is_same) {
        found.push(match is_same {
            true => Vec::new(),
            false => match take(&|old: &Call| old.tool == call.tool) {
                Some(old) => changed_values(old, call, is_secret),
                None => vec![Concern::Added],
            },
        });
    }
    let left: Vec<&Call> = left.into_iter().flatten().collect();
    if let Some(first) = found.first_mut() {
        let named = left.iter().take(MOST_CALLS);
        first.extend(named.map(|call| Concern::LeftOut {
            summary: clip(&call.terms.summary.replace('\n', " "), SHOWN_CHARS).to_string(),
        }));
        let count = left.len().saturating_sub(MOST_CALLS);
        first.extend((count > 0).then_some(Concern::MoreLeftOut { count }));
    }
    found
}

fn changed_values(old: &Call, call: &Call, is_secret: &dyn Fn(&Call, &str) -> bool) -> Vec<Concern> {
    let by_pointer = |leaves: Vec<Leaf<'_>>| -> BTreeMap<String, (Kind, String, String)> {
        let leaf = |leaf: Leaf<'_>| {
            let text = leaf.text().into_owned();
            (leaf.pointer, (leaf.kind, text, leaf.raw.to_owned()))
        };
        leaves.into_iter().map(leaf).collect()
    };
    let was = by_pointer(json::leaves(old.arguments.as_bytes()));
    let now = by_pointer(json::leaves(call.arguments.as_bytes()));
    let mut pointers: Vec<&String> = was.keys().chain(now.keys()).collect();
    pointers.sort_unstable();
    pointers.dedup();
    let mut found = Vec::new();
    let mut count = 0;
    for pointer in pointers {
        let (was, now) = (was.get(pointer), now.get(pointer));
        let is_equal = matches!((was, now), (Some(a), Some(b)) if a.0 == b.0 && a.1 == b.1);
        if is_equal {
            continue;
        }
        count += 1;
        if count > MOST_VALUES {
            continue;
        }
        // If a string and a number would look the same, show both as JSON.
        let looks_same = matches!((was, now), (Some(a), Some(b)) if a.1 == b.1);
        let is_hidden = is_secret(old, pointer) || is_secret(call, pointer);
        let shown = |leaf: Option<&(Kind, String, String)>| {
            let (_, text, raw) = leaf?;
            Some(match (is_hidden, looks_same) {
                (true, _) => "(hidden)".to_owned(),
                (false, true) => clip(raw, SHOWN_CHARS).to_string(),
                (false, false) => clip(text, SHOWN_CHARS).to_string(),
            })
        };
        found.push(Concern::Changed {
            pointer: clip(pointer, SHOWN_CHARS).to_string(),
            was: shown(was),
            now: shown(now),
        });
    }
    let count = count.saturating_sub(MOST_VALUES);
    found.extend((count > 0).then_some(Concern::MoreChanged { count }));
    found
}
