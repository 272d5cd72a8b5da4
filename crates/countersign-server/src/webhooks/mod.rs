//! Webhooks: signed HTTP requests that tell other programs about decisions and ends.
//!
//! The event log is the outbox: it is written in the same transaction as the decision, and each webhook has a position
//! in it (`position.rs`). An event is sent until it was received or is three days old, so it may arrive twice, but
//! never gets lost because a program ended. `delivery.rs` sends, `signature.rs` signs.
//!
//! A request contains ids, names and digests, but no arguments, results or comments. The receiver fetches those with
//! its own token.

mod delivery;
mod position;
mod settings;
mod signature;

use std::collections::BTreeMap;

use countersign::id::Tenant;
use countersign_http_client::{AllowedTargets, Client};

pub use settings::WebhookSettings;

use delivery::Webhook;

use crate::failure::Failure;
use crate::service::Service;

/// All webhooks of a service.
#[derive(Default)]
pub struct Webhooks(Vec<Webhook>);

impl Webhooks {
    /// Creates the configured webhooks. `tenant` is the service's tenant, whose events are sent. `private` lists private
    /// addresses that may be called, such as `127.0.0.1:9000`. Fails at the first invalid webhook.
    pub fn new(
        webhooks: &BTreeMap<String, WebhookSettings>,
        tenant: &Tenant,
        private: &[String],
    ) -> Result<Webhooks, Failure> {
        let allowed = AllowedTargets::new(private).map_err(|problem| {
            Failure::error("bad_config", problem.to_string()).hint("write `127.0.0.1:9000`")
        })?;
        let client = Client::new(allowed, delivery::LARGEST_RESPONSE);
        let ready = webhooks.iter().map(|(name, settings)| {
            Webhook::new(name, settings, tenant, client.clone()).map_err(|problem| {
                Failure::error("bad_config", format!("webhook `{name}`: {problem}"))
                    .hint("see \"Webhooks\" in docs/serve.md")
            })
        });
        ready.collect::<Result<_, _>>().map(Webhooks)
    }

    /// Sends events to all webhooks until the service stops.
    pub async fn run(self, service: Service) {
        let running = self.0.into_iter().map(|webhook| webhook.run(&service));
        futures_util::future::join_all(running).await;
    }
}
