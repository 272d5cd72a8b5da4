//! Handles the decision form of the pages.
//!
//! Input: a form with the digest of the card that it was on. Output: a redirect, or the page again with the reason for
//! the refusal and with everything that was typed.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::decision::{Choice, Decider, Decision, Refusal, Verdict};
use countersign::hash::{Fields, Hash};
use countersign::id::Key;
use countersign::policy::{Policy, SchemaChoices};
use countersign::secrecy::Secrecy;
use countersign::time::Time;

use super::card::{Measure, ViewerPermissions, whole_card};
use super::edit_form::{self, Field};
use super::form::FormFields;
use super::session::{FRAGMENT, SignedIn};
use super::{detail, edit, list, page, playground};
use crate::access::{Caller, Scope};
use crate::service::{LONGEST_COMMENT, decide_and_run};
use crate::tool_schema;
use crate::web::{Answer, ApiError, App};

/// Largest form, in bytes: enough for a batch in which all arguments are edited.
pub const LARGEST_FORM: usize = 2 * 1024 * 1024;

/// Submitted form fields, shown again if the decision is not accepted.
#[derive(Debug, Default)]
pub struct SubmittedFields(HashMap<String, String>);

impl SubmittedFields {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub fn comment(&self) -> &str {
        self.text("comment")
    }

    /// Returns true if the person excluded this call from the approval.
    pub fn leaves_out(&self, position: u8) -> bool {
        self.text(&format!("choice-{position}")) == "deny"
    }

    /// Checks that the form has exactly one choice for each call, and no other. Only the edit of a single call needs none.
    ///
    /// INVARIANT: a missing or unknown choice is never an approval.
    fn check_choices(&self, approval: &Approval) -> Answer<()> {
        let positions: Vec<String> = approval
            .numbered()
            .map(|(position, _)| format!("choice-{position}"))
            .collect();
        let is_choice = |name: &String| matches!(self.text(name), "approve" | "deny");
        let needs_choices = positions.len() > 1 || !self.is_edit();
        let is_missing = |name: &&String| !self.0.contains_key(*name) && needs_choices;
        let is_wrong = |name: &&String| self.0.contains_key(*name) && !is_choice(name);
        let is_of_no_call = |name: &&String| name.starts_with("choice-") && !positions.contains(name);
        let is_unclear = positions.iter().any(|name| is_missing(&name) || is_wrong(&name))
            || self.0.keys().any(|name| is_of_no_call(&name));
        match is_unclear {
            true => Err(bad(
                "the form does not say `approve` or `deny` for each call",
                "open the page again and choose for each call",
            )),
            false => Ok(()),
        }
    }

    /// Returns true if the form has choices for single calls.
    fn has_choices(&self) -> bool {
        self.0.keys().any(|name| name.starts_with("choice-"))
    }

    /// Returns true if the form has edits of arguments.
    fn has_edits(&self) -> bool {
        self.has_values() || self.has_json()
    }

    /// Returns the text of the call's arguments field, or `None` if the form has no such field.
    pub fn arguments(&self, position: u8) -> Option<&str> {
        self.0.get(&format!("arguments-{position}")).map(String::as_str)
    }

    /// Returns the text of one of the call's fields by its index, or `None` if the form has no such field.
    pub fn value(&self, position: u8, index: usize) -> Option<&str> {
        self.0
            .get(&format!("value-{position}-{index}"))
            .map(String::as_str)
    }

    /// Returns true if the form has fields for single values of some call.
    pub fn has_values(&self) -> bool {
        self.0.keys().any(|name| name.starts_with("value-"))
    }

    /// Returns true if the form has fields with all arguments of a call as JSON.
    pub fn has_json(&self) -> bool {
        self.0.keys().any(|name| name.starts_with("arguments-"))
    }

    /// Returns the page that the form was on. The form on the list has no `from` field.
    ///
    /// INVARIANT: an unknown page counts as the list, whose cards show the least.
    fn place(&self) -> FormPlace {
        match (self.text("from"), self.text("shown")) {
            ("detail", _) => FormPlace::Detail,
            ("playground", _) => FormPlace::Playground,
            ("", "all") => FormPlace::OpenedOnList,
            _ => FormPlace::List,
        }
    }

