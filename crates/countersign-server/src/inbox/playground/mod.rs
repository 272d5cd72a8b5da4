//! Playground: a page to talk to served agents, with the card beside the conversation.
//!
//! Input: a signed-in person and their messages. Output: HTML that works without JavaScript; with it, answers are
//! streamed. Cards and decisions are those of the inbox. The agent continues after a decision, wherever it was made.

mod live;
mod log;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use countersign::approval::SharedApproval;
use countersign::decision::Surface;
use countersign::id::{CallId, Channel, Key};
use countersign::store::Filter;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Deserialize;

use super::card::{Card, Drawing, Measure, shown};
use super::form::{FormFields, QueryFields};
use super::language::Language;
use super::session::{FRAGMENT, SignedIn};
use super::{list, page};
use crate::access::{Caller, Scope};
use crate::service::agents::LONGEST_MESSAGE;
use crate::service::agents::{News, PersonAction, Talk, card_key};
use crate::service::random_id;
use crate::web::{Answer, ApiError, App};

/// Default session id, used if the URL names none.
const USUAL: &str = "main";

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    session: Option<String>,
}

impl PageQuery {
    fn session(&self) -> &str {
        self.session
            .as_deref()
            .filter(|id| !id.is_empty())
            .unwrap_or(USUAL)
    }
}

#[derive(Debug, Deserialize)]
pub struct Message {
    #[serde(default)]
    session: String,
    #[serde(default)]
    text: String,
    /// Key of the card that was on the page when the message was written. Empty if there was none.
    #[serde(default)]
    after: String,
    /// Idempotency key of the form.
    #[serde(default)]
    key: String,
}

/// Returns the routes of the playground.
pub fn pages() -> Router<App> {
    Router::new()
        .route("/playground", get(home))
        .route("/playground/{agent}", get(show))
        .route("/playground/{agent}/messages", post(say))
        .route("/playground/{agent}/live", get(live::follow))
}

/// Redirects to the first agent.
pub async fn home(State(app): State<App>, SignedIn(_): SignedIn) -> Response {
    let first = app.agents.iter().next().filter(|_| app.agents.has_playground);
    match first {
        Some((name, _)) => Redirect::to(&address(name, USUAL)).into_response(),
        None => page::failure(&ApiError::not_found("playground")),
    }
}

/// Renders the page of one conversation.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(agent): Path<String>,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    let talk = match talk(&app, &caller, &agent, asked.session()) {
        Ok(talk) => talk,
        Err(error) => return page::failure(&error),
    };
    let page = draw(&app, &caller, &talk, None, "");
    let page = language_of(&talk).scope(page).await;
    page.unwrap_or_else(|error| page::failure(&error))
}

/// Sends a message to the agent. The script follows the answer on the event stream; without the script, this responds
/// with the page once the agent has answered.
pub async fn say(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(agent): Path<String>,
    headers: HeaderMap,
    FormFields(message): FormFields<Message>,
) -> Response {
    let asked = PageQuery {
        session: Some(message.session.clone()),
    };
    let talk = match talk(&app, &caller, &agent, asked.session()) {
        Ok(talk) => talk,
        Err(error) => return page::failure(&error),
    };
    let text = message.text.clone();
    let mut news = match try_to_say(&app, &caller, &talk, message) {
        Ok(news) => news,
        Err(error) => return again(&app, &caller, &talk, &error, &text).await,
    };
    if headers.contains_key(FRAGMENT) {
        return StatusCode::ACCEPTED.into_response();
    }
    match answered(&mut news).await {
        Ok(()) => Redirect::to(&format!("{}#say", address(&agent, talk.session_id()))).into_response(),
        Err(error) => again(&app, &caller, &talk, &error, "").await,
    }
}

/// Requests the undo of a call in the conversation where the call was made. `None` if that is not a conversation of
/// this person. The script learns of the new card from the event stream; without the script, this redirects to the page
/// once the agent's turn is over.
pub async fn undo(
    app: &App,
    caller: &Caller,
    id: &str,
    position: u8,
    is_fragment: bool,
) -> Answer<Option<Response>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let (approval, _) = list::one(app, caller, id).await?;
    let Some(talk) = talk_of(app, caller, &approval) else {
        return Ok(None);
    };
    let by = caller
        .speaker(Surface::Button)
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Chat]))?;
    app.limits.message(&caller.tenant, &by.person)?;
    let call = CallId {
        approval: approval.id,
        position,
    };
    let mut news = talk.say(app, PersonAction::Undo(call), by)?;
    if is_fragment {
        return Ok(Some(StatusCode::ACCEPTED.into_response()));
    }
    answered(&mut news).await?;
    let back = address(&talk.served().name, talk.session_id());
    Ok(Some(Redirect::to(&back).into_response()))
}

/// Waits until the agent's turn is over. Fails if the turn failed.
async fn answered(news: &mut tokio::sync::mpsc::Receiver<std::sync::Arc<News>>) -> Answer<()> {
    while let Some(one) = news.recv().await {
        if let News::Failed { message, hint } = &*one {
            let message = message.clone();
            return Err(ApiError::new(StatusCode::CONFLICT, "no_answer", message, *hint));
        }
        if one.is_last() {
            break;
        }
    }
    Ok(())
}

/// Resumes the conversation in which an approval was proposed, and returns the URL of its page. `None` if that is not a
/// conversation of this person.
pub async fn way_back(app: &App, caller: &Caller, approval: &SharedApproval) -> Option<String> {
    let talk = talk_of(app, caller, approval)?;
    // If resuming takes too long, the page shows the talk so far.
    let _ = talk.resume(app).await;
    Some(address(&talk.served().name, talk.session_id()))
}

