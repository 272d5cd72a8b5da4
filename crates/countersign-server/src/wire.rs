//! Request bodies, query parameters and some responses of the API. Most responses are in `view`.
//!
//! INVARIANT: arguments are kept as raw JSON, byte for byte. Unknown fields are rejected, so that a misspelt one is not
//! silently ignored.

use std::borrow::Cow;

use countersign::provenance::Message;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::object;
use crate::view::{ApprovalView, Moment, WorkingFolderView};

/// A name: no control characters, at most 256 others.
#[derive(ToSchema)]
#[schema(
    min_length = 1,
    max_length = 256,
    pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$"
)]
pub struct Name(#[expect(dead_code, reason = "only its description is used")] String);

/// The same key again is the same request.
#[derive(ToSchema)]
#[schema(pattern = "^[!-~]{1,256}$")]
pub struct IdempotencyKey(#[expect(dead_code, reason = "only its description is used")] String);

/// The calls of one agent turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit {
    /// The calls, in the order in which they are to run; 1 to 100.
    #[schema(min_items = 1, max_items = 100)]
    #[serde(deserialize_with = "object::list")]
    pub calls: Vec<SubmitCall>,
    /// The conversation; a new proposal there takes the place of the pending one.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// The agent's run.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// The agent's session.
    #[schema(value_type = Option<Name>)]
    pub session: Option<String>,
    /// The agent's own words, shown apart as its claim.
    pub claim: Option<String>,
    /// What was said before, oldest first, so that a person sees where each value came from; not kept.
    #[schema(value_type = Option<Vec<Said>>)]
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub conversation: Option<Vec<Message>>,
}

/// One message of a conversation.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "only its description is used; see `countersign::provenance::Message`"
)]
pub enum Said {
    /// A person spoke; with `at`, in microseconds since 1970, "tomorrow" means something.
    User {
        /// What they said.
        text: String,
    },
    /// The agent spoke: it is no source.
    Assistant {
        /// What it said.
        text: String,
    },
    /// A tool answered.
    Tool {
        /// The tool.
        name: String,
        /// Its result.
        text: String,
    },
    /// Text that strangers may have written: a web page, a mail's body.
    Outside {
        /// Where it is from.
        name: String,
        /// The text.
        text: String,
    },
}

/// One call of a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitCall {
    /// The tool's name; a call of one that cannot be a tool's name is forbidden.
    pub tool: String,
    /// One JSON object, kept, shown and run byte for byte as it stands here; anything else is forbidden.
    #[schema(value_type = serde_json::Value)]
    pub arguments: Box<RawValue>,
    /// SHA-256 of the tool's whole definition, where the caller knows it.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub definition: Option<String>,
    /// A credential the call will need; kept sealed and erased when the call ends.
    pub secret: Option<String>,
    /// The folder that the host will run the call in: shown to the person, and part of what is approved.
    #[serde(
        default,
        deserialize_with = "object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub working_folder: Option<WorkingFolderView>,
}

/// What became of a turn's calls.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedView {
    /// One ruling per call, in order.
    pub calls: Vec<RulingView>,
    /// The approval that all held calls share.
    pub approval: Option<ApprovalView>,
}

/// What the gate says to one call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulingView {
    /// `pass`, `held` or `forbidden`; `passed_before` for a call that its host runs and that passed before under the same
    /// idempotency key: it must not run again.
    pub ruling: Cow<'static, str>,
    /// `pending_confirmation` for a held call; `succeeded`, `failed`, `not_sent` or `unknown` for one that passed and was
    /// run here; the state on record of one that passed before.
    pub status: Option<Cow<'static, str>>,
    /// The call's id; none for a read that passed. It is the key under which a tool should act once.
    pub id: Option<String>,
    /// The sentence a person will read.
    pub summary: Option<String>,
    /// Why it is forbidden.
    pub reason: Option<String>,
    /// What the host that runs a passed call has to show to `finish`; none for a read.
    pub permit: Option<String>,
    /// After so many milliseconds a passed call that its host runs counts as unknown: do not begin it later than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the tool answered, when the service runs it.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
}

/// Asking for approval outright.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ask {
    /// The agent's run.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// Ignored: the agent is the one the token was made for.
    #[serde(default, rename = "agentName")]
    pub _agent_name: Option<String>,
    /// The tool to be called.
    #[schema(pattern = "^[A-Za-z0-9_./:-]{1,128}$")]
    pub tool_name: String,
    /// Its arguments, byte for byte.
    #[schema(value_type = Option<Object>)]
    pub tool_arguments: Option<Box<RawValue>>,
    /// `low`, `medium`, `high` or `critical`; may raise what the policy says, never lower it.
    #[schema(pattern = "^(low|medium|high|critical)$")]
    pub risk_level: Option<String>,
    /// Why, in the agent's own words; shown apart as its claim.
    pub description: Option<String>,
    /// How long it waits, in milliseconds; may shorten what the policy says, never lengthen it.
    #[schema(value_type = Option<u64>, minimum = 1000, maximum = 2592000000_u64)]
    pub ttl_ms: Option<f64>,
    /// The conversation.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// The agent's session.
    #[schema(value_type = Option<Name>)]
    pub session: Option<String>,
    /// What was said before, oldest first, so that a person sees where each value came from; not kept.
    #[schema(value_type = Option<Vec<Said>>)]
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub conversation: Option<Vec<Message>>,
}

