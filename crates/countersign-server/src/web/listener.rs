//! Accepts connections, limits their number, and closes those that are too slow (X48).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

use super::body::{Late, TimedBody};
use super::stream::Impatient;
use super::tls::Acceptor;
use super::{ApiError, Client, Peer, TrustedProxies};
use crate::service::{LimitSettings, Slot, Slots};

/// Default limit of open connections per address. It does not apply to loopback addresses.
const PER_ADDRESS: usize = 512;
/// Response to a connection over the limit, so that its client learns the reason.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 161\r\n\
    Retry-After: 5\r\nConnection: close\r\n\r\n\
    {\"error\":{\"code\":\"too_many\",\"message\":\"too many connections are open from this address\",\
    \"hint\":\"close some; `[limits] connections_per_address` sets the limit\"}}\n";
/// Time limit for request headers and for the TLS handshake.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// Maximum size of the request line and headers together, in bytes.
const LARGEST_HEAD: usize = 32 * 1024;
/// Maximum time that a client may stall while it reads a response, before the connection is closed.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time that a shutdown waits for open requests.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example when no file descriptors are left.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A Tower service that answers requests, such as a router.
pub trait Routes:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Routes for S where
    S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// Serves requests until `stopping` is cancelled; then waits up to `ENDS_WITHIN` for open requests to end.
pub async fn serve<R: Routes>(
    listener: TcpListener,
    tls: Option<Acceptor>,
    routes: R,
    settings: &LimitSettings,
    proxies: &TrustedProxies,
    stopping: CancellationToken,
) {
    let graceful = Arc::new(GracefulShutdown::new());
    let room = Arc::new(Semaphore::new(settings.connections.min(Semaphore::MAX_PERMITS)));
    let addresses = Addresses::new(settings, proxies.clone());
    loop {
        let free = tokio::select! {
            free = room.clone().acquire_owned() => free,
            () = stopping.cancelled() => break,
        };
        let Ok(permit) = free else {
            break;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        // Responses are small and awaited, so send them at once.
        let _ = stream.set_nodelay(true);
        let Some(slot) = addresses.take(peer.ip()) else {
            refuse(stream, tls.is_some()).await;
            continue;
        };
        let connection = Connection {
            routes: routes.clone(),
            peer: Peer(peer.ip()),
            body_within: settings.body_within,
            watcher: graceful.watcher(),
            _permit: permit,
            _slot: slot,
        };
        match tls.clone() {
            None => _ = tokio::spawn(connection.serve(stream)),
            Some(tls) => _ = tokio::spawn(connection.secure(stream, tls)),
        }
    }
    drop(listener);
    let Some(graceful) = Arc::into_inner(graceful) else {
        return;
    };
    if tokio::time::timeout(ENDS_WITHIN, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("some requests did not end in time");
    }
}

/// Serves routes without TLS and with the default limits. For a loopback address only.
pub async fn listen(listener: TcpListener, routes: axum::Router, stopping: CancellationToken) {
    let settings = LimitSettings::default();
    serve(
        listener,
        None,
        routes,
        &settings,
        &TrustedProxies::default(),
        stopping,
    )
    .await;
}

/// Counts the open connections of each address, except those of trusted proxies.
struct Addresses {
    open: Slots,
    proxies: TrustedProxies,
    /// True if loopback addresses are exempt, which they are unless a limit is configured.
    spares_loopback: bool,
}

impl Addresses {
    fn new(settings: &LimitSettings, proxies: TrustedProxies) -> Addresses {
        Addresses {
            open: Slots::new(settings.connections_per_address.unwrap_or(PER_ADDRESS)),
            proxies,
            spares_loopback: settings.connections_per_address.is_none(),
        }
    }

    /// Reserves a slot for a connection; `None` if the address has too many connections, `Some(None)` if its
    /// connections are not counted.
    fn take(&self, address: IpAddr) -> Option<Option<Slot>> {
        let is_spared = self.spares_loopback && address.to_canonical().is_loopback();
        if is_spared || self.proxies.include(address) {
            return Some(None);
        }
        self.open.take(Client::of(address)).map(Some)
    }
}

/// Closes a connection that is over the limit. Sends a 429 response first if that is possible without waiting.
async fn refuse(mut stream: TcpStream, has_tls: bool) {
    tracing::debug!("a connection was refused: too many from its address");
    if !has_tls && stream.try_write(TOO_MANY).is_ok() {
        let _ = stream.shutdown().await;
    }
}

struct Connection<R> {
    routes: R,
    peer: Peer,
    body_within: Duration,
    watcher: hyper_util::server::graceful::Watcher,
    _permit: OwnedSemaphorePermit,
    _slot: Option<Slot>,
}

impl<R: Routes> Connection<R> {
    async fn secure(self, stream: TcpStream, tls: Acceptor) {
        match tokio::time::timeout(HEADERS_WITHIN, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let (routes, peer, within) = (self.routes, self.peer, self.body_within);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            answer(routes.clone(), request, within)
        });
        let io = TokioIo::new(Impatient::new(stream, TAKEN_WITHIN));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(io, service);
        // A client that disconnects early is not an error of this service.
        let _ = self.watcher.watch(connection).await;
    }
}

/// Returns the response of the routes, or 408 if the request body did not arrive in time.
async fn answer<R: Routes>(
    routes: R,
    request: Request<Incoming>,
    within: Duration,
) -> Result<Response, Infallible> {
    let late = (!request.body().is_end_stream()).then(Late::default);
    let request = request.map(|body| match &late {
        None => Body::empty(),
        Some(late) => Body::new(TimedBody::new(body, within, late.clone())),
    });
    let answer = routes.oneshot(request).await?;
    Ok(match late.is_some_and(|late| late.is_set()) {
        true => too_slow(&answer),
        false => answer,
    })
}

/// Creates the 408 response, with the headers that the router adds to every response.
fn too_slow(answer: &Response) -> Response {
    let mut slow = ApiError::too_slow().into_response();
    let headers = slow.headers_mut();
    for (name, value) in answer.headers() {
        if !headers.contains_key(name) && name != header::CONTENT_LENGTH {
            headers.insert(name, value.clone());
        }
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    slow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }

    #[test]
    fn x61_an_address_has_its_connections_and_this_machine_is_spared() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let usual = Addresses::new(&LimitSettings::default(), TrustedProxies::default());
        let mut kept = Vec::new();
        for _ in 0..PER_ADDRESS {
            kept.push(usual.take(ip("192.0.2.1")).unwrap());
        }
        assert!(usual.take(ip("192.0.2.1")).is_none());
        assert!(usual.take(ip("192.0.2.2")).is_some());
        assert!(matches!(usual.take(ip("127.0.0.1")), Some(None)));
        assert!(matches!(usual.take(ip("::1")), Some(None)));
        let settings = LimitSettings {
            connections_per_address: Some(1),
            ..LimitSettings::default()
        };
        let proxies = TrustedProxies::parse(&["10.0.0.1".to_owned()]).unwrap();
        let set = Addresses::new(&settings, proxies);
        let _one = set.take(ip("127.0.0.1")).unwrap();
        assert!(set.take(ip("127.0.0.1")).is_none());
        assert!(matches!(set.take(ip("10.0.0.1")), Some(None)));
    }
}
