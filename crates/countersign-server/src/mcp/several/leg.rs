//! One of several servers: its relay, how far it is, and whether its tools may stand beside the others'.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::offered::Offered;
use crate::mcp::frame::pick;
use crate::mcp::one_line::OneLine;
use crate::mcp::own;
use crate::mcp::relay::Relay;
use crate::mcp::server::{Gone, Lost, Pages, Params, Upstream};
use crate::mcp::tools::definition;
use crate::output;

/// One of several servers.
pub struct Leg {
    /// Between the client and this server, as if there were no other.
    pub relay: Arc<Relay>,
    /// What it answered to the client's greeting.
    pub greeted: Mutex<Option<Bytes>>,
    /// Its resources.
    pub offered: Mutex<Offered>,
    stage: watch::Sender<Stage>,
    standing: Mutex<Standing>,
    /// Whether it was told that the client is ready.
    is_welcomed: AtomicBool,
}

/// How far a server is.
#[derive(Clone, Debug)]
pub enum Stage {
    /// It was not greeted.
    New,
    /// It takes requests, and can do this, as JSON; nothing when it was not asked.
    Ready(Option<Arc<str>>),
    /// It is not used, for this reason.
    Out(Arc<str>),
}

/// Whether its tools may be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    Good,
    Refused(String),
}

/// The way to a server that could not be reached.
pub struct Nowhere;

impl Upstream for Nowhere {
    fn send(&self, _frame: OneLine) -> BoxFuture<'_, Result<(), Gone>> {
        async { Err(Gone) }.boxed()
    }
}

impl Leg {
    /// A server that was not greeted.
    pub fn new(relay: Relay) -> Leg {
        Leg {
            relay: Arc::new(relay),
            greeted: Mutex::default(),
            offered: Mutex::default(),
            stage: watch::Sender::new(Stage::New),
            standing: Mutex::new(Standing::Unknown),
            is_welcomed: AtomicBool::new(false),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.relay.server.name
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// Why it cannot be asked anything; nothing when it can.
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

    /// Whether it takes requests.
    pub fn is_ready(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Ready(_))
    }

    /// Whether nobody greeted it yet.
    pub fn is_new(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::New)
    }

    /// Whether it is not used.
    pub fn is_out(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Out(_))
    }

    /// It takes requests. Nothing brings back one that is out.
    pub fn ready(&self, capabilities: Option<Arc<str>>) {
        self.stage.send_if_modified(|stage| {
            let is_in = !matches!(stage, Stage::Out(_));
            if is_in {
                *stage = Stage::Ready(capabilities);
            }
            is_in
        });
    }

    /// It is not used any more; true when it was until now. Whoever reads the client's log is told.
    pub fn out(&self, reason: &str) -> bool {
        let is_news = self.stage.send_if_modified(|stage| {
            let is_in = !matches!(stage, Stage::Out(_));
            if is_in {
                *stage = Stage::Out(reason.into());
            }
            is_in
        });
        if is_news {
            output::beside(&format!(
                "countersign: the server `{}` is left out: {reason}",
                self.name()
            ));
        }
        is_news
    }

    /// Waits until it is ready, or out.
    pub async fn settled(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| !matches!(stage, Stage::New)).await;
    }

    /// True once: it is to be told that the client is ready.
    pub fn is_to_be_welcomed(&self) -> bool {
        self.is_ready() && !self.is_welcomed.swap(true, Ordering::Relaxed)
    }

    /// Whether it says it can do this; also when it was not asked.
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

    /// Its tools with these parameters; the reason when they may not be offered.
    pub async fn list_tools(&self, params: &Params<'_>) -> Result<Pages, String> {
        let pages = match self.relay.server.list_tools(params).await {
            Ok(pages) => pages,
            Err(Lost::NotSent(why) | Lost::Unknown(why)) => {
                let name = self.name();
                output::beside(&format!("countersign: the tools of `{name}` are left out: {why}"));
                return Err(why);
            }
        };
        let collision = collision(&pages.items).map(|collision| collision.to_string());
        let standing = match &collision {
            None => Standing::Good,
            Some(reason) => Standing::Refused(reason.clone()),
        };
        let before = std::mem::replace(&mut *open(&self.standing), standing.clone());
        match collision {
            None => Ok(pages),
            Some(reason) => {
                if before != standing {
                    output::beside(&format!(
                        "countersign: no tool of `{}` is offered: {reason}",
                        self.name()
                    ));
                }
                Err(reason)
            }
        }
    }

    /// It says that its tools are others now.
    pub fn changed(&self) {
        *open(&self.standing) = Standing::Unknown;
    }

    /// Whether it was looked at what it offers.
    pub fn is_registered(&self) -> bool {
        *open(&self.standing) != Standing::Unknown
    }

    /// Why none of its tools is offered; it is asked for them if they were not looked at.
    pub async fn refusal(&self) -> Option<String> {
        if !self.is_registered() {
            let server = &self.relay.server;
            // Without a list there is no collision either: then every tool counts as not listed.
            let _ = self.list_tools(&|cursor| server.listing(cursor)).await;
        }
        match &*open(&self.standing) {
            Standing::Refused(reason) => Some(reason.clone()),
            Standing::Unknown | Standing::Good => None,
        }
    }
}

/// Why the tools of a server cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collision {
    /// A tool has no name that can be read.
    Unreadable,
    /// A tool has the name of one of ours.
    Ours(String),
    /// Two tools have one name.
    Twice(String),
}

impl Collision {
    /// Returns true if two tools would answer to one name.
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

/// Why tools cannot be told apart, or could be taken for ours (X42).
pub fn collision(tools: &[Box<RawValue>]) -> Option<Collision> {
    let mut names = HashSet::new();
    let mut unreadable = None;
    for tool in tools {
        let Some((name, _)) = definition(tool) else {
            unreadable = Some(Collision::Unreadable);
            continue;
        };
        if own::is_own(&name) {
            return Some(Collision::Ours(name));
        }
        if !names.insert(name.clone()) {
            return Some(Collision::Twice(name));
        }
    }
    unreadable
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
