//! Position of a webhook in the event log, kept in the store's registry, so that a restart continues where the last
//! service stopped, and only one of several services sends.

use std::time::Duration;

use countersign::id::Tenant;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Cursor, Store, StoreError};
use countersign::time::Time;
use serde::{Deserialize, Serialize};

use crate::service::StreamEventId;

/// Time for which a claim lasts. The service that holds it renews it before.
pub(super) const CLAIM: Duration = Duration::from_secs(60);

/// The stored position. Every change is a compare-and-swap.
#[derive(Clone, Debug)]
pub(super) struct Position {
    key: String,
    tenant: Tenant,
    version: u32,
    body: Body,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    /// Last event that was delivered or skipped.
    after: String,
    /// Number of failed attempts since the last success.
    #[serde(default)]
    failures: u32,
    /// Time of the next attempt, in microseconds, after a failure.
    #[serde(default)]
    retry_at: Option<i64>,
    /// Service that sends now, and the time until which no other service sends.
    #[serde(default)]
    claim: Option<(String, i64)>,
}

impl Position {
    /// Reads the position of the webhook `name`. A webhook that is new starts at the end of the log.
    pub(super) async fn load(store: &dyn Store, tenant: &Tenant, name: &str) -> Result<Position, StoreError> {
        let key = format!("webhook/{tenant}/{name}");
        let found = store.entry(Kind::Setting, &key).await?;
        let (version, body) = match found {
            Some(entry) => {
                let body = serde_json::from_slice(&entry.body).map_err(|error| {
                    StoreError::Impossible(format!(
                        "the position of webhook `{name}` is not readable: {error}"
                    ))
                })?;
                (entry.version, body)
            }
            None => {
                let after = StreamEventId(store.feed_end(tenant).await?).to_string();
                (
                    0,
                    Body {
                        after,
                        ..Body::default()
                    },
                )
            }
        };
        let mut position = Position {
            key,
            tenant: tenant.clone(),
            version,
            body,
        };
        if version == 0 {
            // If another service wrote the position at the same moment, that one counts; the next load finds it.
            position.save(store).await?;
        }
        Ok(position)
    }

    pub(super) fn after(&self) -> Cursor {
        let parsed = self.body.after.parse::<StreamEventId>();
        parsed.map_or_else(|()| Cursor::default(), |StreamEventId(cursor)| cursor)
    }

    pub(super) fn failures(&self) -> u32 {
        self.body.failures
    }

    /// Returns how long to wait before the next attempt; zero if nothing failed.
    pub(super) fn wait(&self, now: Time) -> Duration {
        let retry_at = self.body.retry_at.map(Time::from_micros);
        retry_at.map_or(Duration::ZERO, |at| at.since(now))
    }

    /// Returns how long another service than `node` still holds the claim; zero if none does.
    pub(super) fn claimed_for(&self, node: &str, now: Time) -> Duration {
        match &self.body.claim {
            Some((holder, until)) if holder != node => Time::from_micros(*until).since(now),
            _ => Duration::ZERO,
        }
    }

    /// Claims the webhook for `node`, or renews its claim. Returns false if another service was faster.
    pub(super) async fn claim(&mut self, store: &dyn Store, node: &str) -> Result<bool, StoreError> {
        let until = store.now().await?.plus(CLAIM);
        self.body.claim = Some((node.to_owned(), until.as_micros()));
        self.save(store).await
    }

    /// Moves the position in memory; `release` stores it.
    pub(super) fn advance(&mut self, after: Cursor) {
        self.body.after = StreamEventId(after).to_string();
    }

    /// Records in memory that an event was received.
    pub(super) fn succeeded(&mut self, after: Cursor) {
        self.advance(after);
        self.body.failures = 0;
        self.body.retry_at = None;
    }

    /// Records in memory that an attempt failed.
    pub(super) fn failed(&mut self, retry_at: Time) {
        self.body.failures = self.body.failures.saturating_add(1);
        self.body.retry_at = Some(retry_at.as_micros());
    }

    /// Stores the position and gives up the claim. Returns false if another service has changed the position.
    pub(super) async fn release(&mut self, store: &dyn Store) -> Result<bool, StoreError> {
        self.body.claim = None;
        self.save(store).await
    }

    async fn save(&mut self, store: &dyn Store) -> Result<bool, StoreError> {
        let entry = Entry {
            kind: Kind::Setting,
            key: self.key.clone(),
            tenant: self.tenant.clone(),
            // Cannot fail: strings and numbers.
            body: serde_json::to_vec(&self.body).unwrap_or_default().into(),
            version: self.version,
            expires_at: None,
        };
        match store.put_entry(entry).await? {
            Put::Written(version) => {
                self.version = version;
                Ok(true)
            }
            Put::Conflict => Ok(false),
        }
    }
}
