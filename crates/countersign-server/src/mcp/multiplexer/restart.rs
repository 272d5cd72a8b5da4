//! Restarts one of several servers after it ended by itself (X80).
//!
//! The new process gets the client's `initialize`, and the client is notified that its lists changed. Requests to the
//! old process are lost: a call is sent only to the process that it was ruled on for.

use std::sync::Arc;
use std::time::Duration;

use super::Multiplexer;
use super::connection::{Connection, Source};
use super::greet::{GREETS_WITHIN, capabilities};
use super::server::lists_of;
use super::servers::{At, Spec};
use super::upstream::UpstreamRelay;
use crate::mcp::child::Child;
use crate::mcp::lock;
use crate::output;

/// Maximum number of consecutive ends, without the server having worked for a while. After more of them the server is
/// not restarted.
const MOST_ENDS: u32 = 10;

impl Multiplexer {
    /// Restarts a server after its backoff, and returns the messages of the new process. Returns `None` if the server
    /// is remote, was never ready, keeps ending, or is no longer needed.
    pub(super) async fn start_again(self: &Arc<Self>, number: usize) -> Option<Source> {
        let old = self.upstreams.get(number)?;
        let spec = self.upstreams.spec(number)?;
        if let Some(child) = self.take_child(number) {
            self.backoff.ended(&spec.name, old.began.elapsed());
            tokio::spawn(child.end());
        }
        if !matches!(spec.at, At::Command(_)) || self.closing.is_cancelled() {
            return None;
        }
        let ends = self.backoff.ends(&spec.name);
        if ends > MOST_ENDS || (ends <= 1 && !old.was_ready()) {
            return None;
        }
        loop {
            let wait = self.backoff.wait(&spec.name).unwrap_or_default();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.closing.cancelled() => return None,
                () = self.gateway.stopping.cancelled() => return None,
            }
            let started = spec.connect();
            match started {
                Ok(connection) => return self.replace(number, &old, connection).await,
                Err(failure) => {
                    let (name, why) = (&spec.name, failure.message);
                    output::print_to_stderr(&format!(
                        "countersign: the server `{name}` cannot be started again: {why}"
                    ));
                    self.backoff.ended(name, Duration::ZERO);
                    if self.backoff.ends(name) > MOST_ENDS {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns true if a server that just ended may be restarted.
    pub(super) fn may_come_back(&self, number: usize) -> bool {
        let is_command = |spec: &Spec| matches!(spec.at, At::Command(_));
        let may_come =
            |upstream: Arc<UpstreamRelay>| upstream.was_ready() || self.backoff.ends(upstream.name()) > 0;
        self.upstreams.spec(number).is_some_and(is_command)
            && self.upstreams.get(number).is_some_and(may_come)
    }

    fn take_child(&self, number: usize) -> Option<Child> {
        lock(&self.children).remove(&number)
    }

    async fn replace(
        self: &Arc<Self>,
        number: usize,
        old: &UpstreamRelay,
        connection: Connection,
    ) -> Option<Source> {
        let upstream = Arc::new(UpstreamRelay::after(old, connection.upstream));
        if let Some(child) = connection.child {
            lock(&self.children).insert(number, child);
        }
        // The task that ends all servers may have run before this process was added to the list.
        if self.closing.is_cancelled() {
            if let Some(child) = self.take_child(number) {
                let _ = child.end().await;
            }
            return None;
        }
        self.upstreams.replace(number, upstream.clone());
        let switch = self.clone();
        let meta = old.relay.server.meta();
        tokio::spawn(async move { switch.greet_again(number, upstream, meta).await });
        Some(connection.source)
    }

    /// Repeats the client's handshake with a new process, and notifies the client.
    async fn greet_again(
        self: Arc<Self>,
        number: usize,
        upstream: Arc<UpstreamRelay>,
        meta: Option<Arc<str>>,
    ) {
        let server = &upstream.relay.server;
        let greeting = lock(&upstream.relay.client).greeting.clone();
        match (greeting, meta) {
            (Some(greeting), _) => {
                let answer =
                    tokio::time::timeout(GREETS_WITHIN, server.request("initialize", &greeting)).await;
                let result = answer.ok().and_then(Result::ok);
                let Some(result) = result.and_then(|answer| answer.shared(&answer.result)) else {
                    upstream.out("it was started again and does not answer the greeting");
                    // The task that reads the output of this process notices the end and starts another process.
                    if let Some(child) = self.take_child(number) {
                        self.backoff.ended(upstream.name(), upstream.began.elapsed());
                        let _ = child.end().await;
                    }
                    return;
                };
                let capabilities = capabilities(&result);
                *lock(&upstream.greeted) = Some(result);
                upstream.ready(Some(capabilities.into()));
            }
            (None, Some(meta)) => {
                server.speaks(meta);
                upstream.ready(None);
            }
            (None, None) => return,
        }
        let initialized = lock(&self.greeting).initialized.clone();
        if let Some(initialized) = initialized
            && upstream.is_to_be_welcomed()
        {
            self.welcome(number, initialized).await;
        }
        if let Err(error) = self.gateway.resume(server).await {
            tracing::warn!("what was left open cannot be taken up: {error}");
        }
        self.subscribe_again(number, &upstream).await;
        output::print_to_stderr(&format!(
            "countersign: the server `{}` was started again",
            upstream.name()
        ));
        self.say(self.changes(number, &lists_of(&upstream), false)).await;
    }
}
