//! Trust in servers that receive the person's token.
//!
//! A hook's command line is in settings that a repository may contain. A server named there receives a token only if
//! the person approved it before, with `hook install` or `trust`, or set it in the environment.

use super::TrustList;
use crate::cli::Global;
use crate::failure::Failure;

/// Refuses a server that the person has neither trusted nor set in the environment.
pub fn check_server(global: &Global) -> Result<(), Failure> {
    let Some(url) = &global.server else {
        return Ok(());
    };
    let is_in_environment = std::env::var("COUNTERSIGN_SERVER").is_ok_and(|named| named == *url);
    if is_in_environment || TrustList::load()?.servers.contains(normal(url)) {
        return Ok(());
    }
    let message = format!("you have not trusted the server `{url}`, so no token is sent to it");
    Err(Failure::error("not_trusted", message).hint(format!("if it is yours: countersign trust {url}")))
}

/// Returns a server's address in the form of the trust list: without a trailing slash.
pub fn normal(url: &str) -> &str {
    url.trim_end_matches('/')
}
