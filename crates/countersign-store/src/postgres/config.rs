//! Turns a PostgreSQL URL into the configuration of a connection.
//!
//! Input: the URL and options. Output: configurations for the driver and for TLS. Over a network the server's
//! certificate is always verified, unless the URL contains `sslmode=disable`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::ConnectError;
use super::limits;

/// Server to connect to, with credentials and TLS configuration.
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Target {
    /// Reads a URL like `postgresql://role:password@host/database?sslmode=verify-full&sslrootcert=/etc/ca.pem`. `name`
    /// becomes the application name, and `ca_file` is used if the URL names no `sslrootcert`.
    pub(super) fn read(url: &str, name: &str, ca_file: Option<&Path>) -> Result<Target, ConnectError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(ConnectError::BadUrl("it does not begin with `postgresql://`"));
        }
        let (url, parameters) = take_tls_parameters(url);
        // The driver's own message might quote the URL, which contains the password.
        let mut config: Config = url
            .parse()
            .map_err(|_| ConnectError::BadUrl("it cannot be read"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(ConnectError::BadUrl("it names no host"));
        }
        let ca_file = parameters.root_certificate.as_deref().or(ca_file);
        let encrypted = is_encrypted(&config, parameters.mode.as_deref(), ca_file.is_some())?;
        config
            .ssl_mode(if encrypted {
                SslMode::Require
            } else {
                SslMode::Disable
            })
            .connect_timeout(limits::CONNECT)
            .tcp_user_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .application_name(name);
        let root_certificates = match encrypted {
            true => root_certificates(ca_file)?,
            false => RootCertStore::empty(),
        };
        let tls = MakeRustlsConnect::new(tls(root_certificates)?);
        Ok(Target { config, tls })
    }

    /// Returns the hosts and the port, for messages. Contains no password.
    pub(super) fn address(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let addresses = self.config.get_hostaddrs().iter().map(IpAddr::to_string);
        let addresses: Vec<String> = hosts.chain(addresses).collect();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("{}:{port}", addresses.join(","))
    }

    pub(super) fn role(&self) -> String {
        self.config.get_user().unwrap_or("(none)").to_owned()
    }

    pub(super) fn database(&self) -> String {
        let name = self.config.get_dbname().or(self.config.get_user());
        name.unwrap_or("(none)").to_owned()
    }
}

#[derive(Debug, Default, PartialEq)]
struct TlsParameters {
    mode: Option<String>,
    root_certificate: Option<PathBuf>,
}

/// Splits `sslmode` and `sslrootcert` off the URL, because the driver does not understand all of their values. Returns
/// the URL without them, and their values.
fn take_tls_parameters(url: &str) -> (String, TlsParameters) {
    let mut tls_parameters = TlsParameters::default();
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), tls_parameters);
    };
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", mode)) => tls_parameters.mode = Some(mode.to_owned()),
            Some(("sslrootcert", path)) => {
                tls_parameters.root_certificate = Some(PathBuf::from(percent_decode(path)))
            }
            _ => kept.push(parameter),
        }
    }
    match kept.is_empty() {
        true => (base.to_owned(), tls_parameters),
        false => (format!("{base}?{}", kept.join("&")), tls_parameters),
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns true if the connection has to use TLS, false for plain text. Fails if the connection would go over a network
/// without TLS and the URL does not ask for that, or if `mode` is unknown. Every mode that encrypts also verifies the
/// certificate.
fn is_encrypted(config: &Config, mode: Option<&str>, has_ca: bool) -> Result<bool, ConnectError> {
    match mode {
        Some("require" | "verify-ca" | "verify-full") => Ok(true),
        Some("disable") => Ok(false),
        // A CA file implies TLS.
        None if has_ca => Ok(true),
        // `prefer` may fall back to plain text or accept any certificate, which is safe only on this machine.
        None | Some("prefer" | "allow") => match remote_host(config) {
            None => Ok(false),
            Some(host) => Err(ConnectError::Insecure { host }),
        },
        Some(_) => Err(ConnectError::BadUrl("its `sslmode` is unknown")),
    }
}

/// Returns the first host that is reached over a network; `None` if all hosts are on this machine.
fn remote_host(config: &Config) -> Option<String> {
    let is_local = |name: &str| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let remote_address = config
        .get_hostaddrs()
        .iter()
        .find(|address| !address.is_loopback());
    let remote_name = config.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) if !is_local(name) => Some(name.clone()),
        _ => None,
    });
    remote_address.map(IpAddr::to_string).or(remote_name)
}

