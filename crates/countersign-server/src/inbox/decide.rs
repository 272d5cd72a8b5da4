//! Deciding on the page: from a form to the one decision that every surface makes.
//!
//! Enters: a form that carries the digest of the card it stood on. Leaves: the way back, or the page again with the
//! true reason and with everything that was typed.

use std::collections::HashMap;

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::approval::SharedApproval;
use countersign::call::Call;
use countersign::decision::{Choice, Decision, Refusal, Verdict};
use countersign::hash::Hash;
use countersign::id::Key;
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use countersign::time::Time;

use super::card::{Measure, whole_card};
use super::session::{FRAGMENT, SignedIn};
use super::{detail, edit, list, page, playground};
use crate::access::{Caller, Scope};
use crate::http::approvals::{LONGEST_COMMENT, record};
use crate::http::{Answer, ApiError, App};

/// The largest form: a batch whose arguments are all being changed.
pub const LARGEST_FORM: usize = 2 * 1024 * 1024;

/// What was filled in, to be shown again when it cannot be accepted.
#[derive(Debug, Default)]
pub struct Typed(HashMap<String, String>);

impl Typed {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The comment.
    pub fn comment(&self) -> &str {
        self.text("comment")
    }

    /// Whether a call was left out of what is approved.
    pub fn leaves_out(&self, position: u8) -> bool {
        self.text(&format!("choice-{position}")) == "deny"
    }

    /// What stands in the field of a call's arguments.
    pub fn arguments(&self, position: u8) -> Option<&str> {
        self.0.get(&format!("arguments-{position}")).map(String::as_str)
    }

    /// Where the form stood: on the list, unless it says otherwise.
    fn is_from_list(&self) -> bool {
        self.text("from").is_empty()
    }

    /// It stood beside a talk.
    fn is_from_playground(&self) -> bool {
        self.text("from") == "playground"
    }

    /// How much the card showed that the form stood on.
    fn measure(&self) -> Measure {
        match self.is_from_list() && self.text("shown").is_empty() {
            true => Measure::LIST,
            false => Measure::FULL,
        }
    }

    /// Whether arguments are being changed.
    pub fn is_edit(&self) -> bool {
        self.text("verdict") == "edit"
    }

    /// The same fields again are the same decision; anything else is another one.
    fn key(&self) -> Option<Key> {
        let mut fields: Vec<_> = self
            .0
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "from" | "shown"))
            .collect();
        fields.sort_unstable();
        let mut whole = String::new();
        for (name, value) in fields {
            whole.push_str(&format!("{}:{name}{}:{value}", name.len(), value.len()));
        }
        Key::new(format!("page-{}", Hash::of(whole.as_bytes()))).ok()
    }
}

/// Decides.
pub async fn decide(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(id): Path<String>,
    headers: HeaderMap,
    form: Result<Form<HashMap<String, String>>, FormRejection>,
) -> Response {
    let typed = match form {
        Ok(Form(fields)) => Typed(fields),
        Err(rejection) => return page::failure(&unread(&rejection)),
    };
    let (approval, now) = match list::one(&app, &caller, &id).await {
        Ok(found) => found,
        Err(error) => return page::failure(&error),
    };
    let is_fragment = headers.contains_key(FRAGMENT);
    let outcome = try_to_decide(&app, &caller, &approval, &typed).await;
    if is_fragment {
        return fragment(&app, &caller, &approval, now, &typed, outcome).await;
    }
    match outcome {
        Ok(()) if typed.is_from_list() => {
            Redirect::to(&format!("/approvals?done={}", approval.id)).into_response()
        }
        Ok(()) => {
            let back = match typed.is_from_playground() {
                true => playground::way_back(&app, &caller, &approval).await,
                false => None,
            };
            let usual = || format!("/approvals/{}", approval.id);
            Redirect::to(&back.unwrap_or_else(usual)).into_response()
        }
        Err(error) => detail::again(&app, &caller, &id, &error, &typed).await,
    }
}

