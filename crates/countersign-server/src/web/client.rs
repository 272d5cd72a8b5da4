//! Client address of a request: the peer of the connection, or the address that a trusted proxy reports.
//!
//! INVARIANT: `X-Forwarded-For` counts only on connections from addresses that the operator listed. Anybody else could
//! put a new address into it with every request and so evade the limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::{ApiError, App};

/// Remote address of a connection; the listener adds it to each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Key for limits per client: an IPv4 address, or the /64 network of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl Client {
    /// Returns the key under which an address is limited.
    pub fn of(address: IpAddr) -> Client {
        Client(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let network = u128::from(address) & (u128::MAX << 64);
                IpAddr::V6(Ipv6Addr::from(network))
            }
        })
    }
}

impl FromRequestParts<App> for Client {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // Without a listener (in tests) all requests count as one client.
        let peer = parts.extensions.get::<Peer>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
        let proxies = &app.web().trusted_proxies;
        Ok(Client::of(proxies.origin(peer, &parts.headers)))
    }
}

/// Addresses and networks of proxies whose `X-Forwarded-For` header is trusted.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Network>);

#[derive(Clone, Copy, Debug)]
struct Network {
    base: u128,
    bits: u32,
}

impl TrustedProxies {
    /// Parses addresses and networks such as `10.0.0.0/8`. Fails with a message that names the one that cannot be
    /// parsed.
    pub fn parse(texts: &[String]) -> Result<TrustedProxies, String> {
        let networks = texts.iter().map(|text| {
            text.parse().map_err(|()| {
                format!(
                    "`trusted_proxies`: `{text}` is neither an address nor a network such as `10.0.0.0/8`"
                )
            })
        });
        networks.collect::<Result<_, String>>().map(TrustedProxies)
    }

    /// Returns true if no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the address belongs to a trusted proxy.
    pub fn include(&self, address: IpAddr) -> bool {
        let address = wide(address);
        let fits = |network: &Network| mask(address, network.bits) == network.base;
        self.0.iter().any(fits)
    }

    /// Returns the client's address, which is the last address in the chain of proxies that is not a trusted proxy.
    /// Entries of `X-Forwarded-For` before it may be forged and are ignored.
    pub fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.include(peer) {
            return peer;
        }
        let values = headers.get_all("x-forwarded-for").iter();
        let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let mut nearest = peer;
        for hop in texts.iter().rev().flat_map(|text| text.rsplit(',')) {
            let Some(address) = read(hop.trim()) else {
                return nearest;
            };
            nearest = address;
            if !self.include(address) {
                return address;
            }
        }
        nearest
    }
}

impl FromStr for Network {
    type Err = ();
    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| ())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let (shift, most) = match address {
            IpAddr::V4(_) => (96, 32),
            IpAddr::V6(_) => (0, 128),
        };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(());
        }
        let bits = bits + shift;
        Ok(Network {
            base: mask(wide(address), bits),
            bits,
        })
    }
}

/// Converts an address to the bits of an IPv6 address. An IPv4 address becomes an IPv4-mapped one.
fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn mask(address: u128, bits: u32) -> u128 {
    address & u128::MAX.checked_shl(128 - bits).unwrap_or_default()
}

/// Parses an address, with or without brackets and port; `None` if it is not an address.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text.parse::<IpAddr>().ok();
    let with_port = || {
        text.parse::<std::net::SocketAddr>()
            .ok()
            .map(|address| address.ip())
    };
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    bare.or_else(with_port).or_else(in_brackets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn x61_a_site_is_one_party() {
        let same = |one: &str, other: &str| Client::of(ip(one)) == Client::of(ip(other));
        assert!(same("2001:db8::1", "2001:db8::ffff:1:2:3"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
    }

    #[track_caller]
    fn check(trusted: &[&str], peer: &str, forwarded: &[&str], expected: &str) {
        let trusted: Vec<String> = trusted.iter().map(ToString::to_string).collect();
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let found = TrustedProxies::parse(&trusted)
            .unwrap()
            .origin(ip(peer), &headers);
        assert_eq!(found, ip(expected), "{peer} {forwarded:?}");
    }

    #[test]
    fn x61_only_a_listed_proxy_says_who_calls() {
        check(&[], "127.0.0.1", &["203.0.113.9"], "127.0.0.1");
        check(&["10.0.0.0/8"], "192.0.2.1", &["203.0.113.9"], "192.0.2.1");
        check(&["10.0.0.0/8"], "10.1.2.3", &["203.0.113.9"], "203.0.113.9");
        check(&["10.0.0.0/8"], "10.1.2.3", &[], "10.1.2.3");
        // An entry that the caller forged comes before the one that the proxy added, and is ignored.
        check(
            &["10.0.0.0/8"],
            "10.1.2.3",
            &["1.1.1.1, 203.0.113.9"],
            "203.0.113.9",
        );
        check(
            &["10.0.0.0/8"],
            "10.1.2.3",
            &["1.1.1.1", "203.0.113.9"],
            "203.0.113.9",
        );
        check(
            &["10.0.0.0/8"],
            "10.1.2.3",
            &["203.0.113.9, 10.9.9.9"],
            "203.0.113.9",
        );
        check(
            &["10.0.0.0/8"],
            "10.1.2.3",
            &["203.0.113.9, nonsense"],
            "10.1.2.3",
        );
        check(&["::1"], "::1", &["[2001:db8::5]:4711"], "2001:db8::5");
        check(
            &["127.0.0.1"],
            "::ffff:127.0.0.1",
            &["203.0.113.9:80"],
            "203.0.113.9",
        );
    }

    #[test]
    fn strange_networks_are_refused() {
        for wrong in [
            "",
            "localhost",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0/8",
            "*",
        ] {
            assert!(TrustedProxies::parse(&[wrong.to_owned()]).is_err(), "`{wrong}`");
        }
        assert!(TrustedProxies::parse(&["0.0.0.0/0".to_owned(), "::/0".to_owned()]).is_ok());
    }
}
