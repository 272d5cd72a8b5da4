//! Card of an approval: everything a person needs to decide, and the outcome.
//!
//! Input: an approval, the policy, the store's time and the viewer. Output: values for the templates, with untrusted
//! text already escaped. This module contains neither HTML nor rules. The gate accepts or refuses a decision; this
//! module only hides buttons that would be refused.

mod alike;
mod authority;
mod call;
mod origin;
mod section;
mod value;

pub use alike::AlikeCalls;
pub use authority::ViewerPermissions;
pub use call::{CallCard, Edit};
pub use value::{Measure, size};

use std::cmp::Reverse;

use countersign::approval::Approval;
use countersign::card::WholeCard;
use countersign::concern::Concern;
use countersign::decision::Decider;
use countersign::display::{clip, escape, one_line, with_line_breaks};
use countersign::effect::{Effect, Risk};
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use countersign::state::{CallState, State};
use countersign::time::Time;
use serde::Serialize;

use super::language::say;
use crate::duration;
use crate::view::{self, Outcome};

/// Maximum length of a claim on the list, in characters.
const CLAIM_CHARS: usize = 240;

/// Inputs of a card besides the approval.
#[derive(Clone, Copy)]
pub struct Drawing<'a> {
    /// Policy that declares the secret arguments.
    pub policy: &'a Policy,
    /// Current time of the store's clock.
    pub now: Time,
    /// The viewer. `None` if the viewer may decide nothing.
    pub decider: Option<&'a Decider>,
    /// How much of the arguments to show.
    pub measure: Measure,
}

/// Template values of one approval.
#[derive(Debug, Serialize)]
pub struct Card {
    pub id: String,
    pub short: String,
    pub digest: String,
    pub version: u32,
    pub state: &'static str,
    /// The decision in words; for a batch, how many of its calls were approved.
    pub decided: String,
    /// Outcomes of calls that did not succeed, in words. Empty for a single call, or if all succeeded.
    pub rest: String,
    /// Decision and outcomes of the calls in words, as the text of one label.
    pub label: String,
    /// CSS class of the label.
    pub tone: &'static str,
    /// Why the policy let the call pass; `None` if it did not.
    pub passed_because: Option<String>,
    pub is_pending: bool,
    pub title: String,
    pub risk: &'static str,
    /// True if approving by keyboard takes two key presses.
    pub is_grave: bool,
    pub calls: Vec<CallCard>,
    pub is_batch: bool,
    /// The calls as one table. `None` if they are too few or too different for one.
    pub alike: Option<AlikeCalls>,
    /// True if part of what would run is not shown, so the card cannot be approved on this page.
    pub is_partial: bool,
    /// True if the card is drawn with [`Measure::FULL`].
    pub is_full: bool,
    pub agent: String,
    pub requester: String,
    pub on_behalf_of: Option<String>,
    pub run: Option<String>,
    pub session: Option<String>,
    pub channel: Option<String>,
    pub claim: Option<String>,
    pub created: Moment,
    pub expires: Moment,
    pub is_urgent: bool,
    pub yes: String,
    pub no: String,
    pub approvers: String,
    pub may: ViewerPermissions,
    /// Endorsements so far. Used only if several people have to approve.
    pub endorsed: Vec<Endorsed>,
    pub ended: Option<Ended>,
    pub undoes: Option<ApprovalLink>,
    pub replaces: Option<ApprovalLink>,
    pub superseded_by: Option<ApprovalLink>,
    /// True if the approval is pending and was proposed under a different policy than the current one.
    pub is_other_policy: bool,
    /// True if the card can be decided together with others of its tool: one click of the viewer approves it, all of it
    /// is shown, and nothing about it deserves a second look.
    pub can_select: bool,
}

/// Time in exact form for the script, and in words for people.
#[derive(Debug, Serialize)]
pub struct Moment {
    pub exact: String,
    pub words: String,
    /// The time to the second, with its zone. The script shows it in the zone of the browser.
    pub stamp: String,
}

/// How an approval ended, and who ended it.
#[derive(Debug, Serialize)]
pub struct Ended {
    pub by: Option<String>,
    pub is_you: bool,
    pub at: Moment,
    pub surface: Option<String>,
    pub comment: Option<String>,
    pub claimed_by: Option<String>,
}

/// Endorsement by one of several people who have to approve.
#[derive(Debug, Serialize)]
pub struct Endorsed {
    pub by: String,
    pub is_you: bool,
    pub at: Moment,
    pub surface: String,
    pub comment: Option<String>,
    /// Positions of the calls that the person approved; `None` if the person approved all.
    pub only: Option<Vec<u8>>,
}

/// Link to another approval or one of its calls.
#[derive(Debug, Serialize)]
pub struct ApprovalLink {
    pub id: String,
    pub short: String,
}

impl Moment {
    /// Creates the exact and the relative form of a time, which may be before or after `now`.
    pub fn new(moment: Time, now: Time) -> Moment {
        Moment {
            exact: moment.to_string(),
            stamp: stamp(moment),
            words: relative(moment, now),
        }
    }

