//! The fixed words of the API, for its OpenAPI document: each type here is a list of strings.
//!
//! The lists come from the types that the service itself uses, so they cannot differ from what it sends.

use countersign::approval::Order;
use countersign::decision::Assurance;
use countersign::effect::{Effect, Risk};
use countersign::state::{CallState, State};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::CallEnd;

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident = $words:expr;)+) => {$(
        $(#[doc = $doc])+
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words: Vec<&'static str> = $words.into_iter().collect();
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .enum_values(Some(words))
                    .description(Some(concat!($($doc),+).trim()))
                    .build()
                    .into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    /// State of an approval.
    ApprovalStatus = State::ALL.map(State::as_str);
    /// State of a call.
    CallStateWord = CallState::ALL.map(CallState::as_str);
    /// How a call ended, or why it will not run.
    CallEndWord = CallEnd::ALL.map(CallEnd::as_str);
    /// Kind of change that a tool makes.
    EffectWord = Effect::ALL.map(Effect::as_str);
    /// Degree of harm that a call may do.
    RiskLevel = Risk::ALL.map(Risk::as_str);
    /// Surface from which a call can be approved, from the weakest to the strongest.
    SurfaceWord = Assurance::ALL.map(Assurance::as_str);
    /// Order in which the approved calls may be started: one after the other as proposed, or any.
    OrderWord = [Order::Given, Order::Any].map(Order::as_str);
    /// Ruling on a call.
    RulingWord = ["pass", "held", "forbidden", "passed_before", "confirmed"];
    /// Status of a ruling.
    RulingStatus = CallState::ALL
        .map(CallState::as_str)
        .into_iter()
        .chain(["pending_confirmation", "not_sent"]);
    /// How a tool's run ended.
    OutcomeWord = OUTCOMES;
    /// Status of an approval in the simple view.
    SimpleStatus = ["pending", "approved", "rejected", "expired"];
    /// Code of an error.
    ErrorCode = ERROR_CODES.iter().copied();
}

/// Outcomes that a host reports.
pub const OUTCOMES: [&str; 4] = ["succeeded", "failed", "not_sent", "unknown"];

/// Codes of all errors of the API.
pub const ERROR_CODES: &[&str] = &[
    "already_decided",
    "already_endorsed",
    "bad_choices",
    "bad_edit",
    "bad_request",
    "call_count",
    "channel_taken",
    "claim_too_long",
    "concealed",
    "cross_site",
    "denied_lately",
    "earlier_first",
    "edit_not_alone",
    "exists",
    "expired",
    "forbidden",
    "four_eyes",
    "header_twice",
    "in_doubt",
    "incomplete",
    "internal",
    "key_reused",
    "no_answer",
    "no_idempotency_key",
    "no_undo",
    "not_acceptable",
    "not_allowed",
    "not_as_shown",
    "not_asked",
    "not_found",
    "not_json",
    "not_looked_at",
    "not_your_permit",
    "nothing_to_undo",
    "refused",
    "runs_elsewhere",
    "seal",
    "stale",
    "start_within_too_long",
    "stopping",
    "store_busy",
    "store_full",
    "store_stopped",
    "store_unavailable",
    "superseded",
    "surface_too_weak",
    "too_fast",
    "too_large",
    "too_many",
    "too_many_pending",
    "too_slow",
    "ttl_too_long",
    "two_hosts",
    "unauthorized",
    "unclear",
    "unknown_host",
    "unknown_parameter",
    "withdrawn",
    "wrong_method",
    "wrong_scope",
    "wrong_state",
];
