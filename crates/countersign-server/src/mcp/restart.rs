//! A single stdio server that is started again after it ended by itself (X80).
//!
//! Client messages go to the relay of the current process. When a process ends, open requests to it get an error and
//! its held calls end as unknown or not run (`abandoned`). The next request starts a new process with the client's
//! `initialize`. The first tool call after that gets an error and is not sent, because the state that the old process
//! kept in memory is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::call::name_of;
use super::child::{self, Child, Launch, Output};
use super::frame::{Frame, Kind};
use super::gateway::Gateway;
use super::lines::{Lines, Read};
use super::relay::{Back, Next, Relay, Who};
use super::server::Server;
use super::{builtin_tools, ended_at_once, next, wire};
use crate::duration;
use crate::failure::Exit;
use crate::mcp::lock;
use crate::output;

/// How long a restarted server may take to answer `initialize`.
const GREETS_WITHIN: Duration = Duration::from_secs(10);
/// Key for [`Backoff`]; there is only one server, so it needs no name.
const WHOSE: &str = "";
/// Error for the first tool call after a restart.
pub const STARTED_AGAIN: &str = "not sent: the server had ended and was started again, so what it kept in memory is gone; make the \
                             call again if it still makes sense";

/// One of the processes of a server: its relay and its output.
pub type Incarnation = (Arc<Relay>, Lines<Output>);

/// A server that is restarted when it ends.
pub struct Restarting {
    gateway: Arc<Gateway>,
    launch: Launch,
    state: Mutex<State>,
    starts: mpsc::UnboundedSender<Incarnation>,
    backoff: Backoff,
    /// Whether the next tool call gets the error that the server was restarted.
    owes_notice: AtomicBool,
    /// Cancelled when the client is gone; nothing is started after that.
    is_over: CancellationToken,
}

struct State {
    relay: Arc<Relay>,
    child: Option<Child>,
    began: Instant,
    /// Resolves to the exit code of the last process that ended; `None` if none has ended yet.
    ended: Option<JoinHandle<Exit>>,
}

impl Restarting {
    /// Creates the handle of a server that was just started. A stateless server also takes over calls that a dead
    /// gateway left open. The receiver yields this process and each later one, for [`Restarting::hear`].
    pub async fn new(
        gateway: Arc<Gateway>,
        who: Who,
        name: String,
        launch: Launch,
        (child, way, lines): child::Started,
    ) -> Result<(Arc<Restarting>, mpsc::UnboundedReceiver<Incarnation>), crate::failure::Failure> {
        let server = Arc::new(Server::new(name, way));
        gateway.resume(&server).await?;
        let relay = Arc::new(Relay::new(gateway.clone(), server, who));
        let (starts, incarnations) = mpsc::unbounded_channel();
        let _ = starts.send((relay.clone(), lines));
        let state = State {
            relay,
            child: Some(child),
            began: Instant::now(),
            ended: None,
        };
        let restarting = Restarting {
            gateway,
            launch,
            state: Mutex::new(state),
            starts,
            backoff: Backoff::default(),
            owes_notice: AtomicBool::new(false),
            is_over: CancellationToken::new(),
        };
        Ok((Arc::new(restarting), incarnations))
    }

    /// Forwards the client's messages until the client disconnects.
    pub async fn client(&self, mut lines: Lines<impl AsyncRead + Unpin>, back: Back) {
        while let Some(read) = next(&mut lines).await {
            let Some(relay) = self.relay_for(&read, &back).await else {
                continue;
            };
            match relay.hear_client(read, &back).await {
                Next::Send(line) => {
                    if relay.server.send(line).await.is_err() {
                        relay.tell_lost(&back).await;
                    }
                }
                Next::Later(ruling) => relay.later(ruling, &back),
                Next::Done => {}
            }
        }
    }

    /// Reads the output of one process after another. Ends if the first process ends before it was ready, or if no
    /// further process is needed.
    pub async fn hear(
        self: Arc<Self>,
        mut incarnations: mpsc::UnboundedReceiver<Incarnation>,
        to_client: Back,
    ) {
        let mut is_first = true;
        loop {
            let (relay, mut lines) = tokio::select! {
                started = incarnations.recv() => match started {
                    Some(started) => started,
                    None => return,
                },
                () = self.is_over.cancelled(), if !is_first => return,
            };
            while let Some(read) = next(&mut lines).await {
                if let Some(line) = relay.hear_server(read) {
                    // The client may be gone; the server may still be needed.
                    let _ = to_client.send(line).await;
                }
            }
            let was_ready = !relay.server.is_new();
            relay.server.gone();
            if self.gateway.stopping.is_cancelled() || self.is_over.is_cancelled() {
                return;
            }
            self.gateway.server_ended(&relay.server);
            relay.tell_lost(&to_client).await;
            if is_first && !was_ready {
                ended_at_once(&relay.server.name);
                return;
            }
            is_first = false;
            self.note_end();
            output::print_to_stderr(&format!(
                "countersign: the server `{}` ended; it is started again with the client's next request",
                relay.server.name
            ));
        }
    }

