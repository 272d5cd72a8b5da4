//! Haste: who decides faster than anybody can read.
//!
//! A card cannot be shown before it is proposed, so the time from then to the decision is the most that anybody had to read
//! it. Where even that is too little for the text on it, it was not read, whatever was shown when.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::approval::Approval;
use serde::Serialize;

use super::count::{percent, time_to_decide};
use crate::inbox::card::shown;

/// Faster than anybody reads: three times what people usually do.
const CHARS_PER_SECOND: usize = 75;
/// More text than this is looked through, not read.
const MOST_CHARS: usize = 4_000;
/// A decision takes a moment whatever there is to read.
const LEAST: Duration = Duration::from_millis(500);
/// At most so many people, those with most such decisions.
const MOST_PEOPLE: usize = 12;

/// Decisions that left no time to read.
#[derive(Debug, Default, Serialize)]
pub struct Haste {
    pub unread: usize,
    pub unread_percent: usize,
    pub people: Vec<Person>,
}

/// How one person decides.
#[derive(Debug, Serialize)]
pub struct Person {
    pub name: String,
    pub decided: usize,
    pub unread: usize,
    pub percent: usize,
}

impl Haste {
    /// Counts. What was erased is left out: nobody knows any more how much there was to read.
    pub fn count(approvals: &[&Approval]) -> Haste {
        let mut people: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let decided = approvals.iter().filter(|approval| approval.erased_at.is_none());
        for approval in decided {
            let (Some(decision), Some(time)) = (&approval.decision, time_to_decide(approval)) else {
                continue;
            };
            let counts = people.entry(decision.by.as_str()).or_default();
            counts.0 += 1;
            counts.1 += usize::from(time < reading_time(approval));
        }
        let all: usize = people.values().map(|(decided, _)| decided).sum();
        let unread: usize = people.values().map(|(_, unread)| unread).sum();
        let mut people: Vec<Person> = people
            .into_iter()
            .map(|(name, (decided, unread))| Person {
                name: shown(name),
                decided,
                unread,
                percent: percent(unread, decided),
            })
            .collect();
        people.sort_by(|one, other| (other.unread, &one.name).cmp(&(one.unread, &other.name)));
        people.truncate(MOST_PEOPLE);
        Haste {
            unread,
            unread_percent: percent(unread, all),
            people,
        }
    }
}

/// The least time in which what stood on a card can be read.
pub fn reading_time(approval: &Approval) -> Duration {
    let call = |call: &countersign::call::Call| {
        let arguments = call.original.as_ref().unwrap_or(&call.arguments);
        call.terms.summary.chars().count() + String::from_utf8_lossy(arguments.as_bytes()).chars().count()
    };
    let chars: usize = approval.calls.iter().map(call).sum();
    let millis = chars.min(MOST_CHARS) * 1000 / CHARS_PER_SECOND;
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(LEAST)
}
