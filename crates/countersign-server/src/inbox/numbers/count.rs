//! Statistics over approvals.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::approval::Approval;
use countersign::display::one_line;
use countersign::state::{CallState, State};
use countersign::time::Time;
use serde::Serialize;

use super::fast_decisions::FastDecisions;
use crate::inbox::card::{Moment, shown};
use crate::{duration, view};

/// Decisions faster than this count as hasty: the person can hardly have read the card.
const HASTY: Duration = Duration::from_secs(2);
/// Maximum number of time spans in a plot.
const MOST_SPANS: i64 = 30;
/// Maximum number of tools listed: those with the most decisions.
const MOST_TOOLS: usize = 12;
/// Maximum number of calls with an unknown outcome that are listed.
const MOST_UNKNOWN: usize = 20;

/// Statistics about decisions.
#[derive(Debug, Default, Serialize)]
pub struct Numbers {
    pub pending: usize,
    pub approved: usize,
    pub denied: usize,
    pub expired: usize,
    /// Superseded or withdrawn approvals.
    pub other: usize,
    /// Calls that the policy let pass, except reads.
    pub passed: usize,
    /// Median time from proposal to decision, in words; `None` without decisions.
    pub median: Option<String>,
    /// Decisions made within two seconds of the proposal.
    pub hasty: usize,
    pub decided: usize,
    pub hasty_percent: usize,
    /// Decisions made faster than the card could be read.
    pub haste: FastDecisions,
    #[serde(skip)]
    pub spans: Vec<Span>,
    /// Length of one span, in words.
    pub span: String,
    #[serde(skip)]
    pub tools: Vec<Tool>,
    pub unknown: Vec<Unknown>,
    pub unknown_total: usize,
}

/// Counts of one time span.
#[derive(Debug, Default, PartialEq)]
pub struct Span {
    pub begins: String,
    pub approved: usize,
    pub denied: usize,
    pub expired: usize,
    pub median: Option<Duration>,
}

/// How often the calls of one tool are approved.
#[derive(Debug, Default, PartialEq)]
pub struct Tool {
    pub name: String,
    pub approved: usize,
    pub decided: usize,
}

/// Call with an unknown outcome.
#[derive(Debug, Serialize)]
pub struct Unknown {
    id: String,
    position: u8,
    summary: String,
    agent: String,
    at: Moment,
}

impl Numbers {
    pub fn count(approvals: &[impl AsRef<Approval>], now: Time) -> Numbers {
        let approvals: Vec<&Approval> = approvals.iter().map(AsRef::as_ref).collect();
        let mut numbers = Numbers::default();
        let mut times = Vec::new();
        for approval in &approvals {
            match view::state(approval, now) {
                State::Pending => numbers.pending += 1,
                State::Approved => numbers.approved += 1,
                State::Denied => numbers.denied += 1,
                State::Expired => numbers.expired += 1,
                State::Superseded | State::Withdrawn => numbers.other += 1,
                State::Passed => numbers.passed += 1,
            }
            times.extend(time_to_decide(approval));
            numbers.add_unknown(approval, now);
        }
        numbers.decided = times.len();
        numbers.hasty = times.iter().filter(|time| **time < HASTY).count();
        numbers.hasty_percent = percent(numbers.hasty, numbers.decided);
        numbers.median = median(&mut times).map(show_time);
        numbers.haste = FastDecisions::count(&approvals);
        (numbers.spans, numbers.span) = spans(&approvals);
        numbers.tools = tools(&approvals);
        numbers
    }

    fn add_unknown(&mut self, approval: &Approval, now: Time) {
        for (position, call) in approval.numbered() {
            if call.state != CallState::Unknown {
                continue;
            }
            self.unknown_total += 1;
            if self.unknown.len() < MOST_UNKNOWN {
                self.unknown.push(Unknown {
                    id: approval.id.to_string(),
                    position,
                    summary: one_line(&call.terms.summary).into_owned(),
                    agent: shown(approval.agent.as_str()),
                    at: Moment::new(approval.changed_at, now),
                });
            }
        }
    }
}

