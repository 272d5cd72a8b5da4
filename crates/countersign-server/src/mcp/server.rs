//! A server behind the gateway: the way to it, our own requests to it, and its tools as it lists them.
//!
//! Enters: messages for it, and all that come from it. Leaves: what it answered to us; everything else belongs to the
//! client. Deliberately absent: what is gated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use super::bad::Bad;
use super::frame::{Frame, Id, Kind, members, pick, quote};
use super::one_line::OneLine;
use super::params;
use super::tools::{Listed, Tools, definition};
use super::wire;
use crate::output;

/// Our ids begin so; no client's and no server's may.
pub const OWN: &str = "countersign:";
/// How long a listing of ours may take, with all its pages.
const LISTING: Duration = Duration::from_secs(10);
/// The most pages of one listing.
const MOST_PAGES: usize = 200;

/// The way to a server.
pub trait Upstream: Send + Sync + 'static {
    /// Hands a message over. It may still get lost.
    fn send(&self, frame: OneLine) -> BoxFuture<'_, Result<(), Gone>>;

    /// The same, with headers for this message alone, where messages have headers.
    fn send_with(&self, frame: OneLine, _headers: Headers) -> BoxFuture<'_, Result<(), Gone>> {
        self.send(frame)
    }

    /// Whether messages have headers.
    fn has_headers(&self) -> bool {
        false
    }

    /// What messages are sent with, where they have headers.
    fn set_headers(&self, _headers: Vec<(HeaderName, HeaderValue)>) {}
}

/// Headers of one message.
pub type Headers = Vec<(HeaderName, HeaderValue)>;

/// The server is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The request was not sent.
    NotSent(String),
    /// It was sent, or may have been.
    Unknown(String),
}

/// The parameters of each page of a listing, by its cursor, which is JSON.
pub type Params<'p> = dyn Fn(Option<&str>) -> String + Send + Sync + 'p;

/// A whole list.
#[derive(Debug, Default)]
pub struct Pages {
    /// What is listed, as the server writes it.
    pub items: Vec<Box<RawValue>>,
    /// What stands beside the list on its first page.
    pub rest: Vec<(String, Box<RawValue>)>,
}

/// A server.
pub struct Server {
    /// What it is called in the policy, on cards and, among several, by the client.
    pub name: String,
    /// Tells it from all other servers of this process, also from an earlier one of the same name.
    pub number_here: u64,
    /// Its tools.
    pub tools: Tools,
    upstream: Box<dyn Upstream>,
    own: Mutex<HashMap<Id, oneshot::Sender<Result<Frame, Lost>>>>,
    stage: watch::Sender<Stage>,
    /// What requests of the client carry that say which protocol they speak, if they say so at all.
    meta: Mutex<Option<Arc<str>>>,
}

/// How far the conversation with a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client has not greeted it.
    New,
    /// It takes requests.
    Ready,
    /// It is not there any more.
    Gone,
}

impl Server {
    /// A server, before it was greeted.
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

    /// Sends a message as it is; what its tool wants to see in headers goes into them as well.
    pub async fn send(&self, frame: OneLine) -> Result<(), Gone> {
        match self.upstream.has_headers() {
            true => {
                let headers = params::headers(&self.tools, &frame);
                self.upstream.send_with(frame, headers).await
            }
            false => self.upstream.send(frame).await,
        }
    }

    /// What our messages are sent with, where they have headers.
    pub fn set_headers(&self, headers: Vec<(HeaderName, HeaderValue)>) {
        self.upstream.set_headers(headers);
    }

    /// From here on it takes requests.
    pub fn greeted(&self) {
        self.stage.send_if_modified(|stage| {
            let is_new = *stage == Stage::New;
            if is_new {
                *stage = Stage::Ready;
            }
            is_new
        });
    }

    /// It is over: who waits for an answer will not get one.
    pub fn gone(&self) {
        self.stage.send_replace(Stage::Gone);
        open(&self.own).clear();
    }

    /// Returns true if it is not there any more.
    pub fn is_gone(&self) -> bool {
        *self.stage.borrow() == Stage::Gone
    }

    /// Returns true if it has taken no request yet.
    pub fn is_new(&self) -> bool {
        *self.stage.borrow() == Stage::New
    }

    /// Waits until it takes requests; false when it is gone.
    pub async fn ready(&self) -> bool {
        let mut stage = self.stage.subscribe();
        let reached = stage.wait_for(|stage| *stage != Stage::New).await;
        reached.is_ok_and(|stage| *stage == Stage::Ready)
    }

    /// Remembers what the client's requests say about the protocol; ours say the same.
    pub fn speaks(&self, meta: Arc<str>) {
        *open(&self.meta) = Some(meta);
        self.greeted();
    }

    /// What our requests say about the protocol, as members of `_meta`; nothing where a greeting said it.
    pub fn meta(&self) -> Option<Arc<str>> {
        open(&self.meta).clone()
    }

    /// Takes a message that is an answer to us; gives back what is not. What a server says in our name is for nobody: the
    /// client's answer to its question would be taken for an answer to ours (X14).
    pub fn take_own(&self, frame: Frame) -> Option<Frame> {
        let id = match &frame.kind {
            Kind::Response { id } if is_own(id) => id,
            _ if is_in_our_name(&frame) => {
                let name = &self.name;
                output::beside(&format!(
                    "countersign: `{name}` spoke in our name; that was not passed on"
                ));
                return None;
            }
            _ => return Some(frame),
        };
        // Nobody waits any more for an answer that comes too late.
        if let Some(waiting) = open(&self.own).remove(id) {
            let _ = waiting.send(Ok(frame));
        }
        None
    }

