//! An upstream server: sends messages to it, makes the gateway's own requests to it, and remembers the tools that it
//! lists.
//!
//! All messages from the server pass through here. Answers to the gateway's own requests are kept; everything else is
//! for the client. This module does not decide which calls are gated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use countersign::stopwatch::TimeLimit;
use countersign_http_client::RequestError;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use super::answer::{is_our_task, speaks_for_us};
use super::bad::Bad;
use super::builtin_tools;
use super::frame::{Frame, Id, Kind, members, pick, quote};
use super::one_line::OneLine;
use super::params;
use super::tools::{Listed, Tools, definition};
use super::wire;
use crate::links::StartFolders;
use crate::mcp::lock;
use crate::output;

/// Prefix of the gateway's request ids, which clients and servers may not use.
pub const OWN: &str = "countersign:";
/// Reason given for a call that is not sent because its time limit is over.
pub const LATE: &str = "its time was over before it could be sent";
/// Time limit for one listing that the gateway requests, with all its pages.
const LISTING: Duration = Duration::from_secs(10);
/// Maximum number of pages of one listing.
const MOST_PAGES: usize = 200;

/// Sends messages to a server over some transport.
pub trait Upstream: Send + Sync + 'static {
    /// Hands a message to the transport, which may still lose it.
    fn send(&self, frame: OneLine) -> BoxFuture<'_, Result<(), Gone>>;

    /// Sends a message with extra headers, on transports that have headers.
    fn send_with(&self, frame: OneLine, _headers: Headers) -> BoxFuture<'_, Result<(), Gone>> {
        self.send(frame)
    }

    /// Returns true if the transport has headers.
    fn has_headers(&self) -> bool {
        false
    }

    /// Returns the folders of the server, if it runs on this machine.
    fn folders(&self) -> Option<&StartFolders> {
        None
    }

    /// Sets the headers of all later messages, on transports that have headers.
    fn set_headers(&self, _headers: Vec<(HeaderName, HeaderValue)>) {}
}

/// Headers of one message.
pub type Headers = Vec<(HeaderName, HeaderValue)>;

/// The server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The request was not sent: no connection, or its time limit was over. The text is the reason.
    NotSent(String),
    /// The request was sent and answered with an HTTP error status in place of a message. The server may have acted on
    /// it before, or a proxy in between may have answered.
    Refused(String),
    /// The request was or may have been sent, and its answer is missing or cannot be read. The text is the reason.
    Unknown(String),
}

impl Lost {
    /// Returns the reason as text, whatever its kind.
    pub fn why(self) -> String {
        match self {
            Lost::NotSent(why) | Lost::Refused(why) | Lost::Unknown(why) => why,
        }
    }
}

impl From<RequestError> for Lost {
    fn from(reason: RequestError) -> Lost {
        match reason {
            RequestError::NotSent(why) => Lost::NotSent(why),
            RequestError::Unknown(why) => Lost::Unknown(why),
        }
    }
}

/// Makes the parameters of a request for one page of a list. The argument is the page's cursor, as JSON.
pub type Params<'p> = dyn Fn(Option<&str>) -> String + Send + Sync + 'p;

/// All pages of a list.
#[derive(Debug, Default)]
pub struct Pages {
    /// The listed items, as the server wrote them.
    pub items: Vec<Box<RawValue>>,
    /// Members of the first page other than the items and the cursor.
    pub rest: Vec<(String, Box<RawValue>)>,
}

/// An upstream server: its transport, its tools and the gateway's open requests to it.
pub struct Server {
    /// Name in the policy and on cards; with several servers, also the prefix that the client sees.
    pub name: String,
    /// Number unique in this process, also among servers of the same name.
    pub number_here: u64,
    /// Tools that the server lists.
    pub tools: Tools,
    upstream: Box<dyn Upstream>,
    own: Mutex<HashMap<Id, oneshot::Sender<Result<Frame, Lost>>>>,
    stage: watch::Sender<Stage>,
    /// Protocol members of the client's `_meta`, for the gateway's own requests; `None` if the client used
    /// `initialize`.
    meta: Mutex<Option<Arc<str>>>,
}

