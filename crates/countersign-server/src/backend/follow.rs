//! Follows events, from the store or from a server.
//!
//! No event is missed, even across reconnects: a local stream resumes at a feed cursor, a remote one after the id of
//! the last event it received.

use std::collections::VecDeque;
use std::time::Duration;

use countersign::id::{Agent, Channel};
use countersign::store::{Cursor, FeedEvent};
use countersign::wake::Changes;
use countersign_http_client::StreamedResponse;
use countersign_http_client::events::EventReader;
use http_body_util::BodyExt as _;

use super::remote::is_passing;
use super::server::{encode, unreadable};
use super::{LocalBackend, RemoteBackend};
use crate::failure::Failure;
use crate::view::FeedEventView;

/// Number of events read from the store at a time.
const PAGE: usize = 256;
/// Longest wait before the feed is read again. A new event may become readable only after the change was signalled, so
/// waiting for signals alone could miss it.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);
/// Time without any data after which a connection counts as lost. The server sends a keep-alive every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum size of an event, in bytes. A Countersign server sends no larger ones.
const LARGEST_EVENT: usize = 4 * 1024 * 1024;
/// First delay between reconnects, doubled after each failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
/// Longest delay between reconnects.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Selects events. An event has to match all criteria that are set.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only events of this agent's approvals.
    pub agent: Option<Agent>,
    /// Only events of approvals in this channel.
    pub channel: Option<Channel>,
    /// Only events of these kinds, such as `approved`; all kinds if empty.
    pub what: Vec<String>,
}

/// Item of an event stream.
pub enum StreamItem {
    /// A new event.
    Happened(FeedEventView),
    /// The connection was lost and is being restored. Holds the reason.
    Lost(String),
    /// The connection was restored. No events were missed.
    Back,
}

/// Event stream of a backend.
pub enum EventStream<'d> {
    /// Events from the store.
    Local(LocalEventStream<'d>),
    /// Events from a server.
    Remote(Box<RemoteEventStream<'d>>),
}

impl EventStream<'_> {
    /// Waits for the next item. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<StreamItem, Failure> {
        match self {
            EventStream::Local(following) => following.next().await.map(StreamItem::Happened),
            EventStream::Remote(following) => following.next().await,
        }
    }
}

/// Event stream of a store.
pub struct LocalEventStream<'d> {
    backend: &'d LocalBackend,
    wanted: EventFilter,
    changes: Changes,
    cursor: Cursor,
    queue: VecDeque<FeedEvent>,
}

impl<'d> LocalEventStream<'d> {
    pub(super) async fn start(
        backend: &'d LocalBackend,
        wanted: EventFilter,
    ) -> Result<LocalEventStream<'d>, Failure> {
        // Subscribe to changes before reading the position, so that no event in between is missed.
        let changes = backend.store().hub().changes();
        let cursor = backend.store().feed_end(&backend.tenant).await?;
        Ok(LocalEventStream {
            backend,
            wanted,
            changes,
            cursor,
            queue: VecDeque::new(),
        })
    }

    async fn next(&mut self) -> Result<FeedEventView, Failure> {
        loop {
            while let Some(event) = self.queue.front() {
                let happening = self.event_view(event).await?;
                self.queue.pop_front();
                if let Some(happening) = happening {
                    return Ok(happening);
                }
            }
            let page = self
                .backend
                .store()
                .feed(&self.backend.tenant, self.cursor, PAGE)
                .await?;
            match page.last() {
                Some(last) => self.cursor = last.cursor,
                None => _ = tokio::time::timeout(LOOKS_AGAIN, self.changes.next()).await,
            }
            self.queue.extend(page);
        }
    }

    /// Converts an event to its JSON view. `None` if the filter excludes it or its approval no longer exists.
    async fn event_view(&self, event: &FeedEvent) -> Result<Option<FeedEventView>, Failure> {
        let found = self
            .backend
            .store()
            .approval(&self.backend.tenant, event.approval)
            .await?;
        let Some(approval) = found else {
            return Ok(None);
        };
        let wanted = &self.wanted;
        let is_wanted = wanted.agent.as_ref().is_none_or(|agent| *agent == approval.agent)
            && wanted
                .channel
                .as_ref()
                .is_none_or(|channel| approval.channel.as_ref() == Some(channel))
            && (wanted.what.is_empty() || wanted.what.iter().any(|what| what == event.event.what.as_str()));
        Ok(is_wanted
            .then(|| FeedEventView::new(&approval, &event.event))
            .flatten())
    }
}

/// Event stream of a server.
pub struct RemoteEventStream<'d> {
    backend: &'d RemoteBackend,
    path: String,
    last: Option<String>,
    stream: Option<(StreamedResponse, EventReader)>,
    pause: Duration,
    is_lost: bool,
}

impl<'d> RemoteEventStream<'d> {
    pub(super) async fn start(
        backend: &'d RemoteBackend,
        wanted: EventFilter,
    ) -> Result<RemoteEventStream<'d>, Failure> {
        let mut path = "/v1/events?".to_owned();
        let mut add = |name: &str, value: Option<String>| {
            path.extend(value.map(|value| format!("{name}={}&", encode(&value))));
        };
        add("agentName", wanted.agent.map(|agent| agent.to_string()));
        add("channel", wanted.channel.map(|channel| channel.to_string()));
        add("what", (!wanted.what.is_empty()).then(|| wanted.what.join(",")));
        path.pop();
        let opened = backend.server.stream(&path, None).await?;
        Ok(RemoteEventStream {
            backend,
            path,
            last: None,
            stream: Some((opened, EventReader::new(LARGEST_EVENT))),
            pause: SHORTEST_PAUSE,
            is_lost: false,
        })
    }

    async fn next(&mut self) -> Result<StreamItem, Failure> {
        loop {
            let Some((opened, reader)) = &mut self.stream else {
                if let Some(followed) = self.connect().await? {
                    return Ok(followed);
                }
                continue;
            };
            // An event that is too large ends the command, because the server would send it again after a reconnect.
            while let Some(sent) = reader.next_event().map_err(|_| unreadable(opened.status))? {
                let id = sent.id.and_then(|id| String::from_utf8(id.into()).ok());
                self.last = id.or(self.last.take());
                let data = sent.data.unwrap_or_default();
                if let Ok(happening) = serde_json::from_slice(&data) {
                    self.pause = SHORTEST_PAUSE;
                    return Ok(StreamItem::Happened(happening));
                }
            }
            match tokio::time::timeout(SILENCE, opened.body.frame()).await {
                Ok(Some(Ok(frame))) => reader.push(frame.data_ref().map_or(&[][..], |data| data)),
                // The stream ended, broke or fell silent; an incomplete event is sent again after reconnecting.
                _ => self.stream = None,
            }
        }
    }

    /// Makes one attempt to connect. Returns [`StreamItem::Lost`] after the first temporary failure and
    /// [`StreamItem::Back`] once the connection is restored. Returns `None` after the first successful connection, and
    /// after a pause if the connection is still lost. A permanent failure is an error.
    async fn connect(&mut self) -> Result<Option<StreamItem>, Failure> {
        match self.backend.server.stream(&self.path, self.last.as_deref()).await {
            Ok(opened) => {
                self.stream = Some((opened, EventReader::new(LARGEST_EVENT)));
                let was_lost = std::mem::take(&mut self.is_lost);
                Ok(was_lost.then_some(StreamItem::Back))
            }
            Err(failure) if is_passing(&failure) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    return Ok(Some(StreamItem::Lost(failure.message)));
                }
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}
