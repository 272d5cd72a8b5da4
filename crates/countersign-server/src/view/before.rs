//! JSON view of the snapshot of what a call would change, and of the approver's edits.
//!
//! INVARIANT: values that are secret in a call's arguments are also hidden in the snapshot of what the call would
//! change.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::hash::Hash;
use countersign::json;
use countersign::secrecy::Secrecy;
use countersign::snapshot::{Difference, differences};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::make::result;
use super::value::{ValueView, with_whole};

/// Replacement for a secret value.
const HIDDEN: &str = "hidden";

/// Snapshot of what a call would change, read when a person was asked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BeforeView {
    /// Tool that read the snapshot.
    pub tool: String,
    /// Hash of the snapshot, which is part of the call's digest. The snapshot is read again before the call runs.
    #[schema(value_type = String)]
    pub hash: Hash,
    pub bytes: usize,
    /// Content of the snapshot: JSON unchanged, any other text as a string. Absent if it contains a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Values of a snapshot that contains secrets, with a mark in place of each secret. Absent if no value is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<ValueView>>,
    /// Values that the call would change.
    pub changes: Vec<ChangeView>,
}

/// A changed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeView {
    /// JSON pointer of the value.
    pub pointer: String,
    /// Old value. Null if the value is new.
    pub was: Option<String>,
    /// New value. Null if the value is removed.
    pub is: Option<String>,
}

/// Returns the snapshot of what the call would change; `None` if no snapshot was taken or the approval was erased.
pub fn before(approval: &Approval, call: &Call, secrecy: &Secrecy) -> Option<BeforeView> {
    let before = call.before.as_deref().filter(|_| approval.erased_at.is_none())?;
    let is_hidden = hides(secrecy, &before.result);
    Some(BeforeView {
        tool: before.tool.to_string(),
        hash: before.hash,
        bytes: before.result.len(),
        result: result(&before.result).filter(|_| !is_hidden),
        values: is_hidden.then(|| {
            let shown = with_whole(secrecy.table(&before.result), &before.result);
            shown.into_iter().map(ValueView::from).collect()
        }),
        changes: changes(secrecy, call, &before.result, false),
    })
}

/// Returns the changes that the approver made to the call's arguments.
pub fn edits(call: &Call, secrecy: &Secrecy) -> Vec<ChangeView> {
    let original = call.original.as_ref();
    original.map_or_else(Vec::new, |original| {
        changes(secrecy, call, original.as_bytes(), true)
    })
}

/// Returns true if a snapshot contains a secret. If the call has secrets, a snapshot that is not a JSON object counts
/// as containing one, because secrets cannot be located in it.
pub fn hides(secrecy: &Secrecy, result: &[u8]) -> bool {
    let leaves = json::leaves(result);
    let is_object = json::check(result, json::Limits::default()).is_ok();
    match is_object {
        true => {
            let is_hidden =
                |leaf: &json::Leaf<'_>| secrecy.is_secret(&leaf.pointer) || secrecy.is_in(&leaf.text());
            leaves.iter().any(is_hidden) || secrecy.is_in(&String::from_utf8_lossy(result))
        }
        false => secrecy.has_any(),
    }
}

/// Returns the values in which the call's arguments differ from `old`. A value that only one of the two has is listed
/// only with `whole`.
fn changes(secrecy: &Secrecy, call: &Call, old: &[u8], whole: bool) -> Vec<ChangeView> {
    let shown = |Difference { pointer, was, is, .. }| {
        let is_hidden = secrecy.is_secret(&pointer);
        let text = |text: Option<String>| match is_hidden {
            true => text.map(|_| HIDDEN.to_owned()),
            false => text.map(|text| secrecy.text(&text).into_owned()),
        };
        ChangeView {
            was: text(was),
            is: text(is),
            pointer,
        }
    };
    let found = differences(old, call.arguments.as_bytes(), whole);
    found.into_iter().map(shown).collect()
}
