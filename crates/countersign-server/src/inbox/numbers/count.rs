//! Counting: from approvals to numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use countersign::approval::Approval;
use countersign::state::{CallState, State};
use countersign::time::Time;
use serde::Serialize;

use super::haste::Haste;
use crate::inbox::card::{Moment, shown};
use crate::{duration, view};

/// Whoever decides in less has hardly read it.
const HASTY: Duration = Duration::from_secs(2);
/// At most so many spans stand beside each other.
const MOST_SPANS: i64 = 30;
/// At most so many tools, those with most decisions.
const MOST_TOOLS: usize = 12;
/// At most so many unknown calls are named.
const MOST_UNKNOWN: usize = 20;

/// How people decide.
#[derive(Debug, Default, Serialize)]
pub struct Numbers {
    pub pending: usize,
    pub approved: usize,
    pub denied: usize,
    pub expired: usize,
    /// Superseded and withdrawn.
    pub other: usize,
    /// Calls that the policy let pass and that were more than reads.
    pub passed: usize,
    /// Half of all decisions took less.
    pub median: Option<String>,
    /// Decisions made in under two seconds.
    pub hasty: usize,
    pub decided: usize,
    pub hasty_percent: usize,
    /// Those that left no time to read.
    pub haste: Haste,
    #[serde(skip)]
    pub spans: Vec<Span>,
    /// How long one span is.
    pub span: String,
    #[serde(skip)]
    pub tools: Vec<Tool>,
    pub unknown: Vec<Unknown>,
    pub unknown_total: usize,
}

/// What happened in one span of time.
#[derive(Debug, Default, PartialEq)]
pub struct Span {
    pub begins: String,
    pub approved: usize,
    pub denied: usize,
    pub expired: usize,
    pub median: Option<Duration>,
}

/// How often calls of one tool are approved.
#[derive(Debug, Default, PartialEq)]
pub struct Tool {
    pub name: String,
    pub approved: usize,
    pub decided: usize,
}

/// A call of which nobody knows how it ended.
#[derive(Debug, Serialize)]
pub struct Unknown {
    id: String,
    position: u8,
    summary: String,
    agent: String,
    at: Moment,
}

impl Numbers {
    /// Counts.
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
        numbers.haste = Haste::count(&approvals);
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
                    summary: call.terms.summary.clone(),
                    agent: shown(approval.agent.as_str()),
                    at: Moment::new(approval.changed_at, now),
                });
            }
        }
    }
}

/// Milliseconds where seconds would all be nought.
pub fn show_time(time: Duration) -> String {
    match time < Duration::from_secs(10) {
        true => format!("{:.1}s", time.as_secs_f64()),
        false => duration::show(time),
    }
}

pub fn percent(part: usize, whole: usize) -> usize {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0)
}

/// How long somebody had at most.
pub fn time_to_decide(approval: &Approval) -> Option<Duration> {
    let decided = approval.decision.as_ref()?;
    Some(decided.at.since(approval.created_at))
}

fn median(times: &mut [Duration]) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// When it was decided, or ran out of time.
fn settled_at(approval: &Approval) -> Option<Time> {
    let decided = approval.decision.as_ref().map(|decided| decided.at);
    decided.or(approval.ended_at.filter(|_| approval.state == State::Expired))
}

/// Spans of equal length from the first to the last, as long as they need to be for all to fit.
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
    // Of more than two years only the end is drawn.
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

/// A call counts as approved when it was allowed to run, also when it failed then.
fn tools(approvals: &[&Approval]) -> Vec<Tool> {
    let mut tools: BTreeMap<&str, Tool> = BTreeMap::new();
    for approval in approvals.iter().filter(|approval| approval.decision.is_some()) {
        for call in &approval.calls {
            let is_denied = call.because == Some(countersign::call::Because::Denied);
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
