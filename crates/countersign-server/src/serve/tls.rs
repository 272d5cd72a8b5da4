//! TLS, where the service speaks it itself.

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

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// Makes plain connections secure ones.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Reads certificate and key.
    pub fn load(files: &Files) -> Result<Acceptor, Failure> {
        let bad = |file: &Path, error: String| {
            let message = format!("cannot use `{}` for TLS: {error}", file.display());
            Failure::error("bad_tls", message).hint("give a PEM certificate chain and its private key")
        };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| bad(&files.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(&files.certificate, "it holds no certificate".to_owned()));
        }
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, key))
            .map_err(|error| bad(&files.certificate, error.to_string()))?;
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    /// Makes a connection secure.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
