//! An HTTP proxy, as `HTTPS_PROXY` names it: HTTPS connections go through a tunnel that it opens (`CONNECT`).
//!
//! The tunnel carries TLS from end to end, so the proxy sees the name of the server and nothing of the request. The
//! address filter still holds: the proxy resolves a name only if the operator has named that target. For any other
//! target, the name is resolved and checked here, and the proxy is told the checked address. The proxy itself is named by
//! the operator and may be anywhere.

use std::net::IpAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{AllowedTargets, Target};

/// Maximum bytes of the proxy's response to `CONNECT`.
const LARGEST_RESPONSE: usize = 8 * 1024;

/// A proxy for HTTPS, and the hosts that are reached without it. `Debug` does not print its password.
#[derive(Clone)]
pub struct Proxy {
    host: String,
    port: u16,
    /// User name and password, encoded for `Proxy-Authorization: Basic`.
    credentials: Option<String>,
    exceptions: Vec<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    /// Returns the proxy of an environment: `HTTPS_PROXY` or `ALL_PROXY`, with `NO_PROXY` for the exceptions, also in
    /// lower case. Returns `None` if none of them is set. Fails if the proxy is of another kind, such as SOCKS, so that
    /// no request bypasses it.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>, String> {
        let set = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(&variable);
            values
                .map(|value| value.trim().to_owned())
                .find(|value| !value.is_empty())
        };
        let named = set(["HTTPS_PROXY", "https_proxy"]).or_else(|| set(["ALL_PROXY", "all_proxy"]));
        let Some(url) = named else {
            return Ok(None);
        };
        let exceptions = set(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        Proxy::parse(&url, &exceptions).map(Some)
    }

    /// Parses `http://[USER:PASSWORD@]HOST:PORT`, and a list of exceptions separated by commas.
    pub fn parse(url: &str, exceptions: &str) -> Result<Proxy, String> {
        // The URL may have a password, so messages do not repeat it.
        let invalid = |problem: &str| format!("the proxy in the environment cannot be used: {problem}");
        let address = match url.split_once("://") {
            Some(("http", address)) => address,
            Some(_) => return Err(invalid("only `http://` proxies are supported")),
            None => url,
        };
        let address = address.split('/').next().unwrap_or_default();
        let (credentials, address) = match address.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, address),
        };
        let target = Target::parse(&format!("http://{address}"))
            .map_err(|_| invalid("it is not `http://HOST:PORT`"))?;
        let exceptions = exceptions.split(',').map(|name| name.trim().to_ascii_lowercase());
        Ok(Proxy {
            host: target.host,
            port: target.port,
            credentials: credentials.map(|credentials| base64(&percent_decoded(credentials))),
            exceptions: exceptions.filter(|name| !name.is_empty()).collect(),
        })
    }

    /// Returns true if requests to this target go through the proxy: HTTPS requests, except to this machine and to the
    /// exceptions.
    pub(super) fn is_for(&self, target: &Target) -> bool {
        let host = target.host.to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
        };
        let is_excepted = |exception: &String| {
            let name = exception.trim_start_matches("*.").trim_start_matches('.');
            exception == "*"
                || name == bare
                || name == format!("{bare}:{}", target.port)
                || bare.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
        };
        target.is_secure && !is_here && !self.exceptions.iter().any(is_excepted)
    }

    /// Opens a tunnel to the target through the proxy. Nothing of the request itself is sent yet.
    pub(super) async fn connect(
        &self,
        allowed: &AllowedTargets,
        target: &Target,
    ) -> Result<TcpStream, String> {
        let address = match allowed.is_named(&target.host, target.port) {
            true => target.host_and_port(),
            false => allowed.resolve(&target.host, target.port).await?.to_string(),
        };
        let proxy = format!("{}:{}", self.host, self.port);
        let failed = |problem: String| format!("the proxy `{proxy}` {problem}");
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = TcpStream::connect((bare, self.port))
            .await
            .map_err(|error| failed(format!("cannot be reached: {error}")))?;
        let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n");
        if let Some(credentials) = &self.credentials {
            request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
        }
        request.push_str("\r\n");
        let answered = async {
            stream.write_all(request.as_bytes()).await?;
            read_head(&mut stream).await
        };
        let head = answered
            .await
            .map_err(|error| failed(format!("did not answer: {error}")))?;
        match status(&head) {
            Some(200..=299) => Ok(stream),
            Some(407) => Err(failed("wants a user name and a password".to_owned())),
            Some(status) => Err(failed(format!("refused to connect to `{address}` ({status})"))),
            None => Err(failed("did not answer as an HTTP proxy does".to_owned())),
        }
    }
}

