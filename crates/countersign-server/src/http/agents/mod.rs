//! `/v1/agents`: sessions with served agents.
//!
//! Input: a message, as text or as a pressed button. Output: server-sent events about the agent's turn, including
//! cards. A session belongs to one person, who is identified by the token.

mod frame;
mod wire;

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use countersign::decision::Surface;
use countersign::id::Key;
use futures_util::StreamExt as _;
use futures_util::stream::{self, unfold};

use super::channels::prompt_with_buttons;
use crate::access::Caller;
use crate::service::agents::{LONGEST_MESSAGE, PersonAction, Talk, card_key, listen};
use crate::service::{Watch, random_id};
use crate::web::{Answer, ApiError, App, Authorized, Body, Id, Json, QueryParams, scope};
use crate::wire::ErrorView;
use frame::{frames, named};
use wire::{SessionView, StreamQuery, TalkBody};

/// Message that ends the stream of a client that reads it too slowly.
const LAGGED: &str = "this client reads too slowly; read the session and reconnect";
/// Keep-alive interval of an idle stream.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Talk to an agent
///
/// Sends a text, or the payload of a button that came with a card. The response is a stream of server-sent events:
/// first `session`; then `routed`, `text`, `tool`, `result`, `say`, `held`, `decided`, `again` and `notice` as they
/// occur; `done` or `error` last. A yes counts only with `after`: the `card` of the `held` event that it answers. In the
/// simple view, `tool` and `result` are `tool-call` and `tool-result`.
#[utoipa::path(post, path = "/v1/agents/{name}/messages", tag = "agents", request_body = TalkBody,
    params(("name" = String, Path, description = "the agent"), StreamQuery),
    security(("token" = ["chat"])),
    responses((status = 200, content_type = "text/event-stream", body = String, description = "server-sent events of the talk"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn say(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Chat>,
    Id(name): Id<String>,
    QueryParams(query): QueryParams<StreamQuery>,
    Body(body): Body<TalkBody>,
) -> Answer<Response> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let session = match &body.session {
        Some(session) => session.clone(),
        None => random_id()?,
    };
    let talk = talk(&app, &caller, &name, &session)?;
    if body.calls.is_some() && body.button.is_none() {
        return Err(ApiError::bad_request(
            "`calls` is only allowed together with `button`",
        ));
    }
    let (said, surface) = match (body.text, body.button) {
        (Some(text), None) => {
            if text.trim().is_empty() {
                return Err(ApiError::bad_request("the message is empty"));
            }
            if text.len() > LONGEST_MESSAGE {
                return Err(ApiError::too_large(format!(
                    "a message has at most {LONGEST_MESSAGE} bytes"
                )));
            }
            let id = match body.message_id {
                Some(id) => id,
                None => random_id()?,
            };
            let (id, after) = (key(id)?, body.after.map(key).transpose()?);
            (PersonAction::Text { text, id, after }, Surface::Text)
        }
        (None, Some(payload)) => {
            let only = body.calls;
            (PersonAction::Button { payload, only }, Surface::Button)
        }
        _ => return Err(ApiError::bad_request("send either `text` or `button`")),
    };
    let by = caller
        .speaker(surface)
        .ok_or_else(|| ApiError::wrong_scope(&[crate::access::Scope::Chat]))?;
    app.limits.message(&caller.tenant, &by.person)?;
    let open = app.limits.stream(&caller.tenant, caller.name.as_str())?;
    let news = talk.say(&app, said, by)?;
    let first = named(
        "session",
        &serde_json::json!({ "session": session, "agent": name }),
    );
    // If the credential is revoked meanwhile, the stream ends but the turn continues.
    let watch = Watch::of(app.service(), &caller);
    let ended = watch.ended();
    let shape = query.view.unwrap_or_default();
    let rest = unfold(
        (news, app, open, watch),
        move |(mut news, app, open, watch)| async move {
            let one = news.recv().await?;
            let sent = frames(&app, &one, shape).await;
            Some((stream::iter(sent), (news, app, open, watch)))
        },
    );
    let events = stream::iter(first)
        .chain(rest.flatten().take_until(ended))
        .map(Ok::<Sent, Infallible>);
    Ok(sse(events))
}

/// Read a session with an agent
///
/// Returns the messages so far and the pending card.
#[utoipa::path(get, path = "/v1/agents/{name}/sessions/{id}", tag = "agents",
    params(("name" = String, Path, description = "the agent"), ("id" = String, Path, description = "the session")),
    security(("token" = ["chat"])),
    responses((status = 200, body = SessionView, description = "the conversation so far"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn session(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Chat>,
    Path((name, id)): Path<(String, String)>,
) -> Answer<Json<SessionView>> {
    let talk = begun(&app, &caller, &name, &id).await?;
    let session = talk.session().await?;
    let place = talk.place();
    let pending = app.store().pending_in(&place.tenant, &place.channel).await?;
    let language = talk.served().agent.config().language.as_deref();
    let pending = pending.filter(|pending| pending.agent == *talk.served().agent.name());
    Ok(Json(SessionView {
        session: id,
        agent: name,
        model: talk.served().model.clone(),
        messages: session.messages().iter().map(Into::into).collect(),
        card: pending
            .as_ref()
            .and_then(|pending| card_key(pending.id))
            .map(|key| key.to_string()),
        pending: match pending {
            Some(pending) => Some(prompt_with_buttons(
                &app.conversations.prompt(&pending, language).await?,
            )),
            None => None,
        },
    }))
}

/// Follow a session
///
/// Streams the same events as the response to a message, whoever caused them; for example, a card was decided on a page
/// or by another program. Earlier events are not sent; read the session for those.
#[utoipa::path(get, path = "/v1/agents/{name}/sessions/{id}/events", operation_id = "follow_session", tag = "agents",
    params(("name" = String, Path, description = "the agent"), ("id" = String, Path, description = "the session"), StreamQuery),
    security(("token" = ["chat"])),
    responses((status = 200, content_type = "text/event-stream", body = String, description = "server-sent events of the talk"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn follow(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Chat>,
    Path((name, id)): Path<(String, String)>,
    QueryParams(query): QueryParams<StreamQuery>,
) -> Answer<Response> {
    let talk = begun(&app, &caller, &name, &id).await?;
    let open = app.limits.stream(&caller.tenant, caller.name.as_str())?;
    let told = listen(app.service().clone(), &caller, talk, open).then(move |news| {
        let (app, shape) = (app.clone(), query.view.unwrap_or_default());
        async move {
            stream::iter(match news {
                Some(news) => frames(&app, &news, shape).await,
                None => named("lagged", &serde_json::json!({ "message": LAGGED }))
                    .into_iter()
                    .collect(),
            })
        }
    });
    Ok(sse(told.flatten().map(Ok::<Sent, Infallible>)))
}

fn sse(frames: impl futures_util::Stream<Item = Result<Sent, Infallible>> + Send + 'static) -> Response {
    let alive = KeepAlive::new().interval(ALIVE_EVERY).text("alive");
    Sse::new(frames).keep_alive(alive).into_response()
}

fn talk(app: &App, caller: &Caller, name: &str, session: &str) -> Answer<Talk> {
    let speaker = caller.talks_as().ok_or_else(|| ApiError::not_found("agent"))?;
    let talk = app.agents.talk(&caller.tenant, name, session, &speaker);
    talk.ok_or_else(|| ApiError::not_found("agent or session"))
}

/// Returns the caller's conversation with an agent. Fails with 404 if it has no messages yet.
async fn begun(app: &App, caller: &Caller, name: &str, session: &str) -> Answer<Talk> {
    let talk = talk(app, caller, name, session)?;
    match talk.session().await?.messages().is_empty() {
        true => Err(ApiError::not_found("agent or session")),
        false => Ok(talk),
    }
}

fn key(text: String) -> Answer<Key> {
    Key::new(text).map_err(|problem| ApiError::bad_request(problem.to_string()))
}
