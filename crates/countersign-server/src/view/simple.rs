//! An approval in the shape that clients of other approval services read: flat, with one tool and one of four statuses.
//!
//! INVARIANT: nothing of the card is left out. Everything without a field of its own (notes, warnings, marks, the
//! current state of what would change) is in `card`, so a client that shows this view has shown all that a person
//! approves.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::card::CardText;
use countersign::effect::Risk;
use countersign::hash::Hash;
use countersign::id::ApprovalId;
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use countersign::sentence::Sentences;
use countersign::state::State;
use countersign::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::make::partly_denied;
use super::{ApprovalView, Moment, PageView, description, state, words};
use crate::leave;

/// Run id in the JSON of an approval that has none.
const NO_RUN: &str = "unknown";

/// An approval in the simple view.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimpleApprovalView {
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// Run of the agent; `unknown` if it named none.
    pub run_id: String,
    pub agent_name: String,
    /// Tool of the call. For a request for permission to use a tool, that tool. Several tools are separated by commas.
    pub tool_name: String,
    /// Arguments of a single call, with secrets replaced by marks; for several calls, `{"calls": […]}`.
    #[schema(value_type = Object)]
    pub tool_arguments: Box<RawValue>,
    #[schema(value_type = words::RiskLevel)]
    pub risk_level: Risk,
    /// Description given by the requester, if any. Not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `pending`, `approved`, `rejected` or `expired`. An approval that was superseded or withdrawn is `expired`.
    #[schema(value_type = words::SimpleStatus)]
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[schema(value_type = String)]
    pub created_at: Moment,
    #[schema(value_type = String)]
    pub expires_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub decided_at: Option<Moment>,
    pub requested_by: String,
    /// Person who decided, according to the credential. Absent if nobody has decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Name that the decision's request claimed in `decidedBy`, if any. Not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// True if a person approved some of the calls and denied others.
    #[serde(skip_serializing_if = "super::is_false")]
    #[schema(value_type = Option<bool>)]
    pub partly_denied: bool,
    /// Summary of what the calls would do, made by the gate.
    pub summary: String,
    /// The whole card as text.
    pub card: String,
    #[schema(value_type = String)]
    pub digest: Hash,
}

/// A page of approvals in the simple view.
#[derive(Debug, Serialize, ToSchema)]
pub struct SimplePageView {
    /// Approvals of the page.
    pub approvals: Vec<SimpleApprovalView>,
    /// Cursor for the next page. Null on the last page.
    #[schema(value_type = Option<String>)]
    pub next: Option<ApprovalId>,
}

/// An approval in the view that the client requested.
#[derive(Serialize)]
#[serde(untagged)]
pub enum EitherView {
    /// All fields of the approval.
    Full(Box<ApprovalView>),
    /// The fields that clients of other services read.
    Simple(Box<SimpleApprovalView>),
}

/// A page of approvals in the view that the client requested.
#[derive(Serialize)]
#[serde(untagged)]
pub enum EitherPageView {
    /// All fields of the approvals.
    Full(PageView),
    /// The fields that clients of other services read.
    Simple(SimplePageView),
}

impl PartialSchema for EitherView {
    fn schema() -> RefOr<Schema> {
        any_of::<ApprovalView, SimpleApprovalView>("An approval, in the view that was asked for.")
    }
}

impl ToSchema for EitherView {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add_schema::<ApprovalView>(schemas);
        add_schema::<SimpleApprovalView>(schemas);
    }
}

impl PartialSchema for EitherPageView {
    fn schema() -> RefOr<Schema> {
        any_of::<PageView, SimplePageView>("A page of approvals, in the view that was asked for.")
    }
}

impl ToSchema for EitherPageView {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add_schema::<PageView>(schemas);
        add_schema::<SimplePageView>(schemas);
    }
}

/// Returns a schema that accepts either type. The derive macro would use `oneOf` for an untagged enum, which is wrong
/// here: an empty page is valid in both views.
fn any_of<A: ToSchema, B: ToSchema>(description: &str) -> RefOr<Schema> {
    AnyOfBuilder::new()
        .item(Ref::from_schema_name(A::name()))
        .item(Ref::from_schema_name(B::name()))
        .description(Some(description))
        .into()
}

fn add_schema<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// View of an approval, selected with the query parameter `view`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// All fields of the approval.
    #[default]
    Full,
    /// The fields that clients of other services read.
    Simple,
}

/// Creates the simple view of an approval at `now`.
pub fn simple(approval: &Approval, policy: &Policy, now: Time) -> SimpleApprovalView {
    let all = approval.secrecy(policy);
    let said = |text: &Option<String>| text.as_deref().map(|text| all.text(text).into_owned());
    let decision = approval.decision.as_ref();
    let card = CardText::new(approval, policy, &[], &Sentences::english());
    SimpleApprovalView {
        id: approval.id,
        run_id: approval
            .run
            .as_ref()
            .map_or_else(|| NO_RUN.to_owned(), ToString::to_string),
        agent_name: approval.agent.to_string(),
        tool_name: tool_name(approval),
        tool_arguments: arguments(approval, policy),
        risk_level: approval
            .calls
            .iter()
            .map(|call| call.terms.risk())
            .max()
            .unwrap_or(Risk::Low),
        description: said(&approval.claim),
        status: simple_status(approval, now),
        comment: decision.and_then(|decision| said(&decision.comment)),
        created_at: approval.created_at.into(),
        expires_at: approval.expires_at.into(),
        decided_at: decision.map(|decision| decision.at.into()),
        requested_by: approval.requester.to_string(),
        decided_by: decision.map(|decision| decision.by.to_string()),
        claimed_by: decision.and_then(|decision| said(&decision.claimed_by)),
        partly_denied: partly_denied(approval),
        summary: description(approval),
        card: card.whole(),
        digest: approval.digest,
    }
}

/// Returns the status of an approval in the simple view.
pub fn simple_status(approval: &Approval, now: Time) -> &'static str {
    match state(approval, now) {
        State::Pending => "pending",
        // A call that passed is not listed in this view.
        State::Approved | State::Passed => "approved",
        State::Denied => "rejected",
        State::Expired | State::Superseded | State::Withdrawn => "expired",
    }
}

fn tool_name(approval: &Approval) -> String {
    let mut names: Vec<String> = Vec::new();
    for call in &approval.calls {
        let name = leave::named_tool(call).unwrap_or_else(|| call.tool.to_string());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(",")
}

/// Returns the arguments as JSON, with secrets replaced by marks.
fn arguments(approval: &Approval, policy: &Policy) -> Box<RawValue> {
    let shown = |call: &Call| Secrecy::of(call, policy, &approval.salt).json(call.arguments.as_bytes());
    let text = match approval.calls.as_slice() {
        [only] => shown(only),
        calls => {
            let each = calls.iter().map(|call| {
                let tool = serde_json::Value::from(call.tool.as_str());
                format!(r#"{{"tool":{tool},"arguments":{}}}"#, shown(call).trim())
            });
            let each: Vec<String> = each.collect();
            format!(r#"{{"calls":[{}]}}"#, each.join(","))
        }
    };
    let text = text.trim_matches([' ', '\n', '\r', '\t']).to_owned();
    RawValue::from_string(text).unwrap_or_default()
}
