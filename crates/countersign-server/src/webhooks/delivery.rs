//! Sends the events of one webhook, one after the other, and tries again with growing pauses.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use countersign::id::Tenant;
use countersign::store::StoreError;
use countersign_http_client::{Client, RequestError, Target};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Serialize;

use super::position::{CLAIM, Position};
use super::settings::{EventFilter, WebhookSettings};
use super::signature::SigningKeys;
use crate::service::{EventWithApproval, Service, read_feed};
use crate::view::{FeedEventView, Moment};

/// Maximum size of a response, in bytes. The body is not read; only the status counts.
pub(super) const LARGEST_RESPONSE: usize = 64 * 1024;
/// Time within which a receiver has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Age at which an event is no longer sent to a receiver that does not answer.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3 * 24 * 3600);
/// Pauses after the first, second … failed attempt; the last one repeats.
const PAUSES: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(3600),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(4 * 3600),
];
/// Number of events that are read from the store at a time.
const PAGE: usize = 64;
/// Number of events that this webhook does not send before the position behind them is stored. Until then, a restart
/// reads them again.
const MOST_SKIPPED: usize = 1024;
/// Events about one call of an approval.
const CALL_EVENTS: [&str; 10] = [
    "started",
    "succeeded",
    "failed",
    "lost",
    "refused",
    "reconciled",
    "late_result",
    "undo_started",
    "undo_failed",
    "undone",
];
/// Pause after the store could not be read or written.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// A webhook that is ready to send.
pub(super) struct Webhook {
    name: String,
    tenant: Tenant,
    target: Target,
    keys: SigningKeys,
    filter: EventFilter,
    client: Client,
    /// Name of this service in claims.
    node: String,
}

/// What to do after a round of deliveries.
enum Next {
    /// There may be more events.
    Continue,
    /// Wait for a change in the store.
    WaitForChange,
    /// Wait this long: an attempt failed, or another service sends.
    Pause(Duration),
}

impl Webhook {
    pub(super) fn new(
        name: &str,
        settings: &WebhookSettings,
        tenant: &Tenant,
        client: Client,
    ) -> Result<Webhook, String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| error.to_string())?;
        Ok(Webhook {
            name: name.to_owned(),
            tenant: tenant.clone(),
            target: settings.target()?,
            keys: settings.keys()?,
            filter: settings.filter()?,
            client,
            node: format!("{:032x}", u128::from_be_bytes(random)),
        })
    }

    /// Sends events until the service stops.
    pub(super) async fn run(self, service: &Service) {
        for key in self.keys.public_keys() {
            tracing::info!(
                webhook = self.name,
                "signs with the key whose public part is {key}"
            );
        }
        // Subscribe before the first read, so that no change in between is missed.
        let mut changes = service.store().hub().changes();
        let mut skipped = Skipped::default();
        while !service.stopping.is_cancelled() {
            let next = self.round(service, &mut skipped).await.unwrap_or_else(|error| {
                tracing::warn!(
                    webhook = self.name,
                    "events could not be read or recorded: {error}"
                );
                Next::Pause(STORE_PAUSE)
            });
            let pause = async {
                match next {
                    Next::Continue => true,
                    Next::WaitForChange => changes.next().await,
                    Next::Pause(time) => {
                        tokio::time::sleep(time).await;
                        true
                    }
                }
            };
            tokio::select! {
                is_alive = pause => if !is_alive { return },
                () = service.stopping.cancelled() => return,
            }
        }
    }

    /// Sends the next events, at most one page of them.
    async fn round(&self, service: &Service, skipped: &mut Skipped) -> Result<Next, StoreError> {
        let store = service.store();
        let mut position = Position::load(store, &self.tenant, &self.name).await?;
        let after = position.after().max(skipped.until);
        let page = read_feed(service, &self.tenant, after, PAGE).await?;
        let Some(last) = page.last().map(|event| event.cursor) else {
            return Ok(Next::WaitForChange);
        };
        let count = page.len();
        let wanted: Vec<EventWithApproval> = page.into_iter().filter(|event| self.wants(event)).collect();
        if wanted.is_empty() {
            skipped.until = last;
            skipped.count += count;
            if skipped.count >= MOST_SKIPPED {
                skipped.count = 0;
                position.advance(last);
                position.release(store).await?;
            }
            return Ok(match count < PAGE {
                true => Next::WaitForChange,
                false => Next::Continue,
            });
        }
        let now = store.now().await?;
        let wait = position.wait(now).max(position.claimed_for(&self.node, now));
        if !wait.is_zero() {
            return Ok(Next::Pause(wait.min(CLAIM)));
        }
        if !position.claim(store, &self.node).await? {
            return Ok(Next::Continue);
        }
        let pause = self.deliver_all(service, &mut position, wanted).await?;
        if pause.is_none() && !service.stopping.is_cancelled() {
            position.advance(last);
            skipped.count = 0;
        }
        position.release(store).await?;
        Ok(pause.map_or(Next::Continue, Next::Pause))
    }

    fn wants(&self, event: &EventWithApproval) -> bool {
        self.filter
            .wants(event.event.what.as_str(), event.approval.agent.as_str())
    }

    /// Sends events in order. Returns the pause before the next attempt if one failed.
    async fn deliver_all(
        &self,
        service: &Service,
        position: &mut Position,
        events: Vec<EventWithApproval>,
    ) -> Result<Option<Duration>, StoreError> {
        let store = service.store();
        let mut claimed = Instant::now();
        for event in events {
            if service.stopping.is_cancelled() {
                return Ok(None);
            }
            if claimed.elapsed() > CLAIM / 2 {
                if !position.claim(store, &self.node).await? {
                    return Ok(Some(Duration::ZERO));
                }
                claimed = Instant::now();
            }
            let now = store.now().await?;
            let is_old = now.since(event.event.at) > GIVE_UP_AFTER;
            if is_old && position.failures() > 0 {
                self.give_up(service, position, &event);
                continue;
            }
            let sent = tokio::select! {
                sent = self.send(&event) => sent,
                () = service.stopping.cancelled() => return Ok(None),
            };
            match sent {
                Ok(()) => {
                    if position.failures() > 0 {
                        tracing::info!(webhook = self.name, "the receiver answers again");
                    }
                    service.metrics.webhook("delivered");
                    position.succeeded(event.cursor);
                }
                Err(failure) => {
                    service.metrics.webhook("failed");
                    let pause = failure.pause(position.failures());
                    tracing::warn!(
                        webhook = self.name,
                        approval = %event.approval.id,
                        "not delivered, next attempt in {} s: {}",
                        pause.as_secs(),
                        failure.reason
                    );
                    position.failed(now.plus(pause));
                    if is_old {
                        self.give_up(service, position, &event);
                    }
                    return Ok(Some(pause.min(CLAIM)));
                }
            }
        }
        Ok(None)
    }

    fn give_up(&self, service: &Service, position: &mut Position, event: &EventWithApproval) {
        service.metrics.webhook("given_up");
        tracing::error!(
            webhook = self.name,
            approval = %event.approval.id,
            "the event {} is not sent: the receiver has not accepted it for three days",
            event.event.number
        );
        position.advance(event.cursor);
    }

    /// Sends one event. Any response with a status of 2xx means that it was received.
    async fn send(&self, event: &EventWithApproval) -> Result<(), Failed> {
        let (id, body) = message(event).ok_or_else(|| Failed::because("the stored event is not JSON"))?;
        let headers = self
            .headers(&id, &body)
            .map_err(|error| Failed::because(&error.to_string()))?;
        let request = self
            .client
            .open(Method::POST, &self.target, headers, Bytes::from(body));
        let response = match tokio::time::timeout(ANSWER_WITHIN, request).await {
            Err(_) => {
                let limit = ANSWER_WITHIN.as_secs();
                return Err(Failed::because(&format!("no answer within {limit} s")));
            }
            Ok(Err(RequestError::NotSent(reason) | RequestError::Unknown(reason))) => {
                return Err(Failed::because(&reason));
            }
            Ok(Ok(response)) => response,
        };
        match response.status {
            200..=299 => Ok(()),
            status => Err(Failed {
                reason: format!("the receiver answered {status}"),
                retry_after: retry_after(&response.headers),
            }),
        }
    }

    fn headers(&self, id: &str, body: &str) -> Result<HeaderMap, header::InvalidHeaderValue> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = now.as_secs();
        let signature = self.keys.sign(id, timestamp, body);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let values = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        for (name, value) in values {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value)?);
        }
        Ok(headers)
    }
}

