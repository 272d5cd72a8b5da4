//! A tenant's events as server-sent events, for the API and the pages.
//!
//! A client that reconnects with the id of its last event misses nothing. A client that reads too slowly gets a
//! `lagged` event, and its stream ends. It can then reconnect and resume from the store.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use countersign::id::{Agent, ApprovalId, Channel, Tenant};
use countersign::store::Cursor;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Answer, ApiError, App};
use crate::access::Caller;
use crate::service::{EventWithApproval, OpenStream, Service, StreamEventId, Watch, read_feed};
use crate::view::FeedEventView;
use crate::wire::EventsQuery;

/// Number of missed events that are read from the store at a time.
const MISSED: usize = 64;
/// Keep-alive interval of an idle stream.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Streams the events of the caller's tenant that match the filter, until the caller's credential becomes invalid.
/// Begins after the event with the id `after`, or now if `after` is `None`. `open` is held until the stream ends.
pub async fn stream(
    app: &App,
    caller: &Caller,
    after: Option<&str>,
    filter: Filter,
    open: OpenStream,
) -> Answer<Response> {
    let (tenant, watch) = (&caller.tenant, Watch::of(app.service(), caller));
    let bad_id = || ApiError::bad_request("there is no event with this id");
    let after = after.map(|text| text.parse::<StreamEventId>().map_err(|()| bad_id()));
    let after = after.transpose()?.map(|StreamEventId(cursor)| cursor);
    // The current position is sent first, so that a client that is disconnected before the first event can resume.
    let first_id = match after {
        None => Some(StreamEventId(app.store().feed_end(tenant).await?)),
        Some(_) => None,
    };
    let first = first_id.map(|id| Sent::default().id(id.to_string()));
    // Subscribe before reading the missed events, so that no event in between is lost.
    let live = app.feeds.listen(app.service(), tenant).await?;
    let following = Following {
        service: app.service().clone(),
        tenant: tenant.clone(),
        filter,
        missed: after,
        given: after.unwrap_or_default(),
        queue: first.into_iter().collect(),
        live,
        is_over: false,
        _open: open,
    };
    let ended = watch.ended();
    let events = following.into_stream().take_until(ended).map(move |event| {
        // Keeps the watch alive as long as the stream.
        let _ = &watch;
        event
    });
    let alive = KeepAlive::new().interval(ALIVE_EVERY).text("alive");
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

/// Selects the events that a client wants and may see.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    approval: Option<ApprovalId>,
    agent: Option<Agent>,
    /// True if the caller is an agent, which sees only its own approvals.
    is_agents: bool,
    channel: Option<Channel>,
    what: Vec<String>,
}

impl Filter {
    /// Builds the filter from the query of a request. An agent's credential limits the filter to that agent's
    /// approvals.
    pub fn new(caller: &Caller, query: EventsQuery) -> Answer<Filter> {
        let approval = query.approval.map(|id| id.parse());
        let approval = approval
            .transpose()
            .map_err(|_| ApiError::bad_request("`approval` is an approval's id"))?;
        let named = query.agent_name.map(Agent::stored).transpose()?;
        Ok(Filter {
            approval,
            is_agents: caller.agent.is_some(),
            agent: caller.agent.clone().or(named),
            channel: query.channel.map(Channel::new).transpose()?,
            what: query
                .what
                .iter()
                .flat_map(|what| what.split(','))
                .map(str::to_owned)
                .collect(),
        })
    }

    fn wants(&self, happened: &EventWithApproval) -> bool {
        let approval = &happened.approval;
        self.approval.is_none_or(|id| id == approval.id)
            && self.agent.as_ref().is_none_or(|agent| *agent == approval.agent)
            && !(self.is_agents && approval.is_of_older_talk())
            && self
                .channel
                .as_ref()
                .is_none_or(|channel| approval.channel.as_ref() == Some(channel))
            && (self.what.is_empty() || self.what.iter().any(|what| what == happened.event.what.as_str()))
    }
}

struct Following {
    service: Service,
    tenant: Tenant,
    filter: Filter,
    /// Cursor from which missed events are read from the store; `None` once the stream is live.
    missed: Option<Cursor>,
    /// Position of the last event that was read, whether or not it matched the filter.
    given: Cursor,
    queue: VecDeque<Sent>,
    live: Receiver<Arc<EventWithApproval>>,
    is_over: bool,
    _open: OpenStream,
}

impl Following {
    fn into_stream(self) -> impl Stream<Item = Result<Sent, Infallible>> {
        unfold(self, |mut following| async move {
            let sent = following.next().await?;
            Some((Ok(sent), following))
        })
    }

    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.queue.pop_front() {
                return Some(sent);
            }
            if self.is_over {
                return None;
            }
            match self.missed {
                Some(after) => self.read_missed(after).await,
                None => self.read_live().await,
            }
        }
    }

    async fn read_missed(&mut self, after: Cursor) {
        // Limits concurrent reads: after a restart many readers may reconnect at once.
        let reading = self.service.limits.reading().await;
        let page = read_feed(&self.service, &self.tenant, after, MISSED).await;
        match page {
            Ok(page) => {
                self.missed = page.last().map(|last| last.cursor);
                for happened in &page {
                    self.give(happened);
                }
                drop((page, reading));
            }
            Err(error) => {
                tracing::warn!("an event stream ended early: {error}");
                self.end("unavailable", "the store cannot be read at the moment; try again");
            }
        }
    }

    async fn read_live(&mut self) {
        let happened = tokio::select! {
            happened = self.live.recv() => happened,
            () = self.service.stopping.cancelled() => {
                return self.end("stopping", "the service is stopping; try again in a moment");
            }
        };
        match happened {
            Ok(happened) => self.give(&happened),
            Err(RecvError::Lagged(_)) => {
                self.end(
                    "lagged",
                    "this client reads too slowly; reconnect with the last event's id",
                );
            }
            Err(RecvError::Closed) => self.end("stopping", "come back in a moment"),
        }
    }

    /// Queues an event for the client. Skips live events that were already read from the store.
    fn give(&mut self, happened: &EventWithApproval) {
        if happened.cursor <= self.given && self.given != Cursor::default() {
            return;
        }
        self.given = happened.cursor;
        if self.filter.wants(happened) {
            self.queue.extend(sent(happened));
        }
    }

    fn end(&mut self, name: &str, message: &str) {
        let data = serde_json::json!({ "message": message }).to_string();
        self.queue.push_back(Sent::default().event(name).data(data));
        self.is_over = true;
    }
}

fn sent(happened: &EventWithApproval) -> Option<Sent> {
    let view = FeedEventView::new(&happened.approval, &happened.event)?;
    let data = serde_json::to_string(&view).ok()?;
    Some(
        Sent::default()
            .id(StreamEventId(happened.cursor).to_string())
            .event(happened.event.what.as_str())
            .data(data),
    )
}