/// Returns the conversation in which an approval was proposed. `None` if it is not a conversation of this person, or
/// the playground is disabled.
fn talk_of(app: &App, caller: &Caller, approval: &SharedApproval) -> Option<Talk> {
    let talk = app.agents.talk_of(approval, &caller.talks_as()?)?;
    let is_theirs = caller.tenant == approval.tenant;
    (is_theirs && app.agents.has_playground).then_some(talk)
}

/// Returns the language of the page around a talk: the agent's, or else the one that the browser prefers.
fn language_of(talk: &Talk) -> Language {
    let served = talk.served();
    let tag = served.agent.config().language.as_deref();
    tag.and_then(Language::of_tag).unwrap_or_else(Language::current)
}

/// Returns the language of the talk in which an approval was proposed, or else of the page.
pub fn language_around(app: &App, caller: &Caller, approval: &SharedApproval) -> Language {
    talk_of(app, caller, approval).map_or_else(Language::current, |talk| language_of(&talk))
}

fn address(agent: &str, session: &str) -> String {
    match session {
        USUAL => format!("/playground/{agent}"),
        other => format!("/playground/{agent}?session={other}"),
    }
}

/// Returns this person's conversation with an agent. Fails with 404 if there is no such agent or no playground.
fn talk(app: &App, caller: &Caller, agent: &str, session: &str) -> Answer<Talk> {
    let speaker = caller.talks_as().filter(|_| app.agents.has_playground);
    let talk = speaker.and_then(|speaker| app.agents.talk(&caller.tenant, agent, session, &speaker));
    talk.ok_or_else(|| ApiError::not_found("agent"))
}

fn try_to_say(
    app: &App,
    caller: &Caller,
    talk: &Talk,
    message: Message,
) -> Answer<tokio::sync::mpsc::Receiver<std::sync::Arc<News>>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    // Browsers submit line breaks as CRLF.
    let text = message.text.trim().replace("\r\n", "\n");
    if text.is_empty() {
        return Err(ApiError::unclear("you said nothing", "write something"));
    }
    if text.len() > LONGEST_MESSAGE {
        return Err(ApiError::too_large(format!(
            "a message has at most {LONGEST_MESSAGE} bytes"
        )));
    }
    let by = caller
        .speaker(Surface::Text)
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Chat]))?;
    app.limits.message(&caller.tenant, &by.person)?;
    let id = match message.key.is_empty() {
        true => random_id()?,
        false => format!("page-{}", message.key),
    };
    let after = Some(message.after).filter(|after| !after.is_empty());
    let said = PersonAction::Text {
        text,
        id: Key::new(id)?,
        after: after.map(Key::new).transpose()?,
    };
    Ok(talk.say(app, said, by)?)
}

async fn again(app: &App, caller: &Caller, talk: &Talk, error: &ApiError, typed: &str) -> Response {
    let page = draw(app, caller, talk, Some(error), typed);
    let page = language_of(talk).scope(page).await;
    page.unwrap_or_else(|error| page::failure(&error))
}

async fn draw(
    app: &App,
    caller: &Caller,
    talk: &Talk,
    problem: Option<&ApiError>,
    typed: &str,
) -> Answer<Response> {
    let session = talk.session().await?;
    let served = talk.served();
    let agent = served.name.as_str();
    let card = card(app, caller, talk).await?;
    let after = card.as_ref().filter(|card| card.is_pending);
    let after = after.and_then(|card| card_key(card.id.parse().ok()?));
    let agents = app.agents.iter().map(|(name, _)| {
        context! { name, href => address(name, USUAL), is_here => name == agent }
    });
    let values = context! {
        agents => agents.collect::<Vec<Value>>(),
        agent,
        language => served.agent.config().language.as_deref(),
        session => talk.session_id(),
        new => address(agent, &random_id()?),
        model => shown(&served.model),
        is_scripted => served.is_scripted,
        openings => served.openings.clone(),
        lines => Value::from(Serde(log::lines(session.messages()))),
        trace => Value::from(Serde(log::trace(session.messages()))),
        card => card.as_ref().map(|card| Value::from(Serde(card))),
        after => after.map(|after| after.to_string()).unwrap_or_default(),
        now => app.store().now().await?.to_string(),
        problem => problem.map(page::problem),
        typed,
        key => page::form_key(),
        from => "playground",
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(page::signed_in(
        app,
        status,
        "playground.html",
        caller,
        "playground",
        values,
    ))
}

/// Returns the pending card of this conversation, or else its latest card. `None` if the conversation has no card yet.
async fn card(app: &App, caller: &Caller, talk: &Talk) -> Answer<Option<Card>> {
    let place = talk.place();
    let Some(approval) = last(app, talk, &place.channel).await? else {
        return Ok(None);
    };
    let now = app.store().now().await?;
    let concerns = list::concerns(app, &approval, now).await?;
    let decider = caller.decider();
    let drawing = Drawing {
        policy: app.gate.policy(),
        now,
        decider: decider.as_ref(),
        measure: Measure::FULL,
    };
    Ok(Some(Card::new(&approval, &concerns, drawing)))
}

async fn last(app: &App, talk: &Talk, channel: &Channel) -> Answer<Option<SharedApproval>> {
    let tenant = &talk.place().tenant;
    let agent = talk.served().agent.name();
    let pending = app.store().pending_in(tenant, channel).await?;
    if let Some(pending) = pending.filter(|pending| pending.agent == *agent) {
        return Ok(Some(pending));
    }
    let newest = Filter {
        asked: true,
        channel: Some(channel.clone()),
        agent: Some(agent.clone()),
        limit: Some(1),
        ..Filter::default()
    };
    Ok(app.store().list(tenant, &newest).await?.into_iter().next())
}
