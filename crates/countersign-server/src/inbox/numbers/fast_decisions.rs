//! Detects decisions made faster than the card could be read.
//!
//! A card cannot be shown before it is proposed, so the time from proposal to decision is an upper bound on the reading
//! time. If that is too short for the text on the card, the card was not read.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::approval::Approval;
use serde::Serialize;

use super::count::{percent, time_to_decide};
use crate::inbox::card::shown;

/// Assumed maximum reading speed: three times the usual.
const CHARS_PER_SECOND: usize = 75;
/// Text beyond this length is assumed to be skimmed and is not counted.
const MOST_CHARS: usize = 4_000;
/// Minimum time for a decision, however short the text.
const LEAST: Duration = Duration::from_millis(500);
/// Maximum number of people listed: those with the most such decisions.
const MOST_PEOPLE: usize = 12;

/// Statistics of decisions made faster than the card could be read.
#[derive(Debug, Default, Serialize)]
pub struct FastDecisions {
    pub unread: usize,
    pub unread_percent: usize,
    pub people: Vec<Person>,
}

/// Number of decisions of one person, and how many of them left no time to read the card.
#[derive(Debug, Serialize)]
pub struct Person {
    pub name: String,
    pub decided: usize,
    pub unread: usize,
    pub percent: usize,
}

impl FastDecisions {
    /// Counts decisions. Erased approvals are skipped, since the length of their text is no longer known.
    pub fn count(approvals: &[&Approval]) -> FastDecisions {
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
        FastDecisions {
            unread,
            unread_percent: percent(unread, all),
            people,
        }
    }
}

/// Returns the minimum time needed to read a card.
pub fn reading_time(approval: &Approval) -> Duration {
    let call = |call: &countersign::call::Call| {
        let arguments = call.original.as_ref().unwrap_or(&call.arguments);
        call.terms.summary.chars().count() + String::from_utf8_lossy(arguments.as_bytes()).chars().count()
    };
    let chars: usize = approval.calls.iter().map(call).sum();
    let millis = chars.min(MOST_CHARS) * 1000 / CHARS_PER_SECOND;
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(LEAST)
}