    /// Returns true if the person edited arguments, whether or not they have confirmed the edited card.
    pub fn is_edit(&self) -> bool {
        matches!(self.text("verdict"), "edit" | CONFIRM)
    }

    /// Returns true if the form was on the card that shows what would run after the edit.
    fn is_confirmed(&self) -> bool {
        self.text("verdict") == CONFIRM
    }

    /// Returns the names and values of the fields about the calls, which the confirmation form sends again.
    pub fn about_calls(&self) -> Vec<(&str, &str)> {
        let prefixes = ["arguments-", "value-", "choice-"];
        let is_about_a_call = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let fields = self.0.iter().filter(|(name, _)| is_about_a_call(name));
        let mut fields: Vec<_> = fields
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        fields.sort_unstable();
        fields
    }

    /// Returns the hash of a shown preview: of its card and of every field about the calls. The card has no secrets, so
    /// it alone would not tell a typed secret from another one.
    ///
    /// INVARIANT: the choices and edits that are confirmed are those that the preview was made from.
    pub fn preview_hash(&self, preview: &Approval) -> Hash {
        let start = Fields::new("countersign/preview/1")
            .field(&preview.digest.0)
            .field(&preview.digest_of_calls().0);
        let fields = self.about_calls().into_iter();
        fields
            .fold(start, |hash, (name, value)| {
                hash.field(name.as_bytes()).field(value.as_bytes())
            })
            .finish()
    }

    /// Returns an idempotency key: the hash of all fields except those that name the page. A form that is sent twice is
    /// one decision. Never `None` in practice, because a hash is a valid key.
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

/// Verdict that the form on the confirmation page sends, which shows the card as edited.
const CONFIRM: &str = "confirm";

/// Page that a form was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormPlace {
    List,
    /// The list, with the complete card opened in place of the short one.
    OpenedOnList,
    Detail,
    Playground,
}

impl FormPlace {
    /// Returns how much the card with the form showed.
    fn measure(self) -> Measure {
        match self {
            FormPlace::List => Measure::LIST,
            FormPlace::OpenedOnList | FormPlace::Detail | FormPlace::Playground => Measure::FULL,
        }
    }

    /// Returns the page's name in templates and form fields.
    fn name(self) -> &'static str {
        match self {
            FormPlace::List | FormPlace::OpenedOnList => "list",
            FormPlace::Detail => "detail",
            FormPlace::Playground => "playground",
        }
    }
}

/// Result of a submitted form.
enum FormResult {
    Decided,
    /// The form has edits and decides nothing yet: the edited card has to be shown first.
    Preview(Box<Approval>),
}

/// Records the submitted decision. An edit is shown first, as the card of what would run.
pub async fn decide(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(id): Path<String>,
    headers: HeaderMap,
    FormFields(fields): FormFields<HashMap<String, String>>,
) -> Response {
    let typed = SubmittedFields(fields);
    let (approval, now) = match list::one(&app, &caller, &id).await {
        Ok(found) => found,
        Err(error) => return page::failure(&error),
    };
    if typed.text("verdict") == "again" {
        return detail::edit_again(&app, &caller, &id, &typed).await;
    }
    let is_fragment = headers.contains_key(FRAGMENT);
    let outcome = try_to_decide(&app, &caller, &approval, &typed).await;
    match outcome {
        Ok(FormResult::Preview(preview)) => {
            detail::confirm(&app, &caller, (*preview).into(), now, &typed).await
        }
        outcome if is_fragment => {
            let fragment = fragment(&app, &caller, &approval, now, &typed, outcome.map(|_| ()));
            match typed.place() {
                FormPlace::Playground => {
                    let language = playground::language_around(&app, &caller, &approval);
                    language.scope(fragment).await
                }
                _ => fragment.await,
            }
        }
        Ok(FormResult::Decided) => {
            let back = match typed.place() {
                FormPlace::List | FormPlace::OpenedOnList => Some(format!("/approvals?done={}", approval.id)),
                FormPlace::Playground => playground::way_back(&app, &caller, &approval).await,
                FormPlace::Detail => None,
            };
            let usual = || format!("/approvals/{}", approval.id);
            Redirect::to(&back.unwrap_or_else(usual)).into_response()
        }
        Err(error) => detail::again(&app, &caller, &id, &error, &typed).await,
    }
}