/// A decision.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decide {
    /// Yes or no.
    pub approved: bool,
    /// Your words; the agent is told.
    #[schema(max_length = 4096)]
    pub comment: Option<String>,
    /// Kept as a claim: who decides is whom the token was made for.
    pub decided_by: Option<String>,
    /// The digest of what was shown; a decision about anything else is refused as stale.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub digest: Option<String>,
    /// One choice per call, in order, when they differ. Needs `approved: true`.
    #[serde(default, deserialize_with = "object::maybe_list")]
    pub calls: Option<Vec<DecideCall>>,
}

/// What is decided about one call of a batch.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideCall {
    /// Yes or no.
    pub approved: bool,
    /// Run it with these arguments instead.
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
}

/// How a listing is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// `pending` (the default), `approved`, `denied`, `expired`, `superseded`, `withdrawn`, `passed` or `all`.
    #[param(pattern = "^(pending|approved|denied|rejected|expired|superseded|withdrawn|passed|all)$")]
    pub status: Option<String>,
    /// Only this agent's.
    #[param(value_type = Option<Name>)]
    pub agent_name: Option<String>,
    /// Only those of this conversation.
    #[param(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Only those of this run.
    #[param(value_type = Option<Name>)]
    pub run_id: Option<String>,
    /// Goes on behind the page that gave this as `next`.
    #[param(pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]
    pub cursor: Option<String>,
    /// At most so many, 1 to 500; 50 if not given.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u16>,
    /// Add what deserves a second look about those that are pending, as it is for one.
    pub concerns: Option<bool>,
}

/// How one approval is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Answer as soon as it is decided, or after this long: `30s`, `2m`.
    #[param(pattern = "^([0-9]{1,6}|([0-9]{1,6}(ms|s|m|h|d))+)$")]
    pub wait: Option<String>,
    /// `decided` (the default), or `finished`: its calls have also run, or never will.
    #[param(pattern = "^(decided|finished)$")]
    pub wait_for: Option<String>,
    /// Add what happened to it, event by event.
    pub events: Option<bool>,
    /// Add what deserves a second look, while it is pending.
    pub concerns: Option<bool>,
}

/// How a decision is answered.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DecideQuery {
    /// `finished`: answer once the service has run what was released.
    #[param(pattern = "^(decided|finished)$")]
    pub wait_for: Option<String>,
}

/// Why something is taken back.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WithdrawBody {
    /// In a few words; what is beyond 200 characters is left out.
    pub reason: Option<String>,
}

/// How a call ended whose outcome was unknown.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReconcileBody {
    /// Whether it did what it was to do.
    pub succeeded: bool,
    /// How they know.
    pub note: Option<String>,
}

/// The permit to run one call, once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermitView {
    /// The call; also the idempotency key for the tool.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The exact arguments.
    #[schema(value_type = Object)]
    pub arguments: Box<RawValue>,
    /// The same bytes in hexadecimal, for whose JSON library would rebuild them.
    pub arguments_hex: String,
    /// Show this to finish the call.
    pub permit: String,
    /// The credential the call came with.
    pub secret: Option<String>,
    /// After so many milliseconds the outcome counts as unknown.
    pub timeout_ms: u64,
    /// When the start was recorded, on the store's clock.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Moment>,
    /// When the call is given up, on the store's clock. Do not run what is late.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Moment>,
}

/// How a call ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finish {
    /// The permit that `start` gave.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub permit: String,
    /// `succeeded`, `failed`, `not_sent` (the tool was not reached, so nothing ran) or `unknown`.
    #[schema(pattern = "^(succeeded|failed|not_sent|unknown)$")]
    pub outcome: String,
    /// What the tool answered: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
}

/// Where an undo is asked for.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UndoBody {
    /// The conversation to ask in.
    #[schema(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// The agent's run.
    #[schema(value_type = Option<Name>)]
    pub run_id: Option<String>,
}