    /// Sends a request of ours and waits for the answer, however long it takes.
    pub async fn request(&self, method: &str, params: &str) -> Result<Frame, Lost> {
        let no_id = || Lost::NotSent("no random bytes for an id".to_owned());
        let id = Id::unguessable(OWN).ok_or_else(no_id)?;
        let (sender, answer) = oneshot::channel();
        open(&self.own).insert(id.clone(), sender);
        if *self.stage.borrow() == Stage::Gone {
            open(&self.own).remove(&id);
            return Err(Lost::NotSent("the server is gone".to_owned()));
        }
        let forget = Forget { server: self, id };
        let frame = wire::request(&forget.id, method, params);
        if self.send(frame).await.is_err() {
            return Err(Lost::NotSent("the server is gone".to_owned()));
        }
        let ended = |_| Lost::Unknown("the server ended before it answered".to_owned());
        answer.await.map_err(ended)?
    }

    /// Ends every request of ours whose answer these bytes seem to be; false when there is none. Nobody but this server was
    /// told those ids, so it cannot end what another one was asked.
    pub fn lost_in(&self, bad: &Bad, why: &str) -> bool {
        let mut own = open(&self.own);
        let ids: Vec<Id> = own.keys().filter(|id| bad.mentions(id)).cloned().collect();
        for waiting in ids.iter().filter_map(|id| own.remove(id)) {
            let _ = waiting.send(Err(Lost::Unknown(why.to_owned())));
        }
        !ids.is_empty()
    }

    /// A request of ours will not be answered.
    pub fn lost(&self, id: &Id, why: Lost) {
        if let Some(waiting) = open(&self.own).remove(id) {
            let _ = waiting.send(Err(why));
        }
    }

    /// A tool as the server lists it; it is asked if that is not known.
    pub async fn listed(&self, tool: &str) -> Option<Listed> {
        if let Some(known) = self.tools.known(tool) {
            return known;
        }
        // Without a list the tool counts as not listed, and a pinned one is held.
        let _ = self.list().await;
        self.tools.get(tool)
    }

    /// Asks for all tools, now.
    pub async fn list(&self) -> Result<(), Lost> {
        let page = |cursor: Option<&str>| self.listing(cursor);
        self.list_tools(&page).await.map(drop)
    }

    /// Asks for all tools with these parameters, now, and gives their definitions as the server writes them.
    pub async fn list_tools(&self, params: &Params<'_>) -> Result<Pages, Lost> {
        let slow = || Lost::Unknown("the server did not list its tools in time".to_owned());
        let began = self.tools.began();
        let pages = tokio::time::timeout(LISTING, self.pages("tools/list", "tools", params)).await;
        match pages.map_err(|_| slow()).and_then(|pages| pages) {
            Ok(pages) => {
                let listed = pages.items.iter().filter_map(|tool| definition(tool));
                self.tools.replace(listed.collect(), began);
                Ok(pages)
            }
            Err(lost) => {
                self.tools.not_listed();
                Err(lost)
            }
        }
    }

    /// The definitions of all tools, as the server writes them.
    pub async fn all_tools(&self) -> Result<Vec<Box<RawValue>>, Lost> {
        let page = |cursor: Option<&str>| self.listing(cursor);
        let pages = self.pages("tools/list", "tools", &page).await?;
        Ok(pages.items)
    }

    /// Everything a list has, page after page: what stands in `member`.
    pub async fn pages(&self, method: &str, member: &str, params: &Params<'_>) -> Result<Pages, Lost> {
        let unclear = || Lost::Unknown(format!("the server did not answer `{method}` with a list"));
        let mut all = Pages::default();
        let mut cursor: Option<String> = None;
        for page in 0..MOST_PAGES {
            let frame = self.request(method, &params(cursor.as_deref())).await?;
            let result = frame.part(&frame.result).ok_or_else(unclear)?;
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

    /// The parameters of a listing of ours; the cursor is JSON.
    pub fn listing(&self, cursor: Option<&str>) -> String {
        let cursor = cursor.map(|cursor| format!("\"cursor\":{cursor}"));
        let meta = self.meta().map(|meta| format!("\"_meta\":{{{meta}}}"));
        let members: Vec<String> = cursor.into_iter().chain(meta).collect();
        format!("{{{}}}", members.join(","))
    }

    /// What the policy calls a tool of this server.
    pub fn qualified(&self, tool: &str) -> String {
        format!("{}/{tool}", self.name)
    }
}

/// Whether an id is one of ours.
pub fn is_own(id: &Id) -> bool {
    let own = quote(OWN);
    id.as_json().starts_with(own.trim_end_matches('"'))
}

/// Whether a server asks under an id of ours, or takes back what was asked under one.
fn is_in_our_name(frame: &Frame) -> bool {
    match &frame.kind {
        Kind::Request { id, .. } => is_own(id),
        Kind::Notification { method } if method == "notifications/cancelled" => {
            let params = frame.part(&frame.params).unwrap_or_default();
            let request = pick(params, ["requestId"]).ok().and_then(|[request]| request);
            request.and_then(Id::read).is_some_and(|id| is_own(&id))
        }
        _ => false,
    }
}

/// Nobody waits for the answer any more.
struct Forget<'s> {
    server: &'s Server,
    id: Id,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        open(&self.server.own).remove(&self.id);
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
