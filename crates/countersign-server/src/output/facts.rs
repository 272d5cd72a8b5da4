//! Facts below a card: who asks whom, when, what it takes to approve, and what was decided.

use countersign::decision::Assurance;
use countersign::state::State;
use countersign::time::Time;

use super::card::{Length, is_whole, listed};
use super::foreign::{Foreign, foreign, named, once};
use super::style::{self, paint};
use crate::duration;
use crate::view::{ApprovalView, VoteView};

/// Maximum length of the agent's claim on a short card, in characters.
const CLAIM_CHARS: usize = 1_000;

/// Renders the facts, one per line. On a [`Length::Short`] card, a long claim of the agent is cut.
pub fn facts(approval: &ApprovalView, length: Length) -> String {
    let now = approval.now.0;
    let mut lines: Vec<(&str, String)> = vec![("agent", foreign(&approval.agent_name))];
    let mut name = |label, value: Option<&str>| {
        lines.extend(value.map(|value| (label, foreign(value))));
    };
    name("run", approval.run_id.as_deref());
    name("session", approval.session.as_deref());
    name("channel", approval.channel.as_deref());
    name("asked by", Some(&approval.requested_by));
    name("for", approval.on_behalf_of.as_deref());
    if let Some(claim) = &approval.claim {
        let limit = match length {
            Length::Short => CLAIM_CHARS,
            Length::Whole => usize::MAX,
        };
        lines.push((
            "it says",
            format!(
                "{} {}",
                paint(style::FAINT, "(the agent's own words, not checked)"),
                Foreign::clip_lines(claim, limit).mark()
            ),
        ));
    }
    let is_passed = approval.status == State::Passed;
    if !is_passed {
        lines.push(("approvers", approvers(approval)));
        lines.extend(takes(approval).map(|takes| ("takes", takes)));
    }
    lines.push(("proposed", when(approval.created_at.0, now)));
    for vote in earlier_votes(approval) {
        let (by, on) = (named(&vote.by), named(&vote.on));
        let mut line = format!("by {by} on {on}, {}", when(vote.at.0, now));
        if let Some(calls) = &vote.calls {
            line.push_str(&format!(", only {}", listed(calls)));
        }
        lines.push(("approved", line));
        let comment = vote.comment.as_deref();
        lines.extend(comment.map(|comment| ("comment", Foreign::clip_lines(comment, usize::MAX).mark())));
    }
    match (&approval.decided_by, approval.decided_at) {
        (Some(by), Some(at)) => {
            let verb = match approval.status {
                State::Denied => "denied",
                _ => "approved",
            };
            let on = named(approval.decided_on.as_deref().unwrap_or("?"));
            lines.push((verb, format!("by {} on {on}, {}", named(by), when(at.0, now))));
            let comment = approval.comment.as_deref();
            lines.extend(comment.map(|comment| ("comment", Foreign::clip_lines(comment, usize::MAX).mark())));
        }
        _ if is_passed => {
            let because = approval.passed_because.as_deref().map(once);
            let because = because.map(|because| format!(": {because}")).unwrap_or_default();
            lines.push(("passed", format!("by the policy, nobody was asked{because}")));
        }
        _ => lines.push(("expires", when(approval.expires_at.0, now))),
    }
    lines.extend(
        approval
            .superseded_by
            .map(|id| ("now", format!("superseded by {}", id.short()))),
    );
    lines.extend(approval.replaces.map(|id| ("replaces", id.short())));
    lines.extend(approval.undoes.map(|undoes| ("undoes", undoes.short())));
    lines.push(("id", approval.id.to_string()));
    let digest = match is_whole(approval, length) {
        true => approval.digest.short(),
        false => "with `--full`".to_owned(),
    };
    lines.push(("digest", digest));
    let line = |(label, value): (&str, String)| {
        let padded = format!("{label:<10}");
        format!("  {} {value}\n", paint(style::FAINT, &padded))
    };
    lines.into_iter().map(line).collect()
}

fn approvers(approval: &ApprovalView) -> String {
    let mut lists: Vec<String> = Vec::new();
    for call in &approval.calls {
        let names: Vec<_> = call.approvers.iter().map(|name| named(name)).collect();
        let list = match names.is_empty() {
            true => "nobody".to_owned(),
            false => names.join(" or "),
        };
        if !lists.contains(&list) {
            lists.push(list);
        }
    }
    lists.join("; ")
}

/// Returns the endorsements to list. The approval that completed the quorum is left out, because it is shown as the
/// decision.
fn earlier_votes(approval: &ApprovalView) -> &[VoteView] {
    match (approval.status, approval.approvals.split_last()) {
        (State::Approved, Some((_, earlier))) => earlier,
        _ => &approval.approvals,
    }
}

/// Returns the requirements for approving other than being an approver: quorum, four eyes, surface. `None` if there are
/// no such requirements.
pub fn takes(approval: &ApprovalView) -> Option<String> {
    let mut takes = Vec::new();
    if approval.quorum > 1 {
        takes.push(match approval.missing() {
            0 => format!("{} people", approval.quorum),
            missing => format!("{} people, {missing} of them still missing", approval.quorum),
        });
    }
    if approval.calls.iter().any(|call| call.four_eyes) {
        takes.push("somebody else than who asked".to_owned());
    }
    let surface = approval.calls.iter().map(|call| call.surface).max();
    let surface = surface.filter(|surface| *surface > Assurance::Text);
    takes.extend(surface.map(|surface| format!("{} or better", surface.phrase())));
    (!takes.is_empty()).then(|| takes.join("; "))
}

fn when(moment: Time, now: Time) -> String {
    format!("{} ({})", duration::show_relative(moment, now), moment)
}
