//! Request bodies, query parameters and some responses of the API. Most responses are in `view`.
//!
//! INVARIANT: arguments are kept as raw JSON, byte for byte. Unknown fields are rejected, so that a misspelt one is not
//! silently ignored.

use std::borrow::Cow;

use countersign::approval::Order;
use countersign::provenance::Message;
use countersign::state::CallState;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::object;
use crate::view::{ApprovalView, CallEnd, Moment, View, WorkingFolderView, words};

/// A name of at most 256 characters, without control characters.
#[derive(ToSchema)]
#[schema(
    min_length = 1,
    max_length = 256,
    pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$"
)]
pub struct Name(#[expect(dead_code, reason = "only its description is used")] String);

/// Idempotency key: a text chosen by the client. Repeating a request with the same key has no further effect.
#[derive(ToSchema)]
#[schema(pattern = "^[!-~]{1,256}$")]
pub struct IdempotencyKey(#[expect(dead_code, reason = "only its description is used")] String);

/// Calls of one agent turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit {
    /// Calls in the order in which they are to run; 1 to 100.
    #[schema(min_items = 1, max_items = 100)]
    #[serde(deserialize_with = "object::list")]
    pub calls: Vec<SubmitCall>,
    /// Conversation to which the calls belong. A new proposal in a conversation replaces the pending one. Optional.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Name of the agent's run, by which its approvals can be listed. Optional.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// Name of the agent's session, recorded with the approval. Optional.
    #[schema(value_type = Option<Name>)]
    pub session: Option<String>,
    /// The agent's explanation, at most 8 KiB, shown separately as its claim. Optional.
    pub claim: Option<String>,
    /// Earlier messages, oldest first. Used to show a person where each value came from; not stored. If absent, the
    /// origin of all values is unknown.
    #[schema(value_type = Option<Vec<ConversationMessage>>)]
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub conversation: Option<Vec<Message>>,
    /// Order in which the approved calls may be started: `given` (the default), one after the other; or `any`, also at
    /// the same time, and one that fails does not stop the others. Shown to the person, and part of what is approved.
    #[schema(value_type = Option<words::OrderWord>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// If true, returns the rulings only: nothing is recorded, proposed, read or run, and `approval` is null. An
    /// idempotency key then has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Time until the approval expires, in milliseconds. Refused if it is longer than the policy's limit.
    #[schema(value_type = Option<u64>, minimum = 1000, maximum = 2592000000_u64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<f64>,
    /// Time after the decision in which an approved call can be started, in milliseconds. Refused if it is longer than
    /// the policy's `start_within`.
    #[schema(value_type = Option<u64>, minimum = 1000, maximum = 2592000000_u64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<f64>,
}

/// Message of a conversation.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
#[schema(as = Said)]
#[expect(
    dead_code,
    reason = "only its description is used; see `countersign::provenance::Message`"
)]
pub enum ConversationMessage {
    /// Message by a person. `at` is its time in microseconds since 1970, needed to resolve words such as "tomorrow".
    User {
        /// Text of the message.
        text: String,
    },
    /// Message by the agent. Never counts as the source of a value.
    Assistant {
        /// Text of the message.
        text: String,
    },
    /// Result of a tool.
    Tool {
        /// Name of the tool.
        name: String,
        /// Text of the result.
        text: String,
    },
    /// Text that strangers may have written, such as a web page or the body of a mail.
    Outside {
        /// Name of the source.
        name: String,
        /// The text itself.
        text: String,
    },
}

/// Call of a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitCall {
    /// Name of the tool. A call whose tool name is invalid is forbidden.
    pub tool: String,
    /// Arguments: a JSON object, stored, shown and run byte for byte as sent. Anything else is forbidden. Send either
    /// `arguments` or `argumentsText`.
    #[schema(value_type = serde_json::Value)]
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub arguments: Option<Box<RawValue>>,
    /// Arguments as text that is a JSON object, used byte for byte, as models write it. In place of `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_text: Option<String>,
    /// SHA-256 of the tool's whole definition, if the caller knows it.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub definition: Option<String>,
    /// Credential that the tool needs for the call, if any. Stored encrypted, and erased when the call ends.
    pub secret: Option<String>,
    /// Folder in which the host will run the call, if the host knows it. Shown to the person, and part of what is
    /// approved.
    #[serde(
        default,
        deserialize_with = "object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub working_folder: Option<WorkingFolderView>,
}

