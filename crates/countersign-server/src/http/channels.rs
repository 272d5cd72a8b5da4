//! `/v1/channels`: chat messages and button presses from people, and the transcript for the model.
//!
//! Called by chat adapters. A token with the scope `reply` asserts that its holder has verified who sent a message. The
//! sender is the name of an account of this service, or an id that is linked to one; the account's groups apply to
//! decisions (H07).

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use countersign::approval::SharedApproval;
use countersign::card::WholeCard;
use countersign::conversation::{Conversations, Message, MessageResponse, Origin};
use countersign::decision::{Decider, Refusal, Surface};
use countersign::display::clip;
use countersign::gate::{ReplyOutcome, Resolved};
use countersign::id::{Channel, Key, Person};
use countersign::prompt::{Prompt, SHORTEST_LIMIT};
use countersign::reply::Reading;
use countersign::state::State as ApprovalState;
use countersign::store::Filter;
use countersign::transcript;

use crate::access::{Caller, Scope, SenderLink};
use crate::service::is_visible;
use crate::view;
use crate::web::{Answer, ApiError, App, Authorized, Body, Id, Json, PreferredLanguages, QueryParams, scope};
use crate::wire::{
    ErrorView, HeardView, PendingQuery, PendingView, PostedMessage, Press, PromptView, ReplyBody,
    TranscriptQuery,
};

/// Maximum number of approvals in a transcript.
const MOST_TOLD: usize = 100;
/// Size of arguments and results, in bytes, at which a transcript ends early.
const MOST_BYTES_TOLD: usize = 4 * 1024 * 1024;
/// Maximum number of characters of an unknown sender's name in a message.
const LONGEST_SHOWN_SENDER: usize = 80;
/// Hint for an unknown sender.
const UNKNOWN_SENDER: &str =
    "ask an operator to link this sender to your account (`POST /v1/people/{name}/senders`)";