/// Which events are streamed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only of this approval.
    pub approval: Option<String>,
    /// Only of this agent's approvals.
    #[param(value_type = Option<Name>)]
    pub agent_name: Option<String>,
    /// Only of this conversation's approvals.
    #[param(value_type = Option<Name>)]
    pub channel: Option<String>,
    /// Only events of this kind, `approved` say; several with commas.
    pub what: Option<String>,
    /// Start behind this event's id, as `Last-Event-ID` does; `0` for everything there ever was.
    pub after: Option<String>,
}

/// A message in a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyBody {
    /// What was written.
    pub text: String,
    /// Who wrote it, as the adapter verified: the name of an account here.
    #[schema(value_type = Name)]
    pub sender: String,
    /// The message's id in its channel: the same one twice counts once.
    #[schema(value_type = Name)]
    pub message_id: String,
    /// The sender's language, `es` say.
    pub language: Option<String>,
    /// `written` (the default), `edited`, `forwarded` or `program`; only what was written just now decides anything.
    #[schema(pattern = "^(written|edited|forwarded|program)$")]
    pub origin: Option<String>,
    /// The last message of the channel's own that stood there when this one was sent, or that it answers.
    #[schema(value_type = Option<Name>)]
    pub after: Option<String>,
    /// The longest message of this chat, as for `pending`: `show` keeps to it.
    #[schema(value_type = Option<usize>, minimum = 400, maximum = 1000000)]
    pub limit: Option<f64>,
}

/// A pressed button.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Press {
    /// What the button sends back: `approve` or `deny` of a card.
    pub payload: String,
    /// Who pressed it, as the adapter verified: the name of an account here.
    #[schema(value_type = Name)]
    pub sender: String,
    /// The same press twice counts once.
    #[schema(value_type = Option<Name>)]
    pub message_id: Option<String>,
    /// The sender's language.
    pub language: Option<String>,
}

/// What stands in a conversation now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shown {
    /// The id of the message that was posted.
    #[schema(value_type = Name)]
    pub message_id: String,
    /// The digest of the card it showed, all of it, as its `digest` said; nothing when it was something else or part of a
    /// card.
    pub digest: Option<String>,
    /// The language it was shown in.
    pub language: Option<String>,
}

/// In which language a card is asked for, and how long it may be.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PendingQuery {
    /// The person's language, `es` say.
    pub language: Option<String>,
    /// The longest message of this chat, in UTF-16 code units (4000 unless it is given, 400 at least). A card that is
    /// longer comes in part: without `digest` and `approve`, because it cannot be approved there.
    #[param(value_type = Option<usize>, minimum = 400, maximum = 1000000)]
    pub limit: Option<f64>,
}

/// How messages are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TranscriptQuery {
    /// `anthropic` (the default) or `openai`.
    #[param(pattern = "^(anthropic|openai)$")]
    pub format: Option<String>,
}

/// What came of a message or a button.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeardView {
    /// `yes`, `no` or `other`; nothing when it was not read.
    pub reading: Option<&'static str>,
    /// Which words decided.
    pub why: Option<String>,
    /// `approved`, `denied`, `endorsed`, `cancelled`, `kept`, `show_again`, `incomplete`, `refused` or
    /// `nothing`. `incomplete`: part of the card is not shown here, so nothing was decided; `say` says where all of it is.
    pub happened: &'static str,
    /// What the channel says now.
    pub say: Option<String>,
    /// The card to show now.
    pub show: Option<PromptView>,
    /// Whether the message goes on to the agent.
    pub go_on: bool,
    /// The approval as it is now.
    pub approval: Option<ApprovalView>,
}

/// The pending question, if there is one.
#[derive(Debug, Serialize, ToSchema)]
pub struct PendingView {
    /// The card.
    pub pending: Option<PromptView>,
}

/// A card for a conversation: its text and two buttons. The text is posted as it is: every call, value and note is in it,
/// or it says how much is missing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptView {
    /// The approval it asks about.
    pub approval: String,
    /// The digest of what it shows, for `shown`; nothing when part of the card is missing.
    pub digest: Option<String>,
    /// Whether nothing is missing. Otherwise it can be denied here, and approved where all of it is shown.
    pub whole: bool,
    /// What would happen.
    pub summary: String,
    /// How far its values are the person's, and which are not; nothing when no conversation was given. Part of `text`.
    pub origins: Option<String>,
    /// The card and the question, to be posted as it is.
    pub text: String,
    /// What the approving button says.
    pub yes: String,
    /// What the denying button says.
    pub no: String,
    /// What the approving button sends back; only for tokens with the scope `reply` or `chat`. Absent when part of the card
    /// is missing: then there is no such button.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// What the denying button sends back; only for tokens with the scope `reply` or `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<String>,
    /// From then on nobody can answer.
    pub expires_at: String,
}

/// What every error looks like.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorView {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong. A few errors carry fields more, such as `decidedBy`, `decidedAt` and `supersededBy`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// A word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do now.
    pub hint: String,
}