/// Stage of the connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The handshake is not done.
    New,
    /// The server accepts requests.
    Ready,
    /// The server is gone.
    Gone,
}

impl Server {
    /// Creates a server before its handshake.
    pub fn new(name: String, upstream: Box<dyn Upstream>) -> Server {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        Server {
            name,
            number_here: COUNT.fetch_add(1, Ordering::Relaxed),
            tools: Tools::default(),
            upstream,
            own: Mutex::default(),
            stage: watch::Sender::new(Stage::New),
            meta: Mutex::default(),
        }
    }

    /// Sends a message. On transports with headers, arguments that the tool wants in headers are added as headers.
    pub async fn send(&self, frame: OneLine) -> Result<(), Gone> {
        match self.upstream.has_headers() {
            true => {
                let headers = params::headers(&self.tools, &frame);
                self.upstream.send_with(frame, headers).await
            }
            false => self.upstream.send(frame).await,
        }
    }

    /// Sets the headers of all later messages, on transports that have headers.
    pub fn set_headers(&self, headers: Vec<(HeaderName, HeaderValue)>) {
        self.upstream.set_headers(headers);
    }

    /// Returns the folders of the server, if it runs on this machine.
    pub fn folders(&self) -> Option<&StartFolders> {
        self.upstream.folders()
    }

    /// Marks the handshake as done.
    pub fn mark_greeted(&self) {
        self.stage.send_if_modified(|stage| {
            let is_new = *stage == Stage::New;
            if is_new {
                *stage = Stage::Ready;
            }
            is_new
        });
    }

    /// Makes new requests of the gateway to this server fail. Earlier ones may still be answered.
    pub fn close(&self) {
        self.stage.send_replace(Stage::Gone);
    }

    /// Marks the server as gone; requests of the gateway that wait for an answer fail.
    pub fn gone(&self) {
        self.stage.send_replace(Stage::Gone);
        lock(&self.own).clear();
    }

    pub fn is_gone(&self) -> bool {
        *self.stage.borrow() == Stage::Gone
    }

    /// Returns true if the handshake is not done.
    pub fn is_new(&self) -> bool {
        *self.stage.borrow() == Stage::New
    }

    /// Waits until the server accepts requests. Returns false if it is gone.
    pub async fn ready(&self) -> bool {
        let mut stage = self.stage.subscribe();
        let reached = stage.wait_for(|stage| *stage != Stage::New).await;
        reached.is_ok_and(|stage| *stage == Stage::Ready)
    }

    /// Remembers the protocol members of the client's `_meta`, for the gateway's own requests, and marks the server as
    /// ready.
    pub fn speaks(&self, meta: Arc<str>) {
        *lock(&self.meta) = Some(meta);
        self.mark_greeted();
    }

    /// Returns the protocol members of `_meta` for the gateway's requests; `None` if the client used `initialize`.
    pub fn meta(&self) -> Option<Arc<str>> {
        lock(&self.meta).clone()
    }

    /// Delivers a response to one of the gateway's requests, for which it returns `None`, and returns any other
    /// message. A request of the server under one of the gateway's ids is dropped, because the client's answer to it
    /// would be taken for an answer to the gateway's request (X14).
    pub fn take_own(&self, frame: Frame) -> Option<Frame> {
        let id = match &frame.kind {
            Kind::Response { id } if is_own(id) => id,
            _ if is_in_our_name(&frame) => {
                let name = &self.name;
                output::print_to_stderr(&format!(
                    "countersign: `{name}` spoke in our name; that was not passed on"
                ));
                return None;
            }
            _ => return Some(frame),
        };
        // A late answer has no waiting caller.
        if let Some(waiting) = lock(&self.own).remove(id) {
            let _ = waiting.send(Ok(frame));
        }
        None
    }

