//! A TCP proxy between a store and its server.

use tokio::net::{TcpListener, TcpStream};

/// Starts a proxy to the server at this URL, and returns the URL of the proxy. Each connection lasts until
/// `forward(client, server)` returns.
pub async fn start<F>(
    url: &str,
    forward: impl Fn(TcpStream, TcpStream) -> F + Clone + Send + 'static,
) -> String
where
    F: Future<Output = ()> + Send,
{
    let (start, rest) = url.split_once('@').unwrap();
    let (address, database) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = address.to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (address, forward) = (address.clone(), forward.clone());
            tokio::spawn(async move {
                if let Ok(server) = TcpStream::connect(address).await {
                    forward(client, server).await;
                }
            });
        }
    });
    format!("{start}@127.0.0.1:{port}/{database}")
}
