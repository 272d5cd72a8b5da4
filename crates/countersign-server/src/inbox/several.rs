//! Decides several cards of one tool that were selected on the list.
//!
//! Input: a form with the digest of each selected card. Output: a page that says what became of each. Every card is
//! decided by itself, on its own digest; a refusal of one leaves the others as they are. Cards that deserve more than a
//! click cannot be selected (`Card::can_select`), and the same rule is checked here.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use countersign::approval::SharedApproval;
use countersign::decision::{Decision, Refusal, Verdict};
use countersign::display::one_line;
use countersign::hash::Hash;
use countersign::id::Key;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::card::{Card, Drawing, Measure, whole_card};
use super::filter::Wanted;
use super::form::FormFields;
use super::language::say;
use super::list;
use super::page;
use super::session::SignedIn;
use crate::access::{Caller, Scope};
use crate::service::{LONGEST_COMMENT, decide_and_run};
use crate::view;
use crate::web::{Answer, ApiError, App};

/// Prefix of the fields with the digests; the id of the approval follows.
const CARD: &str = "card-";
/// Most cards in one form: those of one page.
const MOST: usize = list::CARDS;

/// What became of one selected card.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    title: String,
    /// State of the approval, if it was decided.
    state: Option<&'static str>,
    /// Why it was not decided.
    problem: Option<Value>,
}

/// Decides the selected cards.
pub async fn decide(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    FormFields(fields): FormFields<HashMap<String, String>>,
) -> Response {
    match try_to_decide(&app, &caller, &fields).await {
        Ok(lines) => {
            let refused = lines.iter().filter(|line| line.problem.is_some()).count();
            let wanted = Wanted {
                tool: fields.get("tool").cloned().unwrap_or_default(),
                select: "1".to_owned(),
                ..Wanted::default()
            };
            let values = context! {
                lines => Value::from(Serde(&lines)),
                decided => lines.len() - refused,
                refused,
                query => wanted.query(),
            };
            page::signed_in(&app, StatusCode::OK, "several.html", &caller, "inbox", values)
        }
        Err(error) => page::failure(&error),
    }
}

async fn try_to_decide(app: &App, caller: &Caller, fields: &HashMap<String, String>) -> Answer<Vec<Line>> {
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    let approve = match text("verdict") {
        "approve" => true,
        "deny" => false,
        _ => {
            return Err(bad(
                "the form says neither yes nor no",
                "press one of the buttons",
            ));
        }
    };
    let comment = text("comment").trim();
    if comment.chars().count() > LONGEST_COMMENT {
        let message = format!("a comment has at most {LONGEST_COMMENT} characters");
        return Err(ApiError::too_large(message));
    }
    let mut selected: Vec<(&str, &str)> = fields
        .iter()
        .filter_map(|(name, digest)| Some((name.strip_prefix(CARD)?, digest.as_str())))
        .collect();
    // Ids grow with time, so that the oldest card is decided first.
    selected.sort_unstable();
    if selected.is_empty() {
        return Err(bad("no card is selected", "go back and select at least one"));
    }
    if selected.len() > MOST {
        return Err(bad("too many cards are selected", "select fewer"));
    }
    let form = Form {
        tool: text("tool"),
        approve,
        comment,
    };
    let mut lines = Vec::with_capacity(selected.len());
    for (id, digest) in selected {
        let found = list::one(app, caller, id).await;
        let title = match &found {
            Ok((approval, _)) => one_line(&view::description(approval)).into_owned(),
            Err(_) => super::card::shown(id),
        };
        let outcome = match found {
            Ok((approval, _)) => decide_one(app, caller, &approval, digest, &form).await,
            Err(error) => Err(error),
        };
        lines.push(Line {
            id: super::card::shown(id),
            title,
            state: outcome.as_ref().ok().map(|approval| approval.state.as_str()),
            problem: outcome.err().map(|error| page::problem(&error)),
        });
    }
    Ok(lines)
}

/// Fields of the form that count for every selected card.
struct Form<'f> {
    tool: &'f str,
    approve: bool,
    comment: &'f str,
}

async fn decide_one(
    app: &App,
    caller: &Caller,
    approval: &SharedApproval,
    digest: &str,
    form: &Form<'_>,
) -> Answer<SharedApproval> {
    let decider = caller
        .decider()
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Decide]))?;
    // INVARIANT: no decision is made on a page without the digest of what the page showed.
    let digest = Hash::from_hex(digest).ok_or_else(|| {
        bad(
            "the form does not say which card it belongs to",
            "open the page again",
        )
    })?;
    if approval.calls.iter().any(|call| call.tool.as_str() != form.tool) {
        return Err(bad("this is a card of another tool", "decide it by itself"));
    }
    let now = app.store().now().await?;
    let concerns = list::concerns(app, approval, now).await?;
    let drawing = Drawing {
        policy: app.gate.policy(),
        now,
        decider: Some(&decider),
        measure: Measure::LIST,
    };
    let card = Card::new(approval, &concerns, drawing);
    // A card that has ended is refused by the gate, with the reason.
    if card.is_pending && !card.can_select {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "not_selectable",
            say("this card has to be decided by itself"),
            say("open it, look at it and decide"),
        ));
    }
    let tenant = caller.tenant.clone();
    let mut decision = match form.approve {
        true => {
            let whole = whole_card(app.gate.policy(), approval, Measure::LIST);
            let whole = whole.ok_or(Refusal::Incomplete { id: approval.id })?;
            Decision::on(tenant, whole, decider, Verdict::Approve)
        }
        false => Decision::deny(tenant, approval.id, decider),
    };
    decision.digest = Some(digest);
    decision.comment = (!form.comment.is_empty()).then(|| form.comment.to_owned());
    decision.key = key(approval, digest, form);
    Ok(decide_and_run(app, decision, false).await?)
}

/// Returns the idempotency key of one card's decision: a form that is sent twice decides each card once.
fn key(approval: &SharedApproval, digest: Hash, form: &Form<'_>) -> Option<Key> {
    let whole = format!(
        "several {} {digest} {} {}",
        approval.id, form.approve, form.comment
    );
    Key::new(format!("page-{}", Hash::of(whole.as_bytes()))).ok()
}

fn bad(message: &str, hint: &str) -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "bad_form",
        say(message),
        say(hint),
    )
}
