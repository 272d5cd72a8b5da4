//! Accepting connections, with limits on how many there are and how slow they may be (X48).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::stream::Impatient;
use super::tls::Acceptor;

/// More connections wait to be accepted.
const MOST_CONNECTIONS: usize = 20_000;
/// Who does not say what they want in this time is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// The largest request head.
const LARGEST_HEAD: usize = 32 * 1024;
/// Who does not take an answer for so long is let go.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long open requests have to end once the service stops.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// A pause after a failed accept: there are no descriptors left, say.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// What answers requests.
pub trait Routes:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Routes for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Serves until `stopping` is set; then waits for open requests to end.
pub async fn serve<R: Routes>(
    listener: TcpListener,
    tls: Option<Acceptor>,
    routes: R,
    stopping: CancellationToken,
) {
    let graceful = Arc::new(GracefulShutdown::new());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        // Answers are small and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            routes: routes.clone(),
            watcher: graceful.watcher(),
            _permit: permit,
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

struct Connection<R> {
    routes: R,
    watcher: hyper_util::server::graceful::Watcher,
    _permit: OwnedSemaphorePermit,
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
        let io = TokioIo::new(Impatient::new(stream, TAKEN_WITHIN));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(io, TowerToHyperService::new(self.routes));
        // Whoever goes away in the middle is no failure of ours.
        let _ = self.watcher.watch(connection).await;
    }
}
