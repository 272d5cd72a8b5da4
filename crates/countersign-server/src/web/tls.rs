//! TLS termination in the service itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::failure::Failure;
use crate::{regular, trust};

/// Maximum size of a certificate or key file, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Paths of the certificate and the key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Path of the certificate chain, in PEM format.
    pub certificate: PathBuf,
    /// Path of the private key, in PEM format.
    pub key: PathBuf,
}

/// Accepts TLS connections.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Loads the certificate and the key. Fails if they cannot be used for TLS, if the path of the key is relative, or
    /// if others could change the key file.
    pub fn load(files: &Files) -> Result<Acceptor, Failure> {
        let bad = |file: &Path, error: String| {
            let message = format!("cannot use `{}` for TLS: {error}", file.display());
            Failure::error("bad_tls", message).hint("give a PEM certificate chain and its private key")
        };
        let read = |file: &Path| regular::read(file, LARGEST).map_err(|error| bad(file, error.to_string()));
        let certificate = read(&files.certificate)?;
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(&files.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(&files.certificate, "it contains no certificate".to_owned()));
        }
        trust::check_secret(&files.key)?;
        let key = read(&files.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad(&files.key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, key))
            .map_err(|error| bad(&files.certificate, error.to_string()))?;
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    /// Performs the TLS handshake on a connection.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
