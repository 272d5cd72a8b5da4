//! One upstream behind the multiplexer: its relay, its stage, and whether its tools may be offered.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::offered::KnownResources;
use crate::mcp::builtin_tools;
use crate::mcp::frame::pick;
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Relay;
use crate::mcp::server::{Gone, Pages, Params, Server, Upstream};
use crate::mcp::tools::definition;
use crate::output;

/// One upstream behind the multiplexer. A restarted server is a new `UpstreamRelay` under the same number.
pub struct UpstreamRelay {
    /// The relay between the client and this server, which knows nothing of the other servers.
    pub relay: Arc<Relay>,
    /// The server's result of `initialize`; `None` until the handshake is done.
    pub greeted: Mutex<Option<Bytes>>,
    /// Resources of this server.
    pub offered: Mutex<KnownResources>,
    stage: watch::Sender<Stage>,
    standing: Mutex<Standing>,
    /// Whether the server got `notifications/initialized`.
    is_welcomed: AtomicBool,
    /// Whether the client has yet to be informed that this process replaced an earlier one.
    owes_notice: AtomicBool,
    /// Whether the server was ever ready.
    was_ready: AtomicBool,
    /// When the server was started.
    pub began: Instant,
}

/// Stage of the connection to a server.
#[derive(Clone, Debug)]
pub enum Stage {
    /// The handshake is not done.
    New,
    /// The server accepts requests. Holds its capabilities as JSON, or `None` if it was not asked for them.
    Ready(Option<Arc<str>>),
    /// The server is not used, for this reason.
    Out(Arc<str>),
}

/// Whether the server's tools may be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    Good,
    Refused(String),
}

/// Upstream for a server that could not be reached.
pub struct UnreachableUpstream;

impl Upstream for UnreachableUpstream {
    fn send(&self, _frame: OneLine) -> BoxFuture<'_, Result<(), Gone>> {
        async { Err(Gone) }.boxed()
    }
}

impl UpstreamRelay {
    /// Creates an upstream before its handshake.
    pub fn new(relay: Relay) -> UpstreamRelay {
        UpstreamRelay {
            relay: Arc::new(relay),
            greeted: Mutex::default(),
            offered: Mutex::default(),
            stage: watch::Sender::new(Stage::New),
            standing: Mutex::new(Standing::Unknown),
            is_welcomed: AtomicBool::new(false),
            owes_notice: AtomicBool::new(false),
            was_ready: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// Creates the upstream of a new process that replaces one that ended, for the same client.
    pub fn after(old: &UpstreamRelay, upstream: Box<dyn Upstream>) -> UpstreamRelay {
        let old = &old.relay;
        let server = Arc::new(Server::new(old.server.name.clone(), upstream));
        let relay = Relay::new(old.gateway.clone(), server, old.who.clone());
        let relay = relay.with_seen(old.seen.for_another_server());
        *lock(&relay.client) = lock(&old.client).clone();
        UpstreamRelay {
            owes_notice: AtomicBool::new(true),
            ..UpstreamRelay::new(relay)
        }
    }

    /// Returns true on the first call if this process replaced an earlier one, and false after that. The caller then
    /// answers the client's tool call with an error instead of sending it.
    pub fn takes_notice(&self) -> bool {
        self.owes_notice.swap(false, Ordering::Relaxed)
    }

    pub fn name(&self) -> &str {
        &self.relay.server.name
    }

    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// Returns why the server accepts no requests, or `None` if it accepts them.
    pub fn absence(&self) -> Option<String> {
        match &*self.stage.borrow() {
            Stage::Ready(_) => None,
            Stage::New => Some(format!(
                "the server `{}` has not answered a greeting yet",
                self.name()
            )),
            Stage::Out(reason) => Some(format!("the server `{}` is not there: {reason}", self.name())),
        }
    }

    /// Returns true if the server accepts requests.
    pub fn is_ready(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Ready(_))
    }

    /// Returns true if the handshake is not done.
    pub fn is_new(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::New)
    }

