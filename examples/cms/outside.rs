//! `http_post`: sends one request to a server on this machine, once, without undo.
//!
//! Enters: a URL and a JSON body, whose bytes are sent unchanged. Leaves: the response; a failure if nothing was sent
//! or the server refused (3xx, 4xx); otherwise `Unknown`.
//! Deliberately absent: other machines, name resolution, redirects, TLS. An example should not be able to reach the
//! network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use countersign::display::clip;
use countersign::executor::Outcome;
use countersign::id::CallId;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: usize = 64 * 1024;

/// Sends the request.
pub fn post(call: Option<CallId>, arguments: Vec<u8>) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        match prepare(call, &arguments) {
            Ok((address, request)) => send(address, request).await,
            Err(reason) => Outcome::failed(reason),
        }
    })
}

fn prepare(call: Option<CallId>, arguments: &[u8]) -> Result<(SocketAddr, Request<Full<Bytes>>), String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Post<'a> {
        url: String,
        #[serde(borrow)]
        body: &'a RawValue,
        #[serde(rename = "confirmed")]
        _confirmed: Option<bool>,
    }
    let post: Post<'_> =
        serde_json::from_slice(arguments).map_err(|error| format!("the arguments do not fit: {error}"))?;
    let uri: Uri = post
        .url
        .parse()
        .map_err(|_| format!("`{}` is not an address", clip(&post.url, 200)))?;
    let address = loopback(&uri)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::post(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(call) = call {
        request = request.header("idempotency-key", call.to_string());
    }
    let body = Full::new(Bytes::copy_from_slice(post.body.get().as_bytes()));
    request
        .body(body)
        .map(|request| (address, request))
        .map_err(|error| error.to_string())
}

/// Returns the loopback address of a URL. Names are never resolved, because a resolver's answer can change.
fn loopback(uri: &Uri) -> Result<SocketAddr, String> {
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let authority = authority.ok_or("the address has to start with `http://`")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let ip = match host {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => host.parse::<IpAddr>(),
    };
    match ip {
        Ok(ip) if ip.is_loopback() && !authority.as_str().contains('@') => {
            Ok(SocketAddr::new(ip, authority.port_u16().unwrap_or(80)))
        }
        _ => Err(format!(
            "`{}` is not on this machine; this example sends nothing elsewhere",
            clip(authority.as_str(), 200)
        )),
    }
}

async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Outcome {
    let stream = match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Outcome::failed(format!("{address} cannot be reached: {error}")),
        Err(_) => return Outcome::failed(format!("{address} did not take the connection in time")),
    };
    let (mut sender, connection) = match http1::handshake(TokioIo::new(stream)).await {
        Ok(ready) => ready,
        Err(error) => return Outcome::failed(error.to_string()),
    };
    // Aborted below, once the exchange is over.
    let connection = tokio::spawn(connection);
    // From here on the server may have acted, whatever it answers.
    let exchange = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
        Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    let answered = timeout(ANSWER, exchange).await;
    connection.abort();
    match answered {
        Err(_) => Outcome::Unknown(format!("{address} did not answer in time")),
        Ok(Err(error)) => Outcome::Unknown(format!("the answer of {address} was lost: {error}")),
        Ok(Ok((status, body))) => outcome(address, status, &body),
    }
}

fn outcome(address: SocketAddr, status: u16, body: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(body);
    match status {
        200..=299 => Outcome::succeeded(json!({ "status": status, "body": text }).to_string()),
        300..=399 => Outcome::failed(format!(
            "{address} answered {status}, a redirect, which is not followed"
        )),
        400..=499 => Outcome::failed(format!("{address} refused it ({status}): {}", clip(&text, 500))),
        _ => Outcome::Unknown(format!("{address} answered {status}: {}", clip(&text, 500))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Option<&str>) {
        let address = url.parse::<Uri>().ok().and_then(|uri| loopback(&uri).ok());
        assert_eq!(
            address.map(|address| address.to_string()).as_deref(),
            expected,
            "`{url}`"
        );
    }

    /// The policy forbids most of these; the tool does not rely on that.
    #[test]
    fn it_goes_nowhere_but_to_this_machine() {
        check("http://127.0.0.1:8000/hook", Some("127.0.0.1:8000"));
        check("http://localhost/", Some("127.0.0.1:80"));
        check("http://[::1]:9/x", Some("[::1]:9"));
        for elsewhere in [
            "http://example.com/",
            "http://10.0.0.1/",
            "http://0.0.0.0/",
            "http://169.254.169.254/latest",
            "http://localhost.example.com/",
            "http://127.0.0.1@example.com/",
            "http://me:pass@127.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://127.1/",
            "http://2130706433/",
            "https://127.0.0.1/",
            "http:///nowhere",
            "127.0.0.1:80",
            "/hook",
        ] {
            check(elsewhere, None);
        }
    }
}