/// Handle a person's message
///
/// Checks for a pending approval first: a yes approves it and runs its calls, a no denies it, and anything else cancels
/// or keeps it, depending on the policy. Post `say` and `show` in the channel; with `goOn`, pass the message on to the
/// agent. A yes counts only for a card that was shown completely. A message that is sent again under the same
/// `messageId` has no further effect: the answer says again what came of it, with `goOn` false.
#[utoipa::path(post, path = "/v1/channels/{channel}/replies", tag = "channels", request_body = ReplyBody,
    params(("channel" = String, Path, description = "the conversation")),
    security(("token" = ["reply"])),
    responses((status = 200, body = HeardView, description = "how the message was read, and what to do now"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn reply(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Reply>,
    Id(channel): Id<Channel>,
    Body(body): Body<ReplyBody>,
) -> Answer<Json<HeardView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let sender = sender(&app, &caller, body.sender, Surface::Text).await?;
    let language = body.language.clone();
    let message = Message {
        tenant: caller.tenant.clone(),
        channel,
        sender: sender.decider.clone(),
        text: body.text,
        language: body.language,
        id: key(body.message_id)?,
        origin: origin(body.origin.as_deref())?,
        after: body.after.map(key).transpose()?,
    };
    let said = within(&app, body.limit)?.hear(message).await?;
    match &said.heard {
        _ if said.is_repeated => {}
        ReplyOutcome::Decided(resolved) => app.metrics.answered(resolved.approval.as_deref(), None),
        ReplyOutcome::Refused(refusal) => app.metrics.answered(None, Some(refusal)),
        _ => {}
    }
    let (happened, approval) = match &said.heard {
        ReplyOutcome::PassOn => ("nothing", None),
        ReplyOutcome::Decided(resolved) => (decided(resolved), resolved.approval.clone()),
        ReplyOutcome::Cancelled(approval) => ("cancelled", Some(approval.clone())),
        ReplyOutcome::Kept(approval) => ("kept", Some(approval.clone())),
        ReplyOutcome::ShowAgain(approval) => ("show_again", Some(approval.clone())),
        ReplyOutcome::Incomplete(approval) => ("incomplete", Some(approval.clone())),
        ReplyOutcome::Refused(_) => ("refused", None),
    };
    let not_counted = not_counted(&app, &said, &sender, language.as_deref());
    let reading = said.read.as_ref();
    Ok(Json(HeardView {
        reading: reading.map(|read| read.reading.as_str()),
        why: reading.map(|read| read.why.to_string()),
        happened,
        say: said.say.or(not_counted),
        show: said.show.as_ref().map(prompt_with_buttons),
        go_on: said.forward_to_agent,
        approval: shown(&app, approval).await?,
    }))
}

/// Handle a pressed button
///
/// The button's payload is bound to its channel and its card, whatever was shown since. Without a `language`, `say` is in
/// the language of the card. A press that is sent again under the same `messageId` gets the same answer.
#[utoipa::path(post, path = "/v1/channels/{channel}/buttons", tag = "channels", request_body = Press,
    params(("channel" = String, Path, description = "the conversation")),
    security(("token" = ["reply"])),
    responses((status = 200, body = HeardView, description = "how the message was read, and what to do now"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn press(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Reply>,
    Id(channel): Id<Channel>,
    Body(body): Body<Press>,
) -> Answer<Json<HeardView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let sender = sender(&app, &caller, body.sender, Surface::Button).await?;
    let key = body.message_id.map(key).transpose()?;
    let pressed = app
        .conversations
        .press(&caller.tenant, &channel, &body.payload, sender.decider, key);
    let resolved = pressed.await?.ok_or_else(|| ApiError::not_found("button"))?;
    app.metrics
        .answered(resolved.approval.as_deref(), resolved.refusal.as_ref());
    if let Some(refusal) = resolved.refusal {
        let is_not_allowed = matches!(refusal, Refusal::NotAllowed { .. });
        let mut error = ApiError::from(refusal);
        if let Some(name) = sender.unknown.filter(|_| is_not_allowed) {
            error.message = format!("this service does not know who `{name}` is");
            error.hint = UNKNOWN_SENDER.to_owned();
        }
        return Err(error);
    }
    let language = match (body.language, &resolved.approval) {
        (None, Some(approval)) => {
            let conversations = &app.conversations;
            conversations
                .card_language(&caller.tenant, &channel, approval)
                .await?
        }
        (language, _) => language,
    };
    let say = app.conversations.outcome(&resolved, language.as_deref());
    Ok(Json(HeardView {
        reading: None,
        why: None,
        happened: decided(&resolved),
        say: Some(say),
        show: None,
        go_on: false,
        approval: shown(&app, resolved.approval).await?,
    }))
}

/// Report the message that was posted
///
/// Call this after posting a card, with the id of the message. A yes counts only for the card that was shown last, and
/// only if all of it was shown.
#[utoipa::path(post, path = "/v1/channels/{channel}/shown", tag = "channels", request_body = PostedMessage,
    params(("channel" = String, Path, description = "the conversation")),
    security(("token" = ["reply"])),
    responses((status = 200, body = PendingView, description = "the pending card, if there is one"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn say_shown(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Reply>,
    Id(channel): Id<Channel>,
    Body(body): Body<PostedMessage>,
) -> Answer<Json<PendingView>> {
    let message = key(body.message_id)?;
    let pending = app.store().pending_in(&caller.tenant, &channel).await?;
    let is_meant = |approval: &SharedApproval| body.digest.as_deref() == Some(&approval.digest.to_string());
    let card = pending.filter(is_meant);
    match &card {
        Some(approval) => {
            // Clients get the digest only with a complete card; see `prompt_view`.
            let whole = WholeCard::shown(approval);
            let shown = app.conversations.shown_whole(
                &caller.tenant,
                &channel,
                &whole,
                body.language.as_deref(),
                message,
            );
            shown.await?;
        }
        // The message is no card, or its card is no longer pending. Either way the previous card is no longer the last
        // message.
        None => app.conversations.said(&caller.tenant, &channel).await?,
    }
    Ok(Json(PendingView {
        pending: match card {
            Some(approval) => {
                let conversations = &app.conversations;
                let language = conversations
                    .card_language(&caller.tenant, &channel, &approval)
                    .await?;
                let prompt = conversations.prompt(&approval, language.as_deref()).await?;
                Some(prompt_with_buttons(&prompt))
            }
            None => None,
        },
    }))
}

/// Read the pending card of a conversation
///
/// The buttons' payloads are only for tokens with the scope `reply`. If such a token fetches the card in a `language`,
/// replies are read in it, unless `shown` or the reply names another. Without a `language`, the first one of the header
/// `Accept-Language` counts.
#[utoipa::path(get, path = "/v1/channels/{channel}/pending", tag = "channels",
    params(("channel" = String, Path, description = "the conversation"), PendingQuery),
    security(("token" = ["read"]), ("token" = ["reply"]), ("token" = ["propose"]), ("token" = ["agent"]), ("token" = ["wait"])),
    responses((status = 200, body = PendingView, description = "the pending card, if there is one"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn pending(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Converse>,
    Id(channel): Id<Channel>,
    languages: PreferredLanguages,
    QueryParams(query): QueryParams<PendingQuery>,
) -> Answer<Json<PendingView>> {
    let pending = app.store().pending_in(&caller.tenant, &channel).await?;
    let pending = pending.filter(|approval| is_visible(&caller, approval));
    let conversations = within(&app, query.limit)?;
    let view = match caller.may(Scope::Reply) {
        true => prompt_with_buttons,
        false => prompt_view,
    };
    let language = query.language.as_deref().or(languages.first());
    if let (true, Some(approval), Some(language)) = (caller.may(Scope::Reply), &pending, language) {
        let fetched = conversations.fetched(&caller.tenant, &channel, approval, language);
        fetched.await?;
    }
    Ok(Json(PendingView {
        pending: match pending {
            Some(approval) => Some(view(&conversations.prompt(&approval, language).await?)),
            None => None,
        },
    }))
}

/// Read the transcript for the model
///
/// Contains one tool call and exactly one result for every call that was held in this conversation, oldest first, as
/// messages in the format `anthropic` (the default) or `openai`. Limited to the newest hundred approvals.
#[utoipa::path(get, path = "/v1/channels/{channel}/transcript", operation_id = "told", tag = "channels",
    params(("channel" = String, Path, description = "the conversation"), TranscriptQuery),
    security(("token" = ["read"]), ("token" = ["reply"]), ("token" = ["propose"]), ("token" = ["agent"]), ("token" = ["wait"])),
    responses((status = 200, body = Vec<serde_json::Value>, description = "messages for the model"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn read_transcript(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Converse>,
    Id(channel): Id<Channel>,
    QueryParams(query): QueryParams<TranscriptQuery>,
) -> Answer<Response> {
    let filter = Filter {
        // The model got the results of passed calls with their rulings, so the transcript leaves them out.
        asked: true,
        channel: Some(channel),
        agent: caller.agent.clone(),
        limit: Some(MOST_TOLD),
        most_bytes: Some(MOST_BYTES_TOLD),
        ..Filter::default()
    };
    let room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut approvals = app.store().list(&caller.tenant, &filter).await?;
    approvals.retain(|approval| is_visible(&caller, approval));
    approvals.reverse();
    let write = match query.format.as_deref() {
        None | Some("anthropic") => transcript::anthropic,
        Some("openai") => transcript::openai,
        Some(_) => return Err(ApiError::bad_request("`format` is `anthropic` or `openai`")),
    };
    // Each approval is one turn. Their JSON arrays are joined as text, so that arguments keep their exact bytes.
    let turns = approvals
        .iter()
        .map(|approval| write(&transcript::exchanges(approval, app.gate.policy())));
    let inner = |turn: String| Some(turn.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    let turns: Vec<String> = turns.filter_map(inner).collect();
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let bytes = room.into_body(format!("[{}]", turns.join(",")).into_bytes());
    Ok(([kind], bytes).into_response())
}

/// Sender of a chat message or of a pressed button.
struct Sender {
    /// The sender as a decider, with the groups of the sender's account. An unknown sender has no rights.
    decider: Decider,
    /// The sender's name as the adapter gave it, escaped. `None` if there is an account of that name, or a linked
    /// sender.
    unknown: Option<String>,
}

/// Finds the account behind the sender that an adapter names.
async fn sender(app: &App, caller: &Caller, name: String, surface: Surface) -> Answer<Sender> {
    let person = Person::new(name).map_err(|problem| ApiError::bad_request(problem.to_string()))?;
    let account = SenderLink::resolve(app.store(), &caller.tenant, &person).await?;
    let mut authority_bases = caller.authority_bases.clone();
    // The name of a sender without an account gets a prefix, so that it cannot match a name in a list of approvers.
    let Some((account, bases)) = account else {
        let nobody = Person::new(
            format!("unknown sender {person}")
                .chars()
                .take(256)
                .collect::<String>(),
        )
        .map_err(|problem| ApiError::bad_request(problem.to_string()))?;
        return Ok(Sender {
            decider: Decider {
                person: nobody,
                groups: Vec::new(),
                surface,
                authority_bases,
            },
            unknown: Some(clip(person.as_str(), LONGEST_SHOWN_SENDER).to_string()),
        });
    };
    authority_bases.extend(bases);
    Ok(Sender {
        decider: Decider {
            person: account.name,
            groups: account.groups,
            surface,
            authority_bases,
        },
        unknown: None,
    })
}

/// Returns the text for a sender whose answer to the pending card does not count: the reason, and what to do next.
/// `None` if the message was not an answer, so that other conversation in the channel is not interrupted.
fn not_counted(app: &App, said: &MessageResponse, sender: &Sender, language: Option<&str>) -> Option<String> {
    let is_answer = said
        .read
        .as_ref()
        .is_some_and(|read| read.reading != Reading::Other);
    if !is_answer || !matches!(said.heard, ReplyOutcome::PassOn) {
        return None;
    }
    Some(match &sender.unknown {
        Some(name) => app.conversations.unknown_sender(name, language),
        None => app
            .conversations
            .not_an_approver(sender.decider.person.as_str(), language),
    })
}

/// Maximum message limit that a chat may declare, in UTF-16 code units.
const LONGEST_LIMIT: usize = 1_000_000;

/// Returns the conversations with the chat's message limit applied. `limit` is a float because `4000.0` and `4000` are
/// the same JSON number.
fn within(app: &App, limit: Option<f64>) -> Answer<Conversations> {
    let conversations = app.conversations.clone();
    let Some(limit) = limit else {
        return Ok(conversations);
    };
    let range = SHORTEST_LIMIT as f64..=LONGEST_LIMIT as f64;
    match range.contains(&limit) {
        true => Ok(conversations.with_limit(limit as usize)),
        false => Err(ApiError::bad_request(format!(
            "`limit` is {SHORTEST_LIMIT} to {LONGEST_LIMIT}: a shorter message has no room for the question"
        ))),
    }
}

fn origin(text: Option<&str>) -> Answer<Origin> {
    match text {
        None | Some("written") => Ok(Origin::Written),
        Some("edited") => Ok(Origin::Edited),
        Some("forwarded") => Ok(Origin::Forwarded),
        Some("program") => Ok(Origin::Program),
        Some(_) => Err(ApiError::bad_request(
            "`origin` is `written`, `edited`, `forwarded` or `program`",
        )),
    }
}

fn key(text: String) -> Answer<Key> {
    Key::new(text).map_err(|problem| ApiError::bad_request(problem.to_string()))
}

fn decided(resolved: &Resolved) -> &'static str {
    match resolved.approval.as_ref().map(|approval| approval.state) {
        Some(ApprovalState::Approved) => "approved",
        Some(ApprovalState::Pending) => "endorsed",
        _ => "denied",
    }
}

async fn shown(app: &App, approval: Option<SharedApproval>) -> Answer<Option<view::ApprovalView>> {
    let Some(approval) = approval else {
        return Ok(None);
    };
    let now = app.store().now().await?;
    Ok(Some(view::approval(&approval, app.gate.policy(), now)))
}

/// Converts a card to JSON, including its button payloads. A payload decides in the name of the person who presses the
/// button, so this is only for callers that answer cards: an adapter (`reply`), or a person's own program in that
/// person's session (`chat`).
pub fn prompt_with_buttons(prompt: &Prompt) -> PromptView {
    PromptView {
        approve: prompt.approve.clone(),
        deny: Some(prompt.deny.clone()),
        ..prompt_view(prompt)
    }
}

/// Converts a card to JSON for read-only callers, without button payloads.
fn prompt_view(prompt: &Prompt) -> PromptView {
    PromptView {
        approval: prompt.approval.to_string(),
        // INVARIANT: an incomplete card comes without its digest, so nobody can report it as shown; see `say_shown`.
        digest: prompt.whole().map(|card| card.digest().to_string()),
        whole: prompt.whole().is_some(),
        summary: prompt.summary.clone(),
        origins: prompt.origins.clone(),
        text: prompt.text.clone(),
        yes: prompt.yes.clone(),
        no: prompt.no.clone(),
        approve: None,
        deny: None,
        expires_at: prompt.expires_at.to_string(),
    }
}