    /// Returns true if the server is not used.
    pub fn is_out(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Out(_))
    }

    /// Returns true if the server was ever ready.
    pub fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    /// Marks the server as ready. A server that is out stays out, but counts as having been ready.
    pub fn ready(&self, capabilities: Option<Arc<str>>) {
        self.was_ready.store(true, Ordering::Relaxed);
        self.stage.send_if_modified(|stage| {
            let is_in = !matches!(stage, Stage::Out(_));
            if is_in {
                *stage = Stage::Ready(capabilities);
            }
            is_in
        });
    }

    /// Takes the server out of use and logs the reason. Returns false if it was out of use already.
    pub fn out(&self, reason: &str) -> bool {
        let is_news = self.stage.send_if_modified(|stage| {
            let is_in = !matches!(stage, Stage::Out(_));
            if is_in {
                *stage = Stage::Out(reason.into());
            }
            is_in
        });
        if is_news {
            output::print_to_stderr(&format!(
                "countersign: the server `{}` is left out: {reason}",
                self.name()
            ));
        }
        is_news
    }

    /// Waits until the server is ready or out.
    pub async fn wait_until_ready_or_out(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| !matches!(stage, Stage::New)).await;
    }

    /// Returns true on the first call after the server became ready. The server has yet to get
    /// `notifications/initialized`.
    pub fn is_to_be_welcomed(&self) -> bool {
        self.is_ready() && !self.is_welcomed.swap(true, Ordering::Relaxed)
    }

    /// Returns true if the server declares a capability, or if it is ready and was not asked for its capabilities.
    pub fn can(&self, capability: &str) -> bool {
        match &*self.stage.borrow() {
            Stage::Ready(Some(all)) => {
                let found = pick(all.as_bytes(), [capability]).ok().and_then(|[found]| found);
                found.is_some_and(|found| !matches!(found.get(), "null" | "false"))
            }
            Stage::Ready(None) => true,
            Stage::New | Stage::Out(_) => false,
        }
    }

    /// Lists the server's tools with these parameters, and remembers whether they may be offered. Fails with the reason
    /// if the tools cannot be listed or may not be offered.
    pub async fn list_tools(&self, params: &Params<'_>) -> Result<Pages, String> {
        let pages = match self.relay.server.list_tools(params).await {
            Ok(pages) => pages,
            Err(lost) => {
                let why = lost.why();
                let name = self.name();
                // The previous list is no longer valid.
                self.changed();
                output::print_to_stderr(&format!("countersign: the tools of `{name}` are left out: {why}"));
                return Err(why);
            }
        };
        let collision = collision(&pages.items).map(|collision| collision.to_string());
        let standing = match &collision {
            None => Standing::Good,
            Some(reason) => Standing::Refused(reason.clone()),
        };
        let before = std::mem::replace(&mut *lock(&self.standing), standing.clone());
        match collision {
            None => Ok(pages),
            Some(reason) => {
                if before != standing {
                    output::print_to_stderr(&format!(
                        "countersign: no tool of `{}` is offered: {reason}",
                        self.name()
                    ));
                }
                Err(reason)
            }
        }
    }

    /// Forgets whether the tools may be offered, because they changed.
    pub fn changed(&self) {
        *lock(&self.standing) = Standing::Unknown;
    }

    /// Returns true if the tools have been checked.
    pub fn is_registered(&self) -> bool {
        *lock(&self.standing) != Standing::Unknown
    }

    /// Returns why no tool of this server may be offered; `None` if nothing is known against it. Lists the tools first
    /// if they have not been checked.
    pub async fn refusal(&self) -> Option<String> {
        if !self.is_registered() {
            let server = &self.relay.server;
            // If the listing fails, there is no known collision, and every tool counts as not listed.
            let _ = self.list_tools(&|cursor| server.listing(cursor)).await;
        }
        match &*lock(&self.standing) {
            Standing::Refused(reason) => Some(reason.clone()),
            Standing::Unknown | Standing::Good => None,
        }
    }
}

/// Why the tools of a server may not be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collision {
    /// A tool has no readable name.
    Unreadable,
    /// A tool has this name, which is that of a built-in one.
    Ours(String),
    /// Two tools have this name.
    Twice(String),
}

impl Collision {
    /// Returns true if two tools have the same name or a tool has the name of a built-in one.
    pub fn is_about_names(&self) -> bool {
        !matches!(self, Collision::Unreadable)
    }
}

impl std::fmt::Display for Collision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Collision::Unreadable => f.write_str("it lists a tool whose name cannot be read"),
            Collision::Ours(name) => write!(f, "it lists a tool `{name}`, which is the gateway's own"),
            Collision::Twice(name) => write!(f, "it lists two tools `{name}`"),
        }
    }
}

/// Returns a collision if more than one tool has this name, because it is then unclear which one an approval was for.
pub fn listed_twice(tools: &[Box<RawValue>], name: &str) -> Option<Collision> {
    let names = tools.iter().filter_map(|tool| Some(definition(tool)?.0));
    let count = names.filter(|listed| listed == name).count();
    (count > 1).then(|| Collision::Twice(name.to_owned()))
}

/// Returns a collision if two tools have the same name, a tool has the name of a built-in one, or a name cannot be read
/// (X42); otherwise `None`.
pub fn collision(tools: &[Box<RawValue>]) -> Option<Collision> {
    let mut names = HashSet::new();
    let mut unreadable = None;
    for tool in tools {
        let Some((name, _)) = definition(tool) else {
            unreadable = Some(Collision::Unreadable);
            continue;
        };
        if builtin_tools::is_own(&name) {
            return Some(Collision::Ours(name));
        }
        if !names.insert(name.clone()) {
            return Some(Collision::Twice(name));
        }
    }
    unreadable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x42_tools_that_cannot_be_told_apart_are_refused() {
        let check = |text: &str, expected: Option<&str>| {
            let tools: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
            let found = collision(&tools).map(|collision| collision.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check(r#"[{"name":"a"},{"name":"b"}]"#, None);
        check(
            r#"[{"name":"a"},{"name":"\u0061"}]"#,
            Some("it lists two tools `a`"),
        );
        check(
            r#"[{"name":"countersign_wait"}]"#,
            Some("it lists a tool `countersign_wait`, which is the gateway's own"),
        );
        check(
            r#"[{"name":"a","name":"b"}]"#,
            Some("it lists a tool whose name cannot be read"),
        );
        check("[17]", Some("it lists a tool whose name cannot be read"));
    }
}
