//! A small HTTP client: one request, one connection, to an address that was checked. No redirects, no proxies, no
//! cookies, nothing remembered. Models are called with it, and so is whatever else a service calls.

mod address;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::http::uri::Scheme;
use hyper::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use address::{Allowed, NoPort};

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    is_secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Target {
    /// Reads an address.
    pub fn parse(url: &str) -> Result<Target, String> {
        let bad = |problem: &str| format!("`{url}` is not an address to call: {problem}");
        let uri: Uri = url.parse().map_err(|_| bad("it cannot be read"))?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(bad("it starts with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it holds a name or a password"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Target {
            is_secure,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            path: path.to_owned(),
        })
    }

    /// `HOST:PORT`, as operators name places.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Whether what is sent there can be read on the way: without TLS, only this machine is safe.
    pub fn is_open_to_others(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare.eq_ignore_ascii_case("localhost"),
        };
        !self.is_secure && !is_loopback
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same place, another path.
    pub fn at(&self, path: &str) -> Target {
        Target {
            path: path.to_owned(),
            ..self.clone()
        }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answered {
    /// The status code.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The request was not sent: nothing can have happened.
    NotSent(String),
    /// It was sent, or may have been: nobody knows what happened.
    Unknown(String),
}

/// Sends requests.
#[derive(Clone, Debug)]
pub struct Client {
    allowed: Allowed,
    largest: usize,
    connect: Option<Duration>,
}

impl Client {
    /// A client for these places, that takes answers up to `largest` bytes.
    pub fn new(allowed: Allowed, largest: usize) -> Client {
        Client {
            allowed,
            largest,
            connect: None,
        }
    }

    /// Gives up when there is no connection after this long.
    pub fn connecting_within(self, limit: Duration) -> Client {
        Client {
            connect: Some(limit),
            ..self
        }
    }

    /// Sends one request and takes the whole answer.
    pub async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answered, NoAnswer> {
        self.send_if(method, target, headers, body, || Ok(())).await
    }

    /// The same, unless `check` says no once there is a connection: the last moment before the request goes out.
    pub async fn send_if(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        check: impl FnOnce() -> Result<(), String>,
    ) -> Result<Answered, NoAnswer> {
        let Opened {
            status,
            body,
            connection,
            ..
        } = self.open_if(method, target, headers, body, check).await?;
        let body = Limited::new(body, self.largest);
        let body = body.collect().await.map_err(|error| lost(&error.to_string()))?;
        drop(connection);
        Ok(Answered {
            status,
            body: body.to_bytes(),
        })
    }

    /// Sends one request and takes the answer's head; the body is still to come.
    pub async fn open(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Opened, NoAnswer> {
        self.open_if(method, target, headers, body, || Ok(())).await
    }

    async fn open_if(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        check: impl FnOnce() -> Result<(), String>,
    ) -> Result<Opened, NoAnswer> {
        let request = request(method, target, headers, body).map_err(NoAnswer::NotSent)?;
        let connecting = self.connect(target);
        let connected = match self.connect {
            None => connecting.await?,
            Some(limit) => tokio::time::timeout(limit, connecting).await.map_err(|_| {
                let place = target.place();
                NoAnswer::NotSent(format!("no connection to `{place}` within {} s", limit.as_secs()))
            })??,
        };
        check().map_err(NoAnswer::NotSent)?;
        match connected {
            Connected::Plain(stream) => exchange(stream, request).await,
            Connected::Secure(stream) => exchange(*stream, request).await,
        }
    }

    async fn connect(&self, target: &Target) -> Result<Connected, NoAnswer> {
        let address = self
            .allowed
            .resolve(&target.host, target.port)
            .await
            .map_err(NoAnswer::NotSent)?;
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| NoAnswer::NotSent(format!("cannot connect to `{}`: {error}", target.place())))?;
        let _ = stream.set_nodelay(true);
        if !target.is_secure {
            return Ok(Connected::Plain(stream));
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| NoAnswer::NotSent(format!("`{}` is not a name for TLS", target.host)))?;
        let config = tls().map_err(NoAnswer::NotSent)?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| NoAnswer::NotSent(format!("no TLS with `{}`: {error}", target.host)))?;
        Ok(Connected::Secure(Box::new(stream)))
    }
}

enum Connected {
    Plain(TcpStream),
    Secure(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// An answer whose body is still to come. The connection ends with this.
pub struct Opened {
    /// The status code.
    pub status: u16,
    /// What was said about the body.
    pub headers: HeaderMap,
    /// What comes.
    pub body: Incoming,
    connection: Aborting,
}

/// As a body of its own: the connection lasts as long as what comes.
impl hyper::body::Body for Opened {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Opened, NoAnswer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| NoAnswer::NotSent(error.to_string()))?;
    let connection = Aborting(tokio::spawn(connection));
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| lost(&error.to_string()))?;
    let (head, body) = response.into_parts();
    Ok(Opened {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        connection,
    })
}

fn lost(error: &str) -> NoAnswer {
    NoAnswer::Unknown(format!("the connection broke: {error}"))
}

/// Ends the connection's task with the exchange, whatever became of it.
struct Aborting(tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(
    method: Method,
    target: &Target,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, String> {
    let is_usual = target.port == if target.is_secure { 443 } else { 80 };
    let host = match is_usual {
        true => target.host.clone(),
        false => format!("{}:{}", target.host, target.port),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(&target.path)
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(&host).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

/// The machine's own certificate authorities, read once.
fn tls() -> Result<Arc<rustls::ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<rustls::ClientConfig>, String>> = OnceLock::new();
    let make = || {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    };
    CONFIG.get_or_init(make).clone()
}
