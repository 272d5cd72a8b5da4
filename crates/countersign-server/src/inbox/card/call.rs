//! One call on a card, as values for the templates.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::concern::Concern;
use countersign::display::{clip, one_line, with_line_breaks};
use countersign::json;
use countersign::policy::Undoable;
use countersign::provenance::Marks;
use countersign::secrecy::Secrecy;
use countersign::state::CallState;
use serde::Serialize;

use super::authority::why_not;
use super::origin::Verdict;
use super::value::{Values, values};
use super::{ApprovalLink, Drawing, Measure, shown, size};
use crate::inbox::arguments::visible_lines;
use crate::inbox::edit_form::Field;
use crate::view::{ChangeView, before};

/// Maximum size of a snapshot on the list, in bytes.
const BEFORE_BYTES: usize = 600;
/// Maximum length of a result on a card, in characters.
const RESULT_CHARS: usize = 600;

/// Template values of one call.
#[derive(Debug, Serialize)]
pub struct CallCard {
    pub position: u8,
    pub tool: String,
    pub title: Option<String>,
    pub summary: String,
    pub effect: &'static str,
    pub risk: &'static str,
    pub can_undo: bool,
    pub notes: Vec<String>,
    /// Concerns: facts that deserve a second look.
    pub concerns: Vec<String>,
    /// Summary of which values the person stated. `None` if the call has no values, or a person edited them.
    pub verdict: Option<Verdict>,
    pub values: Values,
    /// Snapshot of what the call would change. `None` if there is none or it is too long for this card.
    pub before: Option<BeforeCard>,
    /// True if there is a snapshot that this card does not show.
    #[serde(skip)]
    lacks_before: bool,
    pub size: String,
    pub state: &'static str,
    pub because: Option<&'static str>,
    /// True if the approver edited the arguments.
    pub is_edited: bool,
    pub result: Option<ResultCard>,
    pub undone_by: Option<ApprovalLink>,
    /// True if the call succeeded and can be undone.
    pub offers_undo: bool,
    /// True if the outcome is unknown and the viewer may reconcile it.
    pub offers_reconcile: bool,
    /// Content of the arguments field, on a page where they are edited.
    pub edit: Option<Edit>,
    /// True if the viewer may approve this call.
    pub may_approve: bool,
    /// True if approving the card leaves this call out: the viewer may not approve it, or deselected it before the form
    /// was refused.
    pub is_left_out: bool,
}

/// Field with arguments being edited.
#[derive(Debug, Serialize)]
pub struct Edit {
    pub text: String,
    pub lines: usize,
    pub problem: Option<String>,
    /// Placeholder shown in place of secrets. `None` if the arguments contain no secret.
    pub kept: Option<&'static str>,
    /// Fields for the values; empty if the arguments are edited as JSON.
    pub fields: Vec<Field>,
}

/// Snapshot of what a call would change, taken when the approval was proposed.
#[derive(Debug, Serialize)]
pub struct BeforeCard {
    pub tool: String,
    pub size: String,
    /// `None` if the snapshot contains a secret and is not JSON, so that the secret cannot be located and hidden.
    pub text: Option<String>,
}

/// Result of a call.
#[derive(Debug, Serialize)]
pub struct ResultCard {
    pub text: String,
    /// Full size of the result in words. `None` if the text is complete.
    pub size: Option<String>,
}

impl CallCard {
    pub(super) fn new(
        approval: &Approval,
        position: u8,
        concerns: &[Concern],
        call: &Call,
        drawing: Drawing<'_>,
    ) -> CallCard {
        let terms = &call.terms;
        let arguments = call.arguments.as_bytes();
        let secrecy = Secrecy::of(call, drawing.policy, &approval.salt);
        let rows = secrecy.table(arguments);
        let provenance = call.provenance.as_deref();
        let marks = provenance.map(Marks::new);
        let is_edited = call.original.is_some();
        let may_approve = why_not(approval, call, drawing.decider).is_none();
        let before = before_card(approval, call, drawing);
        let can_undo = terms.undo == Undoable::Yes;
        let is_approver = drawing
            .decider
            .is_some_and(|decider| decider.is_among(&terms.approvers));
        CallCard {
            position,
            tool: call.tool.to_string(),
            title: drawing.policy.title(call.tool.as_str()).map(shown),
            summary: with_line_breaks(&terms.summary).into_owned(),
            effect: terms.effect.as_str(),
            risk: terms.risk().as_str(),
            can_undo,
            notes: approval.notes_on(call).iter().map(|note| shown(note)).collect(),
            concerns: concerns
                .iter()
                .map(|concern| one_line(&concern.to_string()).into_owned())
                .collect(),
            verdict: (!is_edited && !rows.is_empty())
                .then(|| Verdict::new(provenance, approval.undoes.is_some())),
            values: values(
                rows,
                arguments,
                marks.as_ref(),
                &changes(approval, call, drawing),
                drawing.measure,
            ),
            lacks_before: before.is_none() && call.before.is_some(),
            before,
            size: size(arguments.len()),
            state: call.state.as_str(),
            because: call.because.as_ref().map(|because| because.as_str()),
            is_edited,
            result: call.result.as_deref().and_then(|bytes| {
                let all = approval.secrecy(drawing.policy);
                result(&all.bytes(bytes))
            }),
            undone_by: call.undone_by.map(|undo| ApprovalLink {
                id: undo.approval.to_string(),
                short: format!("{}.{}", undo.approval.short(), undo.position),
            }),
            offers_undo: call.state == CallState::Succeeded && can_undo && call.undone_by.is_none(),
            offers_reconcile: call.state == CallState::Unknown && is_approver,
            edit: None,
            may_approve,
            is_left_out: !may_approve,
        }
    }
}

impl CallCard {
    /// Returns true if something about the call is not on the card and cannot be expanded there.
    pub fn is_partial(&self) -> bool {
        self.values.is_partial || self.lacks_before
    }
}

/// Returns the values that the call would change or, if the approver edited the arguments, the edited values.
fn changes(approval: &Approval, call: &Call, drawing: Drawing<'_>) -> Vec<ChangeView> {
    match call.original {
        Some(_) => before::edits(call, &Secrecy::of(call, drawing.policy, &approval.salt)),
        None => {
            let secrecy = Secrecy::of(call, drawing.policy, &approval.salt);
            before::before(approval, call, &secrecy).map_or_else(Vec::new, |before| before.changes)
        }
    }
}

fn before_card(approval: &Approval, call: &Call, drawing: Drawing<'_>) -> Option<BeforeCard> {
    let before = call.before.as_deref().filter(|_| approval.erased_at.is_none())?;
    let is_short = before.result.len() <= BEFORE_BYTES;
    if drawing.measure != Measure::FULL && !is_short {
        return None;
    }
    let secrecy = Secrecy::of(call, drawing.policy, &approval.salt);
    let text = String::from_utf8_lossy(&before.result);
    Some(BeforeCard {
        tool: shown(before.tool.as_str()),
        size: size(before.result.len()),
        text: match before::hides(&secrecy, &before.result) {
            false => Some(visible_lines(&text)),
            // A secret can be located, and hidden, only in valid JSON.
            true => json::check(&before.result, json::Limits::default())
                .is_ok()
                .then(|| visible_lines(&secrecy.json(&before.result))),
        },
    })
}

fn result(bytes: &[u8]) -> Option<ResultCard> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    if text.is_empty() {
        return None;
    }
    let clipped = clip(text, RESULT_CHARS);
    Some(ResultCard {
        size: clipped.is_clipped().then(|| size(bytes.len())),
        text: with_line_breaks(&clipped.to_string()).into_owned(),
    })
}