fn root_certificates(ca_file: Option<&Path>) -> Result<RootCertStore, ConnectError> {
    let mut root_certificates = RootCertStore::empty();
    let Some(path) = ca_file else {
        let (added, _) =
            root_certificates.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match added {
            0 => Err(ConnectError::Tls("this machine trusts no authority".to_owned())),
            _ => Ok(root_certificates),
        };
    };
    let invalid = |reason: String| ConnectError::Tls(format!("`{}` {reason}", path.display()));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| invalid(format!("cannot be read: {error}")))?;
        root_certificates
            .add(certificate)
            .map_err(|error| invalid(format!("holds no authority: {error}")))?;
    }
    match root_certificates.is_empty() {
        true => Err(invalid("holds no certificate".to_owned())),
        false => Ok(root_certificates),
    }
}

fn tls(root_certificates: RootCertStore) -> Result<ClientConfig, ConnectError> {
    // Name the provider explicitly, so that nothing depends on the process-wide default.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ConnectError::Tls(error.to_string()))?;
    Ok(builder
        .with_root_certificates(root_certificates)
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<SslMode, &str>) {
        let target = Target::read(url, "test", None);
        let found = target.map(|target| target.config.get_ssl_mode());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "`{url}`"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "`{url}`: {error}");
                assert!(!error.to_string().contains("canary"), "`{url}`: {error}");
            }
            (found, _) => panic!("`{url}`: {found:?}"),
        }
    }

    #[test]
    fn h17_network_connections_are_verified_by_default() {
        check("postgresql://a:canary@db.example/x", Err("without TLS"));
        check(
            "postgresql://a:canary@db.example/x?sslmode=prefer",
            Err("without TLS"),
        );
        check(
            "postgresql://a:canary@10.0.0.1/x?sslmode=allow",
            Err("without TLS"),
        );
        check(
            "postgresql://a:canary@localhost/x?hostaddr=10.0.0.1",
            Err("without TLS"),
        );
        check("postgresql://a:canary@localhost,db.example/x", Err("without TLS"));
        check(
            "postgresql://a:canary@db.example/x?sslmode=disable",
            Ok(SslMode::Disable),
        );
        check("postgresql://a:canary@localhost/x", Ok(SslMode::Disable));
        check("postgresql://a:canary@[::1]/x", Ok(SslMode::Disable));
        check("postgresql://a:canary@%2Frun%2Fpg/x", Ok(SslMode::Disable));
    }

    #[test]
    fn url_errors_do_not_quote_the_url() {
        check("mysql://a:canary@h/x", Err("does not begin"));
        check("postgresql://a:canary@h:port/x", Err("cannot be read"));
        check("postgresql:///x", Err("names no host"));
        check(
            "postgresql://a:canary@h/x?sslmode=maybe",
            Err("`sslmode` is unknown"),
        );
        check(
            "postgresql://a:canary@h/x?sslmode=verify-full&sslrootcert=/no%20such",
            Err("`/no such` cannot be read"),
        );
    }

    #[test]
    fn other_parameters_are_kept() {
        let (url, tls_parameters) = take_tls_parameters("postgresql://h/x?a=1&sslmode=verify-full&b=2");
        assert_eq!(url, "postgresql://h/x?a=1&b=2");
        assert_eq!(tls_parameters.mode.as_deref(), Some("verify-full"));
    }
}
