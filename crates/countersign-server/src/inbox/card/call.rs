//! One call on a card.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::concern::Concern;
use countersign::display::clip;
use countersign::json;
use countersign::policy::Undoable;
use countersign::provenance::Marks;
use countersign::secrecy::Secrecy;
use countersign::state::CallState;
use serde::Serialize;

use super::authority::why_not;
use super::origin::Verdict;
use super::value::{Values, values};
use super::{Drawing, Measure, Place, shown, size};
use crate::inbox::arguments::visible_lines;
use crate::view::{ChangeView, before};

/// The largest snapshot that also stands on the list.
const BEFORE_BYTES: usize = 600;
/// The longest result on a card.
const RESULT_CHARS: usize = 600;

/// One call.
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
    /// What deserves a second look.
    pub concerns: Vec<String>,
    /// How far its values are the person's; nothing where there are none, or a person changed them.
    pub verdict: Option<Verdict>,
    pub values: Values,
    /// What it would change, where there is room for it.
    pub before: Option<BeforeCard>,
    /// What it would change is not on this card.
    #[serde(skip)]
    lacks_before: bool,
    pub size: String,
    pub state: &'static str,
    pub because: Option<&'static str>,
    /// The person who approved it changed its arguments.
    pub is_edited: bool,
    pub result: Option<ResultCard>,
    pub undone_by: Option<Place>,
    /// It ran, and can be taken back.
    pub offers_undo: bool,
    /// Nobody knows how it ended, and this person may say.
    pub offers_reconcile: bool,
    /// What is typed into its field, on a page where it is being changed.
    pub edit: Option<Edit>,
    /// Whoever looks may approve this call.
    pub may_approve: bool,
    /// It is not among what would be approved: they may not, or chose so before the page came back to them.
    pub is_left_out: bool,
}

/// Arguments that are being changed.
#[derive(Debug, Serialize)]
pub struct Edit {
    pub text: String,
    pub lines: usize,
    pub problem: Option<String>,
    /// What stands for the secrets among them.
    pub kept: Option<&'static str>,
}

/// What a call would change, as it was when the card was made.
#[derive(Debug, Serialize)]
pub struct BeforeCard {
    pub tool: String,
    pub size: String,
    /// Nothing when something in it is secret, and it has no places by which that could be told.
    pub text: Option<String>,
}

/// What a call answered.
#[derive(Debug, Serialize)]
pub struct ResultCard {
    pub text: String,
    /// Part of it is not shown.
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
            summary: terms.summary.clone(),
            effect: terms.effect.as_str(),
            risk: terms.risk().as_str(),
            can_undo,
            notes: terms.notes.iter().map(|note| shown(note)).collect(),
            concerns: concerns.iter().map(ToString::to_string).collect(),
            verdict: (!is_edited && !rows.is_empty()).then(|| Verdict::new(provenance)),
            values: values(rows, arguments, marks.as_ref(), drawing.measure)
                .with_changes(&changes(approval, call, drawing)),
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
            undone_by: call.undone_by.map(|undo| Place {
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
    /// Returns true if something about the call is not on the card, and cannot be opened there.
    pub fn is_partial(&self) -> bool {
        self.values.is_partial || self.lacks_before
    }
}

/// What would be others, or what the person who approved it made others.
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
            // What is no JSON object has no places by which a secret could be found in it.
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
        text: clipped.to_string(),
    })
}