/// Reads the head of a response byte by byte, because what follows it belongs to the tunnel.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LARGEST_RESPONSE {
            return Err(std::io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = (group >> (18 - 6 * place)) & 63;
            let letter = LETTERS.get(letter as usize).copied().unwrap_or(b'=');
            text.push(if place <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_from_the_environment() {
        let check = |set: &[(&str, &str)], expected: Result<Option<&str>, &str>| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let found = Proxy::from_environment(variable);
            let found = found.map(|proxy| proxy.map(|proxy| format!("{proxy:?} {:?}", proxy.credentials)));
            match expected {
                Ok(expected) => assert_eq!(found.unwrap().as_deref(), expected, "{set:?}"),
                Err(expected) => assert!(found.unwrap_err().contains(expected), "{set:?}"),
            }
        };
        check(&[], Ok(None));
        check(&[("HTTPS_PROXY", " ")], Ok(None));
        check(&[("HTTP_PROXY", "http://p:1")], Ok(None));
        check(
            &[("https_proxy", "http://p:3128/")],
            Ok(Some("Proxy(p:3128) None")),
        );
        check(
            &[
                ("HTTPS_PROXY", "http://ana:s%40crt@p:3128"),
                ("ALL_PROXY", "http://q:1"),
            ],
            Ok(Some("Proxy(p:3128) Some(\"YW5hOnNAY3J0\")")),
        );
        check(&[("ALL_PROXY", "p:8080")], Ok(Some("Proxy(p:8080) None")));
        check(&[("HTTPS_PROXY", "socks5://p:1")], Err("only `http://` proxies"));
        check(&[("HTTPS_PROXY", "http://")], Err("HOST:PORT"));
    }

    #[test]
    fn exceptions_and_this_machine_are_reached_without_it() {
        let proxy = Proxy::parse("http://p:1", "corp.example, .internal,10.0.0.1, x.org:8443").unwrap();
        let check = |url: &str, expected: bool| {
            assert_eq!(proxy.is_for(&Target::parse(url).unwrap()), expected, "{url}");
        };
        check("https://api.openai.com/v1", true);
        check("http://api.openai.com/v1", false);
        check("https://corp.example", false);
        check("https://models.corp.example", false);
        check("https://evilcorp.example", true);
        check("https://a.internal", false);
        check("https://10.0.0.1", false);
        check("https://x.org:8443", false);
        check("https://x.org", true);
        check("https://127.0.0.1:1", false);
        check("https://[::1]:1", false);
        check("https://localhost", false);
        let none = Proxy::parse("http://p:1", "*").unwrap();
        assert!(!none.is_for(&Target::parse("https://api.openai.com").unwrap()));
    }

    #[tokio::test]
    async fn x43_the_address_filter_holds_behind_a_proxy() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in [
                "HTTP/1.1 200 OK\r\n\r\n",
                "HTTP/1.1 403 No\r\n\r\n",
                "SSH-2.0\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.push(String::from_utf8(read_head(&mut stream).await.unwrap()).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let proxy = Proxy::parse(&format!("http://u:p@127.0.0.1:{port}"), "").unwrap();
        let named = AllowedTargets::one("models.invalid:443".to_owned());
        let target = Target::parse("https://models.invalid/v1").unwrap();
        // A target that the operator named is resolved by the proxy.
        proxy.connect(&named, &target).await.unwrap();
        let refused = proxy.connect(&named, &target).await.unwrap_err();
        assert!(
            refused.contains("refused to connect to `models.invalid:443` (403)"),
            "{refused}"
        );
        let refused = proxy.connect(&named, &target).await.unwrap_err();
        assert!(refused.contains("did not answer as an HTTP proxy"), "{refused}");
        // Any other target is resolved and checked here, and the proxy is not even asked.
        let others = AllowedTargets::default();
        for private in [
            "https://10.1.2.3/",
            "https://169.254.169.254/",
            "https://localhost/",
        ] {
            let target = Target::parse(private).unwrap();
            let refused = proxy.connect(&others, &target).await.unwrap_err();
            assert!(refused.contains("not a public address"), "{private}: {refused}");
        }
        let asked = asked.await.unwrap();
        assert_eq!(
            asked[0],
            "CONNECT models.invalid:443 HTTP/1.1\r\nHost: models.invalid:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        );
        assert_eq!(asked.len(), 3);
    }
}