    /// Handles the client's disconnection: no server is started after it. Returns once all answers have been sent.
    pub async fn client_left(&self) {
        self.is_over.cancel();
        self.current().client_left().await;
    }

    /// Ends the server, if it still runs, and returns the exit code of its last process.
    pub async fn end(&self) -> Exit {
        self.is_over.cancel();
        let (child, ended) = {
            let mut state = lock(&self.state);
            (state.child.take(), state.ended.take())
        };
        match (child, ended) {
            (Some(child), _) => child.end().await,
            (None, Some(ended)) => ended.await.unwrap_or(Exit::Error),
            (None, None) => Exit::Done,
        }
    }

    fn current(&self) -> Arc<Relay> {
        lock(&self.state).relay.clone()
    }

    /// Returns the relay for a message, after restarting the server if it has ended. `None` if the message was answered
    /// with an error or dropped.
    async fn relay_for(&self, read: &Read, back: &Back) -> Option<Arc<Relay>> {
        let relay = self.current();
        let is_there = !relay.server.is_gone();
        let Ok(frame) = read else {
            return Some(relay);
        };
        let Kind::Request { id, method } = &frame.kind else {
            return is_there.then_some(relay);
        };
        let is_call = method == "tools/call";
        if is_call && is_our_tool(frame) {
            return Some(relay);
        }
        let relay = match is_there {
            true => relay,
            false => match self.start(&relay, method).await {
                Ok(relay) => relay,
                Err(why) => {
                    let _ = back
                        .send(wire::error(Some(id.as_json()), wire::INTERNAL, &why))
                        .await;
                    return None;
                }
            },
        };
        if is_call && self.owes_notice.swap(false, Ordering::Relaxed) {
            let told = wire::error(Some(id.as_json()), wire::INTERNAL, STARTED_AGAIN);
            let _ = back.send(told).await;
            return None;
        }
        Some(relay)
    }

    /// Starts the server again and repeats the client's handshake, unless the client's request is itself `initialize`.
    /// Fails with the reason, such as that the backoff is not over.
    async fn start(&self, old: &Relay, method: &str) -> Result<Arc<Relay>, String> {
        if let Some(wait) = self.backoff.wait(WHOSE) {
            let wait = duration::show(wait + Duration::from_secs(1));
            return Err(format!(
                "the server keeps ending; it can be started again in {wait}"
            ));
        }
        let (child, way, lines) = Child::start(&self.launch).map_err(|failure| failure.message)?;
        let server = Arc::new(Server::new(old.server.name.clone(), way));
        let relay = Relay::new(self.gateway.clone(), server.clone(), old.who.clone());
        let relay = Arc::new(relay.with_seen(old.seen.for_another_server()));
        *lock(&relay.client) = lock(&old.client).clone();
        let _ = self.starts.send((relay.clone(), lines));
        {
            let mut state = lock(&self.state);
            state.relay = relay.clone();
            state.child = Some(child);
            state.began = Instant::now();
        }
        // A client that sends `initialize` again does the handshake itself.
        if method != "initialize" {
            let greeted = tokio::time::timeout(GREETS_WITHIN, greet(&relay, old)).await;
            if !greeted.unwrap_or(false) {
                // End the process; the reader of its output records the end.
                let child = lock(&self.state).child.take();
                relay.server.gone();
                if let Some(child) = child {
                    lock(&self.state).ended = Some(tokio::spawn(child.end()));
                }
                return Err("the server was started again and does not answer".to_owned());
            }
        }
        if let Err(error) = self.gateway.resume(&server).await {
            tracing::warn!("what was left open cannot be taken up: {error}");
        }
        Ok(relay)
    }

    fn note_end(&self) {
        let mut state = lock(&self.state);
        self.backoff.ended(WHOSE, state.began.elapsed());
        self.owes_notice.store(true, Ordering::Relaxed);
        if let Some(child) = state.child.take() {
            state.ended = Some(tokio::spawn(child.end()));
        }
    }
}

/// Repeats the client's handshake with a new process. Returns true if the server accepts requests now.
async fn greet(relay: &Relay, old: &Relay) -> bool {
    let server = &relay.server;
    let greeting = lock(&old.client).greeting.clone();
    match (greeting, old.server.meta()) {
        (Some(greeting), _) => {
            let answer = server.request("initialize", &greeting).await;
            let is_good = answer.is_ok_and(|answer| answer.result.is_some());
            let welcome = wire::notification("notifications/initialized", "{}");
            if !is_good || server.send(welcome).await.is_err() {
                return false;
            }
            server.mark_greeted();
        }
        (None, Some(meta)) => server.speaks(meta),
        (None, None) => {}
    }
    true
}

/// Returns true if a call is to a built-in tool, which needs no server.
fn is_our_tool(frame: &Frame) -> bool {
    let params = frame.part(&frame.params).unwrap_or_default();
    name_of(params).is_some_and(|name| builtin_tools::is_own(&name))
}