/// Deserializes a value that may be null itself, which is not the same as an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Result of submitting the calls of a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedView {
    /// Rulings, one per call, in order.
    pub calls: Vec<RulingView>,
    /// Approval that all held calls share. Null if no call is held.
    pub approval: Option<ApprovalView>,
}

/// Ruling on one call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulingView {
    /// `pass`, `held` or `forbidden`. `passed_before` if the host runs the call and it already passed under the same
    /// idempotency key; the host must not run it again. `confirmed` if the call has the flag `confirmed: true` and a
    /// person has approved the same call; the caller must not run it.
    #[schema(value_type = words::RulingWord)]
    pub ruling: Cow<'static, str>,
    /// `pending_confirmation` for a held call that waits for a person; `succeeded`, `failed`, `not_sent` or `unknown` for
    /// a call that passed and was run by the service; the recorded state for a call that was held, passed or confirmed
    /// before.
    #[schema(value_type = Option<words::RulingStatus>)]
    pub status: Option<Cow<'static, str>>,
    /// Present state of the call. Null for a read that its host runs, and in a dry run.
    #[serde(default)]
    #[schema(value_type = Option<words::CallStateWord>, required = true)]
    pub state: Option<CallState>,
    /// How the call ended, or why it will not run. Null while it is held, released or running.
    #[serde(default)]
    #[schema(value_type = Option<words::CallEndWord>, required = true)]
    pub end: Option<CallEnd>,
    /// Id of the call, for `start` and `finish`: the same as `id`.
    #[serde(default)]
    #[schema(required = true)]
    pub call_id: Option<String>,
    /// Id of the call, and the key by which the tool should recognise a repeated call. Null for a read that passed.
    pub id: Option<String>,
    /// Summary that a person will read. Null for a call that passed or is forbidden.
    pub summary: Option<String>,
    /// Reason why the call is forbidden; in a dry run, also the policy's notes on a call that would be held. Null for any
    /// other ruling.
    pub reason: Option<String>,
    /// Permit that the host of a passed call has to send to `finish`. Null for a read.
    pub permit: Option<String>,
    /// Time limit, in milliseconds, of a passed call that its host runs. Do not start the call later than that: its
    /// outcome is then recorded as unknown. Null for a read and for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Result of the tool, if the service runs it.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// True for a held call: a person has to confirm it. Absent for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// Question for the person about what a held call would do. Absent for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The same content as `message`, as a list without a question. Absent for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<String>>,
}

/// Explicit request for approval of one call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ask {
    /// Name of the agent's run, by which its approvals can be listed. Optional.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// Ignored: the token determines the agent.
    #[serde(default, rename = "agentName")]
    pub _agent_name: Option<String>,
    /// Tool to call.
    #[schema(pattern = "^[A-Za-z0-9_./:-]{1,128}$")]
    pub tool_name: String,
    /// Arguments of the call, byte for byte. Without them, a person is asked for permission to use the tool, and
    /// nothing runs when that is approved.
    #[schema(value_type = Option<Object>)]
    pub tool_arguments: Option<Box<RawValue>>,
    /// Risk that the agent sees: `low`, `medium`, `high` or `critical`. Can raise the policy's risk level, but not
    /// lower it. If absent, the policy's level is used.
    #[schema(value_type = Option<words::RiskLevel>)]
    pub risk_level: Option<String>,
    /// The agent's reason for the call, shown separately as its claim. Optional.
    pub description: Option<String>,
    /// Time until the approval expires, in milliseconds. Refused if it is longer than the policy's limit; if absent,
    /// that limit is used.
    #[schema(value_type = Option<u64>, minimum = 1000, maximum = 2592000000_u64)]
    pub ttl_ms: Option<f64>,
    /// Conversation to which the call belongs. A new proposal in a conversation replaces the pending one. Optional.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Name of the agent's session, recorded with the approval. Optional.
    #[schema(value_type = Option<Name>)]
    pub session: Option<String>,
    /// Earlier messages, oldest first. Used to show a person where each value came from; not stored. If absent, the
    /// origin of all values is unknown.
    #[schema(value_type = Option<Vec<ConversationMessage>>)]
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub conversation: Option<Vec<Message>>,
}