/// Renders the card in its current state, for the script to replace the old one.
async fn fragment(
    app: &App,
    caller: &Caller,
    before: &SharedApproval,
    then: Time,
    typed: &SubmittedFields,
    outcome: Answer<()>,
) -> Response {
    let after = list::one(app, caller, &before.id.to_string()).await;
    let (approval, now) = after.unwrap_or_else(|_| (before.clone(), then));
    let problem = outcome.err();
    let status = problem.as_ref().map_or(StatusCode::OK, |error| error.status);
    let place = list::Place {
        measure: typed.place().measure(),
        from: typed.place().name(),
        is_selecting: false,
    };
    list::fragment(status, app, caller, &approval, now, place, problem.as_ref()).await
}

async fn try_to_decide(
    app: &App,
    caller: &Caller,
    approval: &SharedApproval,
    typed: &SubmittedFields,
) -> Answer<FormResult> {
    let decider = caller
        .decider()
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Decide]))?;
    let comment = typed.comment().trim();
    if comment.chars().count() > LONGEST_COMMENT {
        let message = format!("a comment has at most {LONGEST_COMMENT} characters");
        return Err(ApiError::too_large(message));
    }
    // INVARIANT: no decision is made on a page without the digest of what the page showed.
    let digest = Hash::from_hex(typed.text("digest")).ok_or_else(|| {
        bad(
            "the form does not say which card it belongs to",
            "open the page again",
        )
    })?;
    let tenant = caller.tenant.clone();
    let choices = match typed.is_edit() {
        true => tool_schema::choices(app.store(), approval).await?,
        false => Vec::new(),
    };
    let verdict = verdict(app.gate.policy(), &choices, approval, typed)?;
    let preview = match &verdict {
        Verdict::Each(choices) if typed.is_edit() => Some(app.gate.preview(approval, choices)?),
        _ => None,
    };
    let mut decision = match verdict {
        Verdict::Deny => Decision::deny(tenant, approval.id, decider),
        verdict => {
            let shown = preview.as_ref().unwrap_or(approval);
            let whole = whole_card(app.gate.policy(), shown, typed.place().measure());
            let whole = whole.ok_or(Refusal::Incomplete { id: approval.id })?;
            Decision::on(tenant, whole, decider, verdict)
        }
    };
    // INVARIANT: an edit is approved on a card of exactly the bytes that would run, never on the field it was typed
    // into.
    if let Some(preview) = preview {
        let is_open = approval.state == countersign::state::State::Pending && approval.digest == digest;
        let seen = typed
            .is_confirmed()
            .then(|| Hash::from_hex(typed.text("preview")))
            .flatten();
        match seen {
            Some(seen) if seen != typed.preview_hash(&preview) => return Err(not_as_seen()),
            Some(_) => {}
            None if typed.is_confirmed() => return Err(not_as_seen()),
            None if is_open => {
                may_edit(approval, &decision.decider)?;
                return Ok(FormResult::Preview(Box::new(preview)));
            }
            // The approval has ended, or the form was for another card: the store refuses the decision with the reason.
            None => {}
        }
    }
    decision.digest = Some(digest);
    decision.comment = (!comment.is_empty()).then(|| comment.to_owned());
    decision.key = typed.key();
    decide_and_run(app, decision, false).await?;
    Ok(FormResult::Decided)
}