/// The card as it is now, for the script to put in the old one's place.
async fn fragment(
    app: &App,
    caller: &Caller,
    before: &SharedApproval,
    then: Time,
    typed: &Typed,
    outcome: Answer<()>,
) -> Response {
    let after = list::one(app, caller, &before.id.to_string()).await;
    let (approval, now) = after.unwrap_or_else(|_| (before.clone(), then));
    let problem = outcome.err();
    let status = problem.as_ref().map_or(StatusCode::OK, |error| error.status);
    let place = match typed.text("from") {
        "" => (typed.measure(), "list"),
        from => (typed.measure(), from),
    };
    list::fragment(status, app, caller, &approval, now, place, problem.as_ref()).await
}

async fn try_to_decide(app: &App, caller: &Caller, approval: &SharedApproval, typed: &Typed) -> Answer<()> {
    let decider = caller
        .decider()
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Decide]))?;
    let comment = typed.comment().trim();
    if comment.len() > LONGEST_COMMENT {
        let message = format!("a comment has at most {LONGEST_COMMENT} bytes");
        return Err(ApiError::too_large(message));
    }
    // INVARIANT: nothing is decided on this page without the digest of what it showed.
    let digest = Hash::from_hex(typed.text("digest")).ok_or_else(|| {
        bad(
            "the form does not say which card it belongs to",
            "open the page again",
        )
    })?;
    let tenant = caller.tenant.clone();
    let mut decision = match verdict(app.gate.policy(), approval, typed)? {
        Verdict::Deny => Decision::deny(tenant, approval.id, decider),
        verdict => {
            let whole = whole_card(app.gate.policy(), approval, typed.measure());
            let whole = whole.ok_or(Refusal::Incomplete { id: approval.id })?;
            Decision::on(tenant, whole, decider, verdict)
        }
    };
    decision.digest = Some(digest);
    decision.comment = (!comment.is_empty()).then(|| comment.to_owned());
    decision.key = typed.key();
    record(app, decision, false).await.map(|_| ())
}

fn verdict(policy: &Policy, approval: &SharedApproval, typed: &Typed) -> Answer<Verdict> {
    match typed.text("verdict") {
        "deny" => Ok(Verdict::Deny),
        "approve" => Ok(Verdict::Approve),
        "chosen" | "edit" => {
            let choices = approval.numbered().map(|(position, call)| {
                if typed.leaves_out(position) {
                    return Ok(Choice::Deny);
                }
                match typed.arguments(position).filter(|_| typed.is_edit()) {
                    None => Ok(Choice::Approve),
                    Some(text) => {
                        let secrecy = Secrecy::of(call, policy, &approval.salt);
                        let read =
                            edit::read(&call.arguments, text, |pointer: &str| secrecy.is_secret(pointer));
                        read.map_err(|problem| bad_edit(position, &problem))
                    }
                }
            });
            let choices = choices.collect::<Answer<Vec<Choice>>>()?;
            match choices.iter().all(|choice| *choice == Choice::Deny) {
                true => Err(bad("no call is chosen", "choose at least one, or deny all")),
                false => Ok(Verdict::Each(choices)),
            }
        }
        _ => Err(bad(
            "the form says neither yes nor no",
            "press one of the buttons",
        )),
    }
}

/// What is wrong with one call's arguments, alone, for the place beside its field.
pub fn edit_problem(secrecy: &Secrecy, call: &Call, position: u8, typed: &Typed) -> Option<String> {
    let text = typed
        .arguments(position)
        .filter(|_| !typed.leaves_out(position))?;
    edit::read(&call.arguments, text, |pointer: &str| secrecy.is_secret(pointer)).err()
}

fn bad(message: &str, hint: &str) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_form", message, hint)
}

fn bad_edit(position: u8, problem: &str) -> ApiError {
    let message = format!("the arguments of call {position} are not acceptable: {problem}");
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "bad_edit",
        message,
        "correct them, or deny the call",
    )
}

fn unread(rejection: &FormRejection) -> ApiError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the form is too large"),
        _ => bad("the form could not be read", "open the page again"),
    }
}