/// A person's decision on an approval.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decide {
    /// True to approve, false to deny.
    pub approved: bool,
    /// Comment on the decision, passed on to the agent. Optional.
    #[schema(max_length = 4096)]
    pub comment: Option<String>,
    /// Claimed name of the decider, if any. Recorded as a claim only: the token determines the decider.
    pub decided_by: Option<String>,
    /// Digest of the card that the person saw. If the approval has another digest, the decision is refused as stale. If
    /// absent, the current digest is assumed.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub digest: Option<String>,
    /// Choices, one per call, in order, if they differ. Requires `approved: true`.
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub calls: Option<Vec<DecideCall>>,
}

/// Decision on one call of a batch.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideCall {
    /// True to approve, false to deny.
    pub approved: bool,
    /// Edited arguments to run the call with. If absent, the call runs as proposed.
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
}

/// Query parameters of the list of approvals.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// `pending`, `approved`, `denied`, `expired`, `superseded`, `withdrawn`, `passed` or `all`. The default is `all` with
    /// `runId`, and `pending` without. In the simple view: `pending`, `approved`, `rejected`, `expired` or `all`.
    #[param(pattern = "^(pending|approved|denied|rejected|expired|superseded|withdrawn|passed|all)$")]
    pub status: Option<String>,
    /// Only approvals of this agent.
    #[param(value_type = Option<Name>)]
    pub agent_name: Option<String>,
    /// Only approvals in this conversation.
    #[param(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Only approvals of this run.
    #[param(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// Cursor: the `next` of the previous page. Absent for the first page.
    #[param(pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    pub cursor: Option<String>,
    /// Maximum number of approvals, 1 to 500; default 50.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u16>,
    /// If true, adds the concerns about pending approvals. Only in the full view.
    pub concerns: Option<bool>,
    /// `full` (the default), or `simple`: the fields that clients of other approval services read.
    #[param(inline)]
    pub view: Option<View>,
}

/// Query parameters for reading one approval.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Maximum time to wait for the decision, such as `30s` or `2m`. Without it, the response is immediate.
    #[param(pattern = "^([0-9]{1,6}|([0-9]{1,6}(ms|s|m|h|d))+)$")]
    pub wait: Option<String>,
    /// `decided` (the default), or `finished`: also wait until all calls have run or can no longer run. `decision` and
    /// `end` mean the same.
    #[param(pattern = "^(decided|finished|decision|end)$")]
    pub wait_for: Option<String>,
    /// If true, adds the approval's events. Only in the full view.
    pub events: Option<bool>,
    /// If true, adds the concerns about a pending approval. Only in the full view.
    pub concerns: Option<bool>,
    /// `full` (the default), or `simple`: the fields that clients of other approval services read.
    #[param(inline)]
    pub view: Option<View>,
}

/// Query parameters of an explicit request for approval.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AskQuery {
    /// View of the approval in the response: `full` (the default) or `simple`.
    #[param(inline)]
    pub view: Option<View>,
}

/// Query parameters of a decision.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DecideQuery {
    /// When to respond: `decided` (the default) as soon as the decision is recorded, `finished` only after the service
    /// has run the released calls. `decision` and `end` mean the same.
    #[param(pattern = "^(decided|finished|decision|end)$")]
    pub wait_for: Option<String>,
    /// View of the approval in the response: `full` (the default) or `simple`.
    #[param(inline)]
    pub view: Option<View>,
}

/// Withdrawal of an approval.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WithdrawBody {
    /// Short reason, cut off after 200 characters. Optional.
    pub reason: Option<String>,
}

