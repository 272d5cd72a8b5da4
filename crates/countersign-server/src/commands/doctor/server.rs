//! Checks a server: whether it answers, whether the connection is safe, its version, and whether it accepts the token.

use countersign::store::Filter;

use super::Finding;
use crate::backend::RemoteBackend;
use crate::cli::Global;

pub async fn check(global: &Global, url: &str) -> Vec<Finding> {
    let backend = match RemoteBackend::open(global, url, None) {
        Ok(backend) => backend,
        Err(failure) => return vec![Finding::failed("server", failure)],
    };
    let version = match backend.version().await {
        Ok(version) => version,
        Err(failure) => return vec![Finding::failed("server", failure)],
    };
    let how = match url.starts_with("https://") {
        true => "over TLS, with a certificate this machine trusts",
        false => "on this machine",
    };
    let mut findings = vec![Finding::good("server", format!("it answers {how}"))];
    let own = env!("CARGO_PKG_VERSION");
    findings.push(match version == own {
        true => Finding::good("version", format!("both sides are {own}")),
        false => Finding::warning(
            "version",
            format!("the server is {version}, this command is {own}"),
            "use the same version on both sides",
        ),
    });
    let one = Filter {
        limit: Some(1),
        ..Filter::pending()
    };
    findings.push(match backend.list(&one).await {
        Ok(_) => Finding::good("token", "the server takes it"),
        Err(failure) => Finding::failed("token", failure),
    });
    findings
}
