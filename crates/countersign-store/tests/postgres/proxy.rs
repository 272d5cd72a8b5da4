//! A TCP proxy to the server that can cut the connection at any byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::tcp_proxy;

const OPEN: i64 = i64::MAX;

/// Forwards connections until told to cut them.
pub struct Proxy {
    pub url: String,
    cut: Arc<Cut>,
}

/// Number of bytes that may still pass in each direction. Once the limit is reached, the connection is dropped together
/// with further bytes.
struct Cut {
    to_server: AtomicI64,
    to_client: AtomicI64,
}

impl Proxy {
    /// Starts a proxy for the server at this URL.
    pub async fn before(url: &str) -> Proxy {
        let cut = Arc::new(Cut {
            to_server: AtomicI64::new(OPEN),
            to_client: AtomicI64::new(OPEN),
        });
        let shared = cut.clone();
        let url = tcp_proxy::start(url, move |client, server| {
            let cut = shared.clone();
            async move {
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::select! {
                    () = forward(from_client, to_server, &cut.to_server) => {}
                    () = forward(from_server, to_client, &cut.to_client) => {}
                }
            }
        });
        Proxy { url: url.await, cut }
    }

    /// Cuts the connection after this many more bytes to the server.
    pub fn cut_to_server(&self, bytes: i64) {
        self.cut.to_server.store(bytes, Ordering::SeqCst);
    }

    /// Cuts the connection after this many more bytes to the client, when the server may already have committed.
    pub fn cut_to_client(&self, bytes: i64) {
        self.cut.to_client.store(bytes, Ordering::SeqCst);
    }

    /// Removes any limit. Returns true if the connection was cut.
    pub fn mend(&self) -> bool {
        let to_server = self.cut.to_server.swap(OPEN, Ordering::SeqCst);
        let to_client = self.cut.to_client.swap(OPEN, Ordering::SeqCst);
        to_server == OPEN && to_client == OPEN
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, limit: &AtomicI64) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let left = limit.load(Ordering::SeqCst);
        let passes = usize::try_from(left).unwrap_or(0).min(count);
        if to.write_all(&buffer[..passes]).await.is_err() {
            return;
        }
        if left == OPEN {
            continue;
        }
        if passes < count {
            // Lets the forwarded bytes arrive, then drops this connection; new ones pass without limit.
            limit.store(OPEN, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            return;
        }
        limit.fetch_sub(count as i64, Ordering::SeqCst);
    }
}