    /// Sends a request of the gateway and waits for the answer without a time limit.
    pub async fn request(&self, method: &str, params: &str) -> Result<Frame, Lost> {
        self.exchange(method, params, None).await
    }

    /// Sends a request of the gateway and waits for the answer. The request is not sent after the time limit, however
    /// long it was queued.
    pub async fn request_in_time(&self, method: &str, params: &str, limit: TimeLimit) -> Result<Frame, Lost> {
        self.exchange(method, params, Some(limit)).await
    }

    async fn exchange(&self, method: &str, params: &str, limit: Option<TimeLimit>) -> Result<Frame, Lost> {
        let no_id = || Lost::NotSent("no random bytes for an id".to_owned());
        let id = Id::unguessable(OWN).ok_or_else(no_id)?;
        let (sender, answer) = oneshot::channel();
        lock(&self.own).insert(id.clone(), sender);
        if *self.stage.borrow() == Stage::Gone {
            lock(&self.own).remove(&id);
            return Err(Lost::NotSent("the server is gone".to_owned()));
        }
        let forget = Forget { server: self, id };
        let frame = wire::request(&forget.id, method, params);
        let (frame, held_back) = match limit {
            Some(limit) => {
                let (frame, held_back) = frame.until(limit);
                (frame, Some(held_back))
            }
            None => (frame, None),
        };
        if self.send(frame).await.is_err() {
            return Err(Lost::NotSent("the server is gone".to_owned()));
        }
        let ended = |_| Lost::Unknown("the server ended before it answered".to_owned());
        let Some(held_back) = held_back else {
            return answer.await.map_err(ended)?;
        };
        tokio::select! {
            answer = answer => answer.map_err(ended)?,
            Ok(()) = held_back => Err(Lost::NotSent(LATE.to_owned())),
        }
    }

    /// Fails every request of the gateway whose id occurs in these bytes. Returns false if there is none. Only this
    /// server knows the ids, so the bytes cannot end requests to another server.
    pub fn lost_in(&self, bad: &Bad, why: &str) -> bool {
        let mut own = lock(&self.own);
        let ids: Vec<Id> = own.keys().filter(|id| bad.mentions(id)).cloned().collect();
        for waiting in ids.iter().filter_map(|id| own.remove(id)) {
            let _ = waiting.send(Err(Lost::Unknown(why.to_owned())));
        }
        !ids.is_empty()
    }

    /// Completes the gateway's own pending request `id` with the error `why`. Does nothing if no such request is
    /// pending.
    pub fn lost(&self, id: &Id, why: Lost) {
        if let Some(waiting) = lock(&self.own).remove(id) {
            let _ = waiting.send(Err(why));
        }
    }

    /// Returns a tool as the server lists it, after asking the server if the tool is not known. `None` if it is not
    /// listed.
    pub async fn listed(&self, tool: &str) -> Option<Listed> {
        if let Some(known) = self.tools.known(tool) {
            return known;
        }
        // If there is no list, the tool counts as not listed, so that a call of a pinned tool is held.
        let _ = self.list().await;
        self.tools.get(tool)
    }

    /// Fetches all tools and replaces the cached list.
    pub async fn list(&self) -> Result<(), Lost> {
        let page = |cursor: Option<&str>| self.listing(cursor);
        self.list_tools(&page).await.map(drop)
    }

    /// Fetches all tools now, with these parameters, and replaces the cached list. Returns their definitions as the
    /// server wrote them. If the list cannot be used, the cached tools are forgotten.
    pub async fn list_tools(&self, params: &Params<'_>) -> Result<Pages, Lost> {
        let slow = || Lost::Unknown("the server did not list its tools in time".to_owned());
        let began = self.tools.began();
        let pages = tokio::time::timeout(LISTING, self.pages("tools/list", "tools", params)).await;
        match pages.map_err(|_| slow()).and_then(|pages| pages) {
            Ok(pages) => {
                let listed: Option<Vec<_>> = pages.items.iter().map(|tool| definition(tool)).collect();
                match listed.filter(|listed| !listed.iter().any(|(name, _)| builtin_tools::is_own(name))) {
                    Some(listed) => self.tools.replace(listed, began),
                    // The list contains an unreadable tool or the name of a built-in one. The client does not get such
                    // a list either.
                    None => self.tools.not_listed(),
                }
                Ok(pages)
            }
            Err(lost) => {
                self.tools.not_listed();
                Err(lost)
            }
        }
    }