    fn left(moment: Time, now: Time) -> Moment {
        Moment {
            exact: moment.to_string(),
            stamp: stamp(moment),
            words: within_words("{time} left", moment.since(now)),
        }
    }
}

/// Describes a time relative to `now`, in the language of the page.
fn relative(moment: Time, now: Time) -> String {
    match moment > now {
        true => within_words("in {time}", moment.since(now)),
        false if now.since(moment).as_secs() < 5 => say("just now").to_owned(),
        false => within_words("{time} ago", now.since(moment)),
    }
}

fn within_words(words: &str, duration: std::time::Duration) -> String {
    say(words).replace("{time}", &duration::show(duration))
}

/// Formats a time to the second, with its zone: `2026-11-18 04:30:44 UTC`.
fn stamp(moment: Time) -> String {
    let exact = moment.to_string();
    let (day, time) = exact.split_once('T').unwrap_or((&exact, ""));
    let time = time.split(['.', 'Z']).next().unwrap_or_default();
    format!("{day} {time} UTC")
}

impl Card {
    /// Builds the card. `concerns` holds the concerns about each call, by position.
    pub fn new(approval: &Approval, concerns: &[Vec<Concern>], drawing: Drawing<'_>) -> Card {
        let Drawing {
            policy, now, decider, ..
        } = drawing;
        let state = view::state(approval, now);
        let is_pending = state == State::Pending;
        let outcome = Outcome::of(approval, now);
        let calls: Vec<CallCard> = approval
            .numbered()
            .map(|(position, call)| {
                let concerns = concerns.get(usize::from(position) - 1).map(Vec::as_slice);
                CallCard::new(approval, position, concerns.unwrap_or_default(), call, drawing)
            })
            .collect();
        let risk = risk(approval);
        let is_batch = calls.len() > 1;
        let is_full = drawing.measure == Measure::FULL;
        let secrecy = approval.secrecy(drawing.policy);
        let claim = approval.claim.as_deref().map(|claim| secrecy.text(claim));
        let claim = claim.map(|claim| match is_full {
            true => shown_lines(&claim),
            false => with_line_breaks(&clip(&claim, CLAIM_CHARS).to_string()).into_owned(),
        });
        let is_of_one_tool = calls
            .windows(2)
            .all(|pair| matches!(pair, [one, next] if one.tool == next.tool));
        let is_partial = calls.iter().any(CallCard::is_partial);
        let may = ViewerPermissions::new(approval, decider);
        let destroys = |call: &countersign::call::Call| call.terms.effect == Effect::Destructive;
        let is_grave = risk >= Risk::High || approval.calls.iter().any(destroys);
        Card {
            // The viewer may edit what one person can approve alone.
            can_select: is_pending
                && is_of_one_tool
                && may.approve
                && may.edit
                && !is_partial
                && !is_grave
                && calls.iter().all(|call| call.concerns.is_empty()),
            id: approval.id.to_string(),
            short: approval.id.short(),
            digest: approval.digest.to_string(),
            version: approval.version,
            state: state.as_str(),
            label: outcome.label(),
            tone: tone(state, &outcome),
            decided: outcome.decided,
            rest: outcome.rest.join(", "),
            passed_because: view::passed_because(approval),
            is_pending,
            title: match is_batch {
                true if is_pending => {
                    say("{n} calls, to run in this order").replace("{n}", &calls.len().to_string())
                }
                true => say("{n} calls").replace("{n}", &calls.len().to_string()),
                false => short_title(&calls)
                    .unwrap_or_else(|| with_line_breaks(&view::description(approval)).into_owned()),
            },
            risk: risk.as_str(),
            is_grave,
            is_batch,
            // A person has to say how a call of unknown outcome ended, which takes more room than a row has.
            alike: AlikeCalls::of(&calls)
                .filter(|_| calls.iter().all(|call| call.state != CallState::Unknown.as_str())),
            is_partial,
            is_full,
            calls,
            agent: shown(approval.agent.as_str()),
            requester: shown(approval.requester.as_str()),
            on_behalf_of: approval.on_behalf_of.as_ref().map(|name| shown(name.as_str())),
            run: approval.run.as_ref().map(|name| shown(name.as_str())),
            session: approval.session.as_ref().map(|name| shown(name.as_str())),
            channel: approval.channel.as_ref().map(|name| shown(name.as_str())),
            claim,
            created: Moment::new(approval.created_at, now),
            expires: Moment::left(approval.expires_at, now),
            is_urgent: approval.expires_at.since(now).as_secs() < 60,
            yes: label(
                approval,
                |call| call.terms.yes.as_deref(),
                "Approve",
                "Approve all",
            ),
            no: label(approval, |call| call.terms.no.as_deref(), "Deny", "Deny all"),
            approvers: approvers(approval),
            may,
            endorsed: endorsed(approval, now, decider, &secrecy),
            ended: (!is_pending).then(|| ended(approval, now, decider, &secrecy)),
            undoes: approval.undoes.map(|undoes| ApprovalLink {
                id: undoes.approval.to_string(),
                short: undoes.short(),
            }),
            replaces: approval.replaces.map(approval_link),
            superseded_by: approval.superseded_by.map(approval_link),
            is_other_policy: is_pending && policy.may_hide_more(approval.policy),
        }
    }
}