/// A person's statement on how a call with an unknown outcome ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReconcileBody {
    /// True if the call had its effect.
    pub succeeded: bool,
    /// Note on how the person found out the outcome. Optional.
    pub note: Option<String>,
}

/// Permit to run one call, once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermitView {
    /// Id of the call, and its idempotency key for the tool.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Exact arguments.
    #[schema(value_type = Object)]
    pub arguments: Box<RawValue>,
    /// Exact arguments as text, byte for byte.
    #[serde(default)]
    #[schema(required = true)]
    pub arguments_text: String,
    /// Exact arguments in hexadecimal, for JSON libraries that do not keep the original bytes.
    pub arguments_hex: String,
    /// Token to send to `finish`.
    pub permit: String,
    /// Credential that was submitted with the call, if there was one.
    pub secret: Option<String>,
    /// Time limit in milliseconds. Afterwards the outcome is recorded as unknown. If the start is repeated with its
    /// idempotency key, the time that is left.
    pub timeout_ms: u64,
    /// Time of the start, on the store's clock.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Moment>,
    /// Time, on the store's clock, at which the outcome is recorded as unknown. Do not run the call after that.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Moment>,
}

/// Outcome of a call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finish {
    /// Permit from the response to `start`.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub permit: String,
    /// `succeeded`, `failed`, `not_sent` (the tool was not reached, so nothing ran) or `unknown`.
    #[schema(value_type = words::OutcomeWord)]
    pub outcome: String,
    /// Result of the tool: any JSON. A result of more than 256 KiB is replaced by an object with its size, its hash and
    /// its beginning: `{"truncated": true, "bytes": …, "sha256": …, "head": …}`.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Result of the tool as text, in place of `result`. It is recorded as a JSON string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_text: Option<String>,
}

/// Conversation and run in which to propose an undo.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UndoBody {
    /// Conversation in which to show the approval. Optional.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Name of the agent's run, recorded with the approval. Optional.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
}

/// Query parameters of the event stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events of this approval.
    pub approval: Option<String>,
    /// Only events of this agent's approvals.
    #[param(value_type = Option<Name>)]
    pub agent_name: Option<String>,
    /// Only events of approvals in this conversation.
    #[param(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Only events of these kinds, separated by commas, such as `approved,denied`.
    pub what: Option<String>,
    /// Cursor: start after the event with this id, as the header `Last-Event-ID` does; `0` for all events. Without
    /// both, only new events are sent.
    pub after: Option<String>,
}

/// Message that a person wrote in a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyBody {
    /// Text of the message.
    pub text: String,
    /// Sender, whom the chat adapter has verified: the name of an account, or an id such as `telegram:123456` that is
    /// linked to one.
    #[schema(value_type = Name)]
    pub sender: String,
    /// Id of the message in its channel. A repeated id counts once.
    #[schema(value_type = Name)]
    pub message_id: String,
    /// Language of the sender, such as `es`, if known. If absent, the language of the card is assumed.
    pub language: Option<String>,
    /// `written` (the default), `edited`, `forwarded` or `program`. Only a `written` message can decide.
    #[schema(pattern = "^(written|edited|forwarded|program)$")]
    pub origin: Option<String>,
    /// Id of the last message that the adapter had posted when this one was sent, or of the message that this one
    /// replies to. If absent, a yes decides nothing.
    #[schema(value_type = Option<Name>)]
    pub after: Option<String>,
    /// Maximum message length of this chat in UTF-16 code units, for the card in `show`; default 4000, minimum 400.
    #[schema(value_type = Option<usize>, minimum = 400, maximum = 1000000)]
    pub limit: Option<f64>,
}

/// Pressed button.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Press {
    /// Payload of the button: `approve` or `deny` of a card.
    pub payload: String,
    /// Person who pressed the button, whom the chat adapter has verified: the name of an account, or an id such as
    /// `telegram:123456` that is linked to one.
    #[schema(value_type = Name)]
    pub sender: String,
    /// Id of the button press. A repeated id counts once.
    #[schema(value_type = Option<Name>)]
    pub message_id: Option<String>,
    /// Language of the sender, such as `es`, if known.
    pub language: Option<String>,
}