/// Formats a duration. Below 10 s, tenths of a second are shown.
pub fn show_time(time: Duration) -> String {
    match time < Duration::from_secs(10) {
        true => format!("{:.1}s", time.as_secs_f64()),
        false => duration::show(time),
    }
}

pub fn percent(part: usize, whole: usize) -> usize {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0)
}

/// Returns the time from proposal to decision, an upper bound on the time that anybody had to read the card. `None` if
/// no decision was made.
pub fn time_to_decide(approval: &Approval) -> Option<Duration> {
    let decided = approval.decision.as_ref()?;
    Some(decided.at.since(approval.created_at))
}

fn median(times: &mut [Duration]) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// Returns when the approval was decided or expired; `None` if it ended otherwise or is pending.
fn settled_at(approval: &Approval) -> Option<Time> {
    let decided = approval.decision.as_ref().map(|decided| decided.at);
    decided.or(approval.ended_at.filter(|_| approval.state == State::Expired))
}

/// Divides the time from the first to the last approval into spans of equal length, choosing the shortest length that
/// gives at most `MOST_SPANS`. Also returns that length in words.
fn spans(approvals: &[&Approval]) -> (Vec<Span>, String) {
    const SECOND: i64 = 1_000_000;
    const LENGTHS: [(i64, &str); 7] = [
        (60 * SECOND, "minute"),
        (600 * SECOND, "10 minutes"),
        (3_600 * SECOND, "hour"),
        (6 * 3_600 * SECOND, "6 hours"),
        (86_400 * SECOND, "day"),
        (7 * 86_400 * SECOND, "week"),
        (28 * 86_400 * SECOND, "4 weeks"),
    ];
    let moments = || approvals.iter().filter_map(|approval| settled_at(approval));
    let (Some(first), Some(last)) = (moments().min(), moments().max()) else {
        return (Vec::new(), "day".to_owned());
    };
    let (first, last) = (first.as_micros(), last.as_micros());
    let fits = |length: &&(i64, &str)| last / length.0 - first / length.0 < MOST_SPANS;
    let (length, word) = LENGTHS
        .iter()
        .find(fits)
        .copied()
        .unwrap_or((28 * 86_400 * SECOND, "4 weeks"));
    // If even the longest spans are too many (more than two years), only the latest are drawn.
    let begin = (first / length).max(last / length - MOST_SPANS + 1);
    let mut spans = Vec::new();
    for number in begin..=last / length {
        let mut span = Span {
            begins: Time::from_micros(number * length).to_string(),
            ..Span::default()
        };
        let inside = approvals
            .iter()
            .filter(|approval| settled_at(approval).is_some_and(|at| at.as_micros() / length == number));
        let mut times = Vec::new();
        for approval in inside {
            match approval.state {
                State::Approved => span.approved += 1,
                State::Denied => span.denied += 1,
                _ => span.expired += 1,
            }
            times.extend(time_to_decide(approval));
        }
        span.median = median(&mut times);
        spans.push(span);
    }
    (spans, word.to_owned())
}

/// Counts decisions per tool. A call that was approved and then failed counts as approved.
fn tools(approvals: &[&Approval]) -> Vec<Tool> {
    let mut tools: BTreeMap<&str, Tool> = BTreeMap::new();
    for approval in approvals.iter().filter(|approval| approval.decision.is_some()) {
        for call in &approval.calls {
            let is_denied = call.because == Some(countersign::call::RefusalReason::Denied);
            let tool = tools.entry(call.tool.as_str()).or_default();
            tool.decided += 1;
            tool.approved += usize::from(!is_denied);
        }
    }
    let mut tools: Vec<Tool> = tools
        .into_iter()
        .map(|(name, tool)| Tool {
            name: name.to_owned(),
            ..tool
        })
        .collect();
    tools.sort_by(|one, other| {
        other
            .decided
            .cmp(&one.decided)
            .then_with(|| one.name.cmp(&other.name))
    });
    tools.truncate(MOST_TOOLS);
    tools
}
