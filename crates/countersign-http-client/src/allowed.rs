//! Addresses that the service may call: public ones, and private ones that the operator lists (X43).
//!
//! A host name is resolved once, each of its addresses is checked, and the connection goes to one of the checked
//! addresses, so that DNS rebinding cannot change the target.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Private targets that may be called, as `HOST:PORT`. Public addresses are always allowed.
#[derive(Clone, Debug, Default)]
pub struct AllowedTargets(Arc<[String]>);

/// Error: an entry in the operator's list has no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` in `private_targets` has no port")]
pub struct NoPort(pub String);

impl AllowedTargets {
    /// Creates the list from the operator's entries, each `HOST:PORT`. Fails if an entry has no port.
    pub fn new(targets: &[String]) -> Result<AllowedTargets, NoPort> {
        for target in targets {
            let has_port = target
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if !has_port {
                return Err(NoPort(target.clone()));
            }
        }
        Ok(AllowedTargets(
            targets.iter().map(|target| target.to_ascii_lowercase()).collect(),
        ))
    }

    /// Creates a list with one private target, named by the person who runs the command. Public addresses are allowed
    /// as well.
    pub fn one(target: String) -> AllowedTargets {
        AllowedTargets(Arc::from([target.to_ascii_lowercase()]))
    }

    /// Returns true if the operator has named this target.
    pub(crate) fn is_named(&self, host: &str, port: u16) -> bool {
        self.0.contains(&format!("{}:{port}", host.to_ascii_lowercase()))
    }

    /// Resolves a host and returns one of its addresses. Fails if any of them is private and the host is not allowed.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<SocketAddr> = tokio::net::lookup_host((bare, port))
            .await
            .map_err(|error| format!("`{host}` cannot be found: {error}"))?
            .collect();
        if !self.is_named(host, port)
            && let Some(private) = found.iter().find(|address| !is_public(address.ip()))
        {
            return Err(format!(
                "`{host}` is at {}, which is not a public address and not in `private_targets`",
                private.ip()
            ));
        }
        found
            .first()
            .copied()
            .ok_or_else(|| format!("`{host}` has no address"))
    }
}

/// Returns true for addresses that are routed on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_unspecified()
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Carrier-grade NAT (100.64/10), benchmarking (198.18/15), IETF assignments (192.0.0/24), reserved (240/4).
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (b == 18 || b == 19))
        || (a == 192 && b == 0 && c == 0)
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Only 2000::/3 is allocated for global unicast; the rest is local, reserved or multicast.
    let [first, second, ..] = address.segments();
    let is_allocated = (first & 0xe000) == 0x2000;
    let is_documentation = first == 0x2001 && second == 0x0db8;
    let is_teredo = first == 0x2001 && second == 0;
    is_allocated && !is_documentation && !is_teredo
}

/// Returns the IPv4 address inside an IPv4-mapped, IPv4-compatible, NAT64 or 6to4 address; `None` for other
/// addresses.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let [first, second, third, ..] = segments;
    if let Some(mapped) = address.to_ipv4() {
        return Some(mapped);
    }
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0x64, 0xff9b, .., high, low] => Some(v4(high, low)),
        _ if first == 0x2002 => Some(v4(second, third)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x43_private_addresses_are_not_public() {
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "240.0.0.1",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2002:101:101::"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[tokio::test]
    async fn x43_a_private_address_is_called_only_if_it_is_listed() {
        let none_allowed = AllowedTargets::default();
        let error = none_allowed.resolve("localhost", 9).await.unwrap_err();
        assert!(error.contains("not a public address"), "{error}");
        for host in ["127.0.0.1", "[::1]", "0x7f000001", "2130706433", "127.1"] {
            assert!(none_allowed.resolve(host, 9).await.is_err(), "{host}");
        }
        let named = AllowedTargets::new(&["LOCALHOST:9".to_owned()]).unwrap();
        assert!(named.resolve("localhost", 9).await.is_ok());
        assert!(
            named.resolve("localhost", 10).await.is_err(),
            "another port is another place"
        );
        assert!(AllowedTargets::new(&["localhost".to_owned()]).is_err());
    }
}
