//! A small HTTP client: one connection per request, to an address that was checked against [`AllowedTargets`], or
//! through a [`Proxy`] that the operator names. There are no redirects, no cookies, and no state between requests. The
//! agent and the service use it for every outgoing request.

mod allowed;
pub mod events;
mod proxy;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::http::uri::Scheme;
use hyper::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use allowed::{AllowedTargets, NoPort};
pub use proxy::Proxy;

/// Parsed URL of a request: scheme, host, port, path and query.
#[derive(Clone, Debug)]
pub struct Target {
    is_secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Target {
    /// Parses an `http` or `https` URL. URLs with user info are refused.
    pub fn parse(url: &str) -> Result<Target, String> {
        let invalid = |problem: &str| format!("`{url}` is not a usable URL: {problem}");
        let uri: Uri = url.parse().map_err(|_| invalid("it cannot be read"))?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(invalid("it starts with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("it holds a name or a password"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Target {
            is_secure,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            path: path.to_owned(),
        })
    }

    /// Returns `HOST:PORT`, the form used in `private_targets`.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns true if requests could be read in transit: plain HTTP to a host other than this machine.
    pub fn is_remote_plaintext(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare.eq_ignore_ascii_case("localhost"),
        };
        !self.is_secure && !is_loopback
    }

    /// Returns the path and the query, such as `/v1/calls?limit=5`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the same host and port with another path.
    pub fn with_path(&self, path: &str) -> Target {
        Target {
            path: path.to_owned(),
            ..self.clone()
        }
    }
}

/// Response that was read to its end.
#[derive(Debug)]
pub struct Response {
    /// HTTP status code. Statuses such as 404 and 500 are responses, not errors.
    pub status: u16,
    /// Whole body. A response with a body longer than the client's limit is an error instead.
    pub body: Bytes,
}

/// Reason why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request was not sent, for the given reason, so nothing can have happened.
    NotSent(String),
    /// The request was sent, or may have been; its effect is unknown, for the given reason.
    Unknown(String),
}

/// HTTP client with an address filter, a size limit for responses and an optional connect timeout.
#[derive(Clone, Debug)]
pub struct Client {
    allowed: AllowedTargets,
    most_bytes: usize,
    connect_timeout: Option<Duration>,
    proxy: Option<Arc<Proxy>>,
}

impl Client {
    /// Creates a client that may call `allowed` addresses and reads at most `most_bytes` bytes of a response body.
    pub fn new(allowed: AllowedTargets, most_bytes: usize) -> Client {
        Client {
            allowed,
            most_bytes,
            connect_timeout: None,
            proxy: None,
        }
    }

    /// Sends HTTPS requests through a proxy, except to this machine and to the proxy's exceptions. `None` means no
    /// proxy.
    pub fn with_proxy(self, proxy: Option<Proxy>) -> Client {
        Client {
            proxy: proxy.map(Arc::new),
            ..self
        }
    }

    /// Limits the time for connecting, including name resolution and TLS.
    pub fn with_connect_timeout(self, limit: Duration) -> Client {
        Client {
            connect_timeout: Some(limit),
            ..self
        }
    }

    /// Sends one request and reads the whole response.
    pub async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, RequestError> {
        self.send_after_check(method, target, headers, body, || Ok(()))
            .await
    }