/// Message that was posted in a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Shown)]
pub struct PostedMessage {
    /// Id of the posted message.
    #[schema(value_type = Name)]
    pub message_id: String,
    /// The card's `digest`, if the message shows the whole card. Omit it for any other message and for part of a card.
    pub digest: Option<String>,
    /// Language of the message, such as `es`. Assumed for replies to the card. If absent, the language in which the
    /// card was read is used.
    pub language: Option<String>,
}

/// Query parameters for reading the pending card.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PendingQuery {
    /// Language of the person, such as `es`, in which the card is to be written.
    pub language: Option<String>,
    /// Maximum message length of this chat in UTF-16 code units; default 4000, minimum 400. A longer card is cut off
    /// and comes without `digest` and `approve`, because it cannot be approved in the chat.
    #[param(value_type = Option<usize>, minimum = 400, maximum = 1000000)]
    pub limit: Option<f64>,
}

/// Query parameters of a transcript.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TranscriptQuery {
    /// `anthropic` (the default) or `openai`.
    #[param(pattern = "^(anthropic|openai)$")]
    pub format: Option<String>,
}

/// Result of a message or a pressed button.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeardView {
    /// Interpretation of the message: `yes`, `no`, `part` (a yes to some of the calls) or `other`. Null if the message
    /// was not interpreted.
    pub reading: Option<&'static str>,
    /// Explanation of the interpretation: the words that determined it. Null if the message was not interpreted.
    pub why: Option<String>,
    /// `approved`, `denied`, `endorsed`, `cancelled`, `kept`, `show_again`, `incomplete`, `refused` or `nothing`.
    /// `incomplete` means that nothing was decided because the chat shows only part of the card; `say` tells where to
    /// see all of it.
    pub happened: &'static str,
    /// Text to post in the channel now. Null if there is none.
    pub say: Option<String>,
    /// Card to post in the channel now. Null if there is none.
    pub show: Option<PromptView>,
    /// True if the message has to be passed on to the agent.
    pub go_on: bool,
    /// Approval in its current state. Null if the message did not concern an approval, or was refused.
    pub approval: Option<ApprovalView>,
}

/// Pending card of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct PendingView {
    /// The card, if an approval is pending.
    pub pending: Option<PromptView>,
}

/// Card for a conversation: a text and two buttons. Post the text unchanged: it contains every call, value and note, or
/// says how much is missing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptView {
    /// Id of the approval.
    pub approval: String,
    /// Digest to send to `shown`. Null if part of the card is missing.
    pub digest: Option<String>,
    /// True if no part of the card is missing. Otherwise the card can be denied in the chat, but approved only where
    /// all of it is shown.
    pub whole: bool,
    /// Summary of the calls.
    pub summary: String,
    /// Summary of which values come from the person and which do not. Null without a conversation. Part of `text`.
    pub origins: Option<String>,
    /// Card and question, to be posted unchanged.
    pub text: String,
    /// Label of the approve button.
    pub yes: String,
    /// Label of the deny button.
    pub no: String,
    /// Payload of the approve button, only for tokens with the scope `reply` or `chat`. Absent if part of the card is
    /// missing; then show no such button.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// Payload of the deny button, only for tokens with the scope `reply` or `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<String>,
    /// Time after which the card can no longer be answered.
    pub expires_at: String,
}

/// Body of every error response.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorView {
    /// Details of the error.
    pub error: ErrorBody,
}

/// Details of an error. Some errors have further fields, such as `decidedBy`, `decidedAt` and `supersededBy`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// Error code, for programs. Later versions may have further codes.
    #[schema(value_type = words::ErrorCode)]
    pub code: String,
    /// Error message, for people.
    pub message: String,
    /// Advice on what to do next.
    pub hint: String,
    /// State of the call, for errors about a call that is in the wrong state.
    #[schema(value_type = Option<words::CallStateWord>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<CallState>,
    /// How the call ended, or why it will not run, for the same errors. Null while it is held, released or running.
    #[schema(value_type = Option<words::CallEndWord>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<CallEnd>,
}