    /// Returns the definitions of all tools as the server wrote them, without a time limit.
    pub async fn all_tools(&self) -> Result<Vec<Box<RawValue>>, Lost> {
        let page = |cursor: Option<&str>| self.listing(cursor);
        let pages = self.pages("tools/list", "tools", &page).await?;
        Ok(pages.items)
    }

    /// Fetches all pages of a list; `member` is the member of each result that holds the items.
    pub async fn pages(&self, method: &str, member: &str, params: &Params<'_>) -> Result<Pages, Lost> {
        let unclear = || Lost::Unknown(format!("the server did not answer `{method}` with a list"));
        let mut all = Pages::default();
        let mut cursor: Option<String> = None;
        for page in 0..MOST_PAGES {
            let frame = self.request(method, &params(cursor.as_deref())).await?;
            let result = frame.part(&frame.result).ok_or_else(unclear)?;
            if speaks_for_us(result) {
                return Err(Lost::Unknown(format!(
                    "the server's answer to `{method}` claims to be the gateway's own"
                )));
            }
            let [items, next] = pick(result, [member, "nextCursor"]).map_err(|_| unclear())?;
            let items = items.ok_or_else(unclear)?.get();
            let items: Vec<Box<RawValue>> = serde_json::from_str(items).map_err(|_| unclear())?;
            all.items.extend(items);
            if page == 0 {
                let rest = members(result).unwrap_or_default();
                let rest = rest
                    .into_iter()
                    .filter(|(name, _)| name != member && name != "nextCursor");
                all.rest = rest.map(|(name, value)| (name, value.to_owned())).collect();
            }
            match next.map(RawValue::get) {
                None | Some("null") => return Ok(all),
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        Err(Lost::Unknown(format!(
            "the server's list at `{method}` has no end"
        )))
    }

    /// Returns the parameters of a listing that the gateway requests; the cursor is JSON.
    pub fn listing(&self, cursor: Option<&str>) -> String {
        let cursor = cursor.map(|cursor| format!("\"cursor\":{cursor}"));
        let meta = self.meta().map(|meta| format!("\"_meta\":{{{meta}}}"));
        let members: Vec<String> = cursor.into_iter().chain(meta).collect();
        format!("{{{}}}", members.join(","))
    }

    /// Returns the name of a tool in the policy, `SERVER/TOOL`.
    pub fn qualified(&self, tool: &str) -> String {
        format!("{}/{tool}", self.name)
    }
}

/// Returns true if a request id has the prefix of the gateway's own ids.
pub fn is_own(id: &Id) -> bool {
    let own = quote(OWN);
    id.as_json().starts_with(own.trim_end_matches('"'))
}

/// Returns true if a server uses one of the gateway's request ids in a request or a cancellation, or reports on one of
/// the gateway's tasks.
fn is_in_our_name(frame: &Frame) -> bool {
    match &frame.kind {
        Kind::Request { id, .. } => is_own(id),
        Kind::Notification { method } if method == "notifications/cancelled" => {
            let params = frame.part(&frame.params).unwrap_or_default();
            let request = pick(params, ["requestId"]).ok().and_then(|[request]| request);
            request.and_then(Id::read).is_some_and(|id| is_own(&id))
        }
        Kind::Notification { method } if method.starts_with("notifications/tasks") => {
            is_our_task(frame.part(&frame.params).unwrap_or_default())
        }
        _ => false,
    }
}

/// Guard that removes a request of the gateway when dropped, because the caller no longer waits for the answer.
struct Forget<'s> {
    server: &'s Server,
    id: Id,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.server.own).remove(&self.id);
    }
}
