//! Event stream of a conversation for the script: the agent's words, and notices that something changed.
//!
//! On a change the script loads the page again, so that all rendering stays in one place.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use countersign_agent::progress::Progress;
use futures_util::StreamExt as _;
use serde_json::json;

use super::super::form::QueryFields;
use super::super::page;
use super::super::session::BackgroundCaller;
use super::{PageQuery, log, talk};
use crate::service::agents::News;
use crate::service::agents::listen;
use crate::web::App;

/// Longest duration of a stream. The browser then reconnects and its session is checked again.
const AT_MOST: Duration = Duration::from_secs(2 * 60);
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Streams the agent's words and notices of changes in one conversation.
pub async fn follow(
    State(app): State<App>,
    BackgroundCaller(caller): BackgroundCaller,
    Path(agent): Path<String>,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    let opened = talk(&app, &caller, &agent, asked.session()).and_then(|talk| {
        let open = app
            .limits
            .stream(&caller.tenant, &format!("page:{}", caller.name))?;
        Ok((talk, open))
    });
    let (talk, open) = match opened {
        Ok(opened) => opened,
        Err(error) => return page::failure(&error),
    };
    let events = listen(app.service().clone(), &caller, talk, open)
        .take_until(tokio::time::sleep(AT_MOST))
        .map(|news| {
            Ok::<Event, Infallible>(match news {
                Some(news) => event(&news),
                None => Event::default().event("changed").data("{}"),
            })
        });
    let alive = KeepAlive::new().interval(ALIVE_EVERY).text("alive");
    Sse::new(events).keep_alive(alive).into_response()
}

fn event(news: &News) -> Event {
    let named = |name: &str, data: serde_json::Value| Event::default().event(name).data(data.to_string());
    match news {
        News::Heard => named("heard", json!({})),
        News::Failed { message, hint } => {
            let message = page::sentence(&log::safe(message));
            named(
                "failed",
                json!({ "message": message, "hint": page::sentence(hint) }),
            )
        }
        News::Progress(progress) => match &**progress {
            Progress::Text(text) => named("text", json!({ "text": log::safe(text) })),
            Progress::Notice(text) => named("notice", json!({ "text": log::safe(text) })),
            Progress::Retrying { .. } => named("again", json!({})),
            Progress::Done { .. } => named("done", json!({})),
            _ => named("changed", json!({})),
        },
    }
}