fn verdict(
    policy: &Policy,
    choices: &[SchemaChoices],
    approval: &SharedApproval,
    typed: &SubmittedFields,
) -> Answer<Verdict> {
    match typed.text("verdict") {
        "deny" => Ok(Verdict::Deny),
        // INVARIANT: what was typed or chosen is never dropped in favour of the proposed calls.
        "approve" | "chosen" if typed.has_edits() => Err(bad(
            "the form has edited arguments, but approves the calls as they were proposed",
            "press `Show what would run…`, or open the page again",
        )),
        "approve" if typed.has_choices() => Err(bad(
            "the form has choices for single calls, but approves all of them",
            "open the page again",
        )),
        "approve" => Ok(Verdict::Approve),
        // Two descriptions of the same arguments could differ.
        "edit" | CONFIRM if typed.has_json() && typed.has_values() => Err(bad(
            "the form has the arguments twice, as JSON and as values",
            "open the page again",
        )),
        "chosen" | "edit" | CONFIRM => {
            typed.check_choices(approval)?;
            let chosen = approval.numbered().map(|(position, call)| {
                if typed.leaves_out(position) {
                    return Ok(Choice::Deny);
                }
                if !typed.is_edit() {
                    return Ok(Choice::Approve);
                }
                let secrecy = Secrecy::of(call, policy, &approval.salt);
                let listed = OfferedChoices::new(policy, choices, position);
                let edited = edited(listed, &secrecy, call, position, typed);
                edited.map_err(|problem| bad_edit(position, &problem))
            });
            let chosen = chosen.collect::<Answer<Vec<Choice>>>()?;
            match chosen.iter().all(|choice| *choice == Choice::Deny) {
                true => Err(bad("no call is chosen", "choose at least one, or deny all")),
                false => Ok(Verdict::Each(chosen)),
            }
        }
        _ => Err(bad(
            "the form says neither yes nor no",
            "press one of the buttons",
        )),
    }
}

/// Values that are offered for the arguments of one call: those of the policy's schema, or else of the tool's own.
#[derive(Clone, Copy)]
pub struct OfferedChoices<'c> {
    policy: &'c Policy,
    own: Option<&'c SchemaChoices>,
}

impl<'c> OfferedChoices<'c> {
    /// Returns the values for the call at `position` (from 1); `choices` has an entry for each call.
    pub fn new(policy: &'c Policy, choices: &'c [SchemaChoices], position: u8) -> OfferedChoices<'c> {
        OfferedChoices {
            policy,
            own: choices.get(usize::from(position).saturating_sub(1)),
        }
    }

    fn at(self, call: &Call, pointer: &str) -> Option<&'c [serde_json::Value]> {
        let listed = self.policy.choices(call.tool.as_str(), pointer);
        listed.or_else(|| self.own?.at(pointer))
    }
}

/// Returns what is wrong with one call's edited arguments, to be shown next to their field. `None` if the arguments are
/// valid, not edited or left out.
pub fn edit_problem(
    offered: OfferedChoices<'_>,
    secrecy: &Secrecy,
    call: &Call,
    position: u8,
    typed: &SubmittedFields,
) -> Option<String> {
    match typed.leaves_out(position) {
        true => None,
        false => edited(offered, secrecy, call, position, typed).err(),
    }
}

/// Parses what was typed into the fields of one call: either its arguments as JSON, or single values.
fn edited(
    offered: OfferedChoices<'_>,
    secrecy: &Secrecy,
    call: &Call,
    position: u8,
    typed: &SubmittedFields,
) -> Result<Choice, String> {
    if let Some(text) = typed.arguments(position) {
        return edit::read(&call.arguments, text, |pointer: &str| secrecy.is_secret(pointer));
    }
    let fields = edit_fields(offered, secrecy, call).unwrap_or_default();
    edit_form::read(&call.arguments, &fields, |at| typed.value(position, at))
}

/// Returns the fields for the values of a call, or `None` if it has to be edited as JSON.
pub fn edit_fields(offered: OfferedChoices<'_>, secrecy: &Secrecy, call: &Call) -> Option<Vec<Field>> {
    edit_form::fields(
        call.arguments.as_bytes(),
        |pointer: &str| secrecy.is_secret(pointer),
        |pointer: &str| offered.at(call, pointer),
    )
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

fn may_edit(approval: &Approval, decider: &Decider) -> Answer<()> {
    let may = ViewerPermissions::new(approval, Some(decider));
    match may.edit {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "not_allowed",
            may.why_not
                .unwrap_or_else(|| "calls that need several approvals cannot be edited".to_owned()),
            "decide it as it was proposed, or have it proposed again",
        )),
    }
}

fn not_as_seen() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "stale",
        "the choices and arguments are not those of the card that was shown",
        "look at the card again, then approve it",
    )
}