/// Events that were read but not sent, and not stored as such.
#[derive(Default)]
struct Skipped {
    until: countersign::store::Cursor,
    count: usize,
}

/// A failed attempt.
struct Failed {
    reason: String,
    /// Pause that the receiver asked for.
    retry_after: Option<Duration>,
}

impl Failed {
    fn because(reason: &str) -> Failed {
        Failed {
            reason: reason.to_owned(),
            retry_after: None,
        }
    }

    /// Returns the pause before the next attempt, after `failures` earlier ones. Up to a tenth is added at random, so
    /// that many events do not return at the same moment.
    fn pause(&self, failures: u32) -> Duration {
        let [.., longest] = PAUSES;
        let number = usize::try_from(failures).unwrap_or(usize::MAX);
        let pause = PAUSES.get(number).copied().unwrap_or(longest);
        let asked = self
            .retry_after
            .map_or(Duration::ZERO, |asked| asked.min(longest));
        let mut random = [0; 1];
        // Without randomness there is no extra pause.
        let _ = getrandom::fill(&mut random);
        let [extra] = random;
        let pause = pause.max(asked);
        pause + pause / 10 * u32::from(extra) / 255
    }
}

/// Returns the pause that the receiver asks for, if it gives it in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Body of a request.
#[derive(Serialize)]
struct Message<'a> {
    r#type: String,
    timestamp: Moment,
    data: &'a FeedEventView,
}

/// Returns the id and the body of the request for an event. The id is the same for every attempt. `None` if the stored
/// event is not JSON.
fn message(happened: &EventWithApproval) -> Option<(String, String)> {
    let (approval, event) = (&happened.approval, &happened.event);
    let view = FeedEventView::new(approval, event)?;
    let kind = event.what.as_str();
    let subject = match CALL_EVENTS.contains(&kind) {
        true => "call",
        false => "approval",
    };
    let message = Message {
        r#type: format!("{subject}.{kind}"),
        timestamp: event.at.into(),
        data: &view,
    };
    let body = serde_json::to_string(&message).ok()?;
    Some((format!("{}-{}", approval.id, event.number), body))
}