    /// Like [`Client::send`], but calls `check` just before each write of the request. If `check` fails, nothing more
    /// is sent: the error is `NotSent` if no byte was written before, and `Unknown` otherwise.
    pub async fn send_after_check(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Response, RequestError> {
        let StreamedResponse {
            status,
            body,
            connection,
            ..
        } = self
            .open_after_check(method, target, headers, body, check)
            .await?;
        let body = Limited::new(body, self.most_bytes);
        let body = body
            .collect()
            .await
            .map_err(|error| match error.is::<LengthLimitError>() {
                true => {
                    RequestError::Unknown(format!("the response is larger than {} bytes", self.most_bytes))
                }
                false => connection_broken(&error.to_string()),
            })?;
        drop(connection);
        Ok(Response {
            status,
            body: body.to_bytes(),
        })
    }

    /// Sends one request and returns once the response headers have arrived; the body is streamed.
    pub async fn open(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<StreamedResponse, RequestError> {
        self.open_after_check(method, target, headers, body, || Ok(()))
            .await
    }

    /// Like [`Client::open`], with a `check` as in [`Client::send_after_check`].
    pub async fn open_after_check(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<StreamedResponse, RequestError> {
        let request = request(method, target, headers, body).map_err(RequestError::NotSent)?;
        let connecting = self.connect(target);
        let connected = match self.connect_timeout {
            None => connecting.await?,
            Some(limit) => tokio::time::timeout(limit, connecting).await.map_err(|_| {
                let address = target.host_and_port();
                RequestError::NotSent(format!(
                    "no connection to `{address}` within {} s",
                    limit.as_secs()
                ))
            })??,
        };
        let (stream, send_check) = connected;
        send_check.set(Box::new(check));
        match stream {
            Connected::Plain(stream) => exchange(stream, request, &send_check).await,
            Connected::Secure(stream) => exchange(*stream, request, &send_check).await,
        }
    }

    async fn connect_directly(&self, target: &Target) -> Result<TcpStream, String> {
        let address = self.allowed.resolve(&target.host, target.port).await?;
        TcpStream::connect(address)
            .await
            .map_err(|error| format!("cannot connect to `{}`: {error}", target.host_and_port()))
    }

    async fn connect(&self, target: &Target) -> Result<(Connected, Arc<SendCheck>), RequestError> {
        let stream = match self.proxy.as_ref().filter(|proxy| proxy.is_for(target)) {
            Some(proxy) => proxy.connect(&self.allowed, target).await,
            None => self.connect_directly(target).await,
        };
        let stream = stream.map_err(RequestError::NotSent)?;
        let _ = stream.set_nodelay(true);
        let check = Arc::<SendCheck>::default();
        let stream = CheckedWrite {
            stream,
            check: check.clone(),
        };
        if !target.is_secure {
            return Ok((Connected::Plain(stream), check));
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| RequestError::NotSent(format!("`{}` is not a name for TLS", target.host)))?;
        let config = tls().map_err(RequestError::NotSent)?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| RequestError::NotSent(format!("no TLS with `{}`: {error}", target.host)))?;
        Ok((Connected::Secure(Box::new(stream)), check))
    }
}

enum Connected {
    Plain(CheckedWrite),
    Secure(Box<tokio_rustls::client::TlsStream<CheckedWrite>>),
}

/// A response whose body is streamed. Dropping it closes the connection.
pub struct StreamedResponse {
    /// HTTP status code, also of a response such as 404 or 500.
    pub status: u16,
    /// Headers of the response, as received.
    pub headers: HeaderMap,
    /// Body, read from the connection as it is polled. The client's size limit does not apply to it.
    pub body: Incoming,
    connection: AbortOnDrop,
}

/// Makes the response usable as a body that keeps the connection open.
impl hyper::body::Body for StreamedResponse {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    check: &SendCheck,
) -> Result<StreamedResponse, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| RequestError::NotSent(error.to_string()))?;
    let connection = AbortOnDrop(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(|error| {
        check
            .error()
            .unwrap_or_else(|| connection_broken(&error.to_string()))
    })?;
    let (head, body) = response.into_parts();
    Ok(StreamedResponse {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        connection,
    })
}

fn connection_broken(error: &str) -> RequestError {
    RequestError::Unknown(format!("the connection broke: {error}"))
}

/// Check that runs before each write of a request.
#[derive(Default)]
struct SendCheck {
    check: OnceLock<Check>,
    has_written: AtomicBool,
    refusal: OnceLock<String>,
}

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl SendCheck {
    /// Sets the check. Writes before that, which are those of the TLS handshake, are not checked.
    fn set(&self, check: Check) {
        let _ = self.check.set(check);
    }

    fn run(&self) -> io::Result<()> {
        match self.check.get().map_or(Ok(()), |check| check()) {
            Ok(()) => Ok(()),
            Err(reason) => {
                let error = io::Error::other(reason.as_str());
                let _ = self.refusal.set(reason);
                Err(error)
            }
        }
    }

    fn note_write(&self) {
        if self.check.get().is_some() {
            self.has_written.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the error of a request that the check has stopped, or `None` if the check has not stopped the request.
    fn error(&self) -> Option<RequestError> {
        let reason = self.refusal.get()?.clone();
        Some(match self.has_written.load(Ordering::SeqCst) {
            false => RequestError::NotSent(reason),
            true => RequestError::Unknown(format!("only a part of the request was sent: {reason}")),
        })
    }
}

/// A TCP stream whose writes are checked by a [`SendCheck`].
///
/// The connection is driven by a separate task, which may write long after the request was handed to it. So the check
/// is made here, below TLS, directly before the system call that writes. After an earlier check, a process could be
/// suspended, and would send the bytes too late when it resumes.
struct CheckedWrite {
    stream: TcpStream,
    check: Arc<SendCheck>,
}

impl AsyncRead for CheckedWrite {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CheckedWrite {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            self.check.run()?;
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.check.note_write();
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Aborts the connection's task on drop.
struct AbortOnDrop(tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Drop for AbortOnDrop {
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
    let is_default_port = target.port == if target.is_secure { 443 } else { 80 };
    let host = match is_default_port {
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

/// Returns the TLS configuration with the machine's root certificates, which are loaded once.
fn tls() -> Result<Arc<rustls::ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<rustls::ClientConfig>, String>> = OnceLock::new();
    let build = || {
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
    CONFIG.get_or_init(build).clone()
}
