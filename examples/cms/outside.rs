//! `http_post`: sends one request to a server on this machine, once, without undo.
//!
//! Input: a URL and a JSON body, whose bytes are sent unchanged. Output: the response; a failure if nothing was sent or
//! the server refused (3xx, 4xx); otherwise `Unknown`. Other machines, name resolution, redirects and TLS are not
//! supported, because an example should not be able to reach the network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use countersign::display::clip;
use countersign::executor::Outcome;
use countersign::id::CallId;
use countersign_http_client::{AllowedTargets, Client, RequestError, Target};
use futures_util::future::BoxFuture;
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderValue, Method};
use hyper::{Uri, header};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: usize = 64 * 1024;

/// A request to this machine.
struct LocalRequest {
    address: SocketAddr,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
}

/// Sends the request.
pub fn post(call: Option<CallId>, arguments: Vec<u8>) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        match prepare(call, &arguments) {
            Ok(request) => send(request).await,
            Err(reason) => Outcome::failed(reason),
        }
    })
}

fn prepare(call: Option<CallId>, arguments: &[u8]) -> Result<LocalRequest, String> {
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
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(call) = call {
        let key = HeaderValue::from_str(&call.to_string()).map_err(|error| error.to_string())?;
        headers.insert("idempotency-key", key);
    }
    Ok(LocalRequest {
        address,
        // With the address instead of the name, so that there is nothing to resolve.
        target: Target::parse(&format!("http://{address}{path}"))?,
        headers,
        body: Bytes::copy_from_slice(post.body.get().as_bytes()),
    })
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

async fn send(request: LocalRequest) -> Outcome {
    let LocalRequest { address, target, .. } = request;
    let client = Client::new(AllowedTargets::one(target.host_and_port()), LARGEST_ANSWER);
    let client = client.with_connect_timeout(CONNECT);
    let sending = client.send(Method::POST, &target, request.headers, request.body);
    match timeout(CONNECT + ANSWER, sending).await {
        Err(_) => Outcome::Unknown(format!("{address} did not answer in time")),
        Ok(Err(RequestError::NotSent(reason))) => {
            Outcome::failed(format!("{address} cannot be reached: {reason}"))
        }
        Ok(Err(RequestError::Unknown(reason))) => {
            Outcome::Unknown(format!("the answer of {address} was lost: {reason}"))
        }
        Ok(Ok(response)) => outcome(address, response.status, &response.body),
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

    /// Requests to other machines fail in the tool itself, although the policy forbids most of them already.
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