/// Returns a shorter title for a single call whose summary is a truncated list of values. `None` if the summary is not
/// truncated, or if the card does not show all values.
fn short_title(calls: &[CallCard]) -> Option<String> {
    let [call] = calls else { return None };
    let list = call
        .summary
        .strip_prefix(call.tool.as_str())?
        .strip_prefix(": ")?;
    let is_repeated = list.contains("… and ") && !call.is_partial();
    is_repeated.then(|| format!("{}: {} values, listed below", call.tool, call.values.all().len()))
}

/// Returns the proof that a card drawn at this measure shows everything, or `None` if part of it is left out.
pub fn whole_card(policy: &Policy, approval: &Approval, measure: Measure) -> Option<WholeCard> {
    let drawing = Drawing {
        policy,
        // Completeness depends neither on the time nor on the viewer.
        now: approval.created_at,
        decider: None,
        measure,
    };
    let card = Card::new(approval, &[], drawing);
    (!card.is_partial).then(|| WholeCard::shown(approval))
}

/// Returns the CSS class for the outcome of an approval.
pub fn tone(state: State, outcome: &Outcome) -> &'static str {
    match outcome.is_mixed {
        true => "mixed",
        false => state.as_str(),
    }
}

/// Returns the highest risk among the calls.
pub fn risk(approval: &Approval) -> Risk {
    let risks = approval.calls.iter().map(|call| call.terms.risk());
    risks.max().unwrap_or(Risk::Low)
}

/// Escapes untrusted text, including line breaks, for display on one line.
pub fn shown(text: &str) -> String {
    one_line(&escape(text)).into_owned()
}

/// Escapes untrusted text for display but keeps its line breaks. If the text has too many lines, the line breaks are
/// escaped too.
pub fn shown_lines(text: &str) -> String {
    with_line_breaks(&escape(text)).into_owned()
}

/// Describes a surface (where a decision was made, such as `command_line`) in words for people.
pub fn surface_words(surface: &str) -> String {
    match surface {
        "text" => "a text reply".to_owned(),
        "button" => "a button".to_owned(),
        "api" => "the API".to_owned(),
        "command_line" => "the command line".to_owned(),
        "page" => "the page".to_owned(),
        "passkey" => "a passkey".to_owned(),
        other => shown(other),
    }
}

/// Sort key of cards: highest risk first, then earliest expiry. The script sorts in the same way.
pub fn order(approval: &Approval) -> (Reverse<Risk>, Time) {
    (Reverse(risk(approval)), approval.expires_at)
}

fn approval_link(id: countersign::id::ApprovalId) -> ApprovalLink {
    ApprovalLink {
        id: id.to_string(),
        short: id.short(),
    }
}

/// Returns the label of a button: the policy's word for a single call, always the inbox's own word ("all") for a batch.
fn label<'a>(
    approval: &'a Approval,
    word: impl Fn(&'a countersign::call::Call) -> Option<&'a str>,
    single: &str,
    batch: &str,
) -> String {
    match approval.calls.as_slice() {
        [only] => word(only).map_or_else(|| say(single).to_owned(), shown),
        _ => say(batch).to_owned(),
    }
}

fn approvers(approval: &Approval) -> String {
    let mut lists: Vec<String> = Vec::new();
    for call in &approval.calls {
        let names: Vec<String> = call.terms.approvers.iter().map(|name| shown(name)).collect();
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

fn endorsed(approval: &Approval, now: Time, decider: Option<&Decider>, secrecy: &Secrecy) -> Vec<Endorsed> {
    let earlier = approval.endorsements.iter().map(|endorsed| Endorsed {
        by: shown(endorsed.by.as_str()),
        is_you: decider.is_some_and(|you| you.person == endorsed.by),
        at: Moment::new(endorsed.at, now),
        surface: surface_words(&endorsed.surface),
        comment: endorsed
            .comment
            .as_deref()
            .map(|text| shown_lines(&secrecy.text(text))),
        only: endorsed.calls.clone(),
    });
    earlier.collect()
}

fn ended(approval: &Approval, now: Time, decider: Option<&Decider>, secrecy: &Secrecy) -> Ended {
    let decided = approval.decision.as_ref();
    let at = decided.map(|decided| decided.at).or(approval.ended_at);
    Ended {
        by: decided.map(|decided| shown(decided.by.as_str())),
        is_you: decided.is_some_and(|decided| decider.is_some_and(|you| you.person == decided.by)),
        // Falls back to the expiry time if no sweep has recorded the expiry yet.
        at: Moment::new(at.unwrap_or(approval.expires_at), now),
        surface: decided.map(|decided| surface_words(&decided.surface)),
        comment: decided
            .and_then(|decided| decided.comment.as_deref())
            .map(|text| shown_lines(&secrecy.text(text))),
        claimed_by: decided.and_then(|decided| decided.claimed_by.as_deref().map(shown)),
    }
}
