//! Servers that get a token of the person.
//!
//! The command line of a hook stands in settings that a repository may bring along. So a server named there gets a
//! token only if the person named it before, with `hook install` or `trust`, or in their environment.

use super::TrustList;
use crate::cli::Global;
use crate::failure::Failure;

/// Refuses a server that the person has not named.
pub fn check_server(global: &Global) -> Result<(), Failure> {
    let Some(url) = &global.server else {
        return Ok(());
    };
    let is_in_environment = std::env::var("COUNTERSIGN_SERVER").is_ok_and(|named| named == *url);
    if is_in_environment || TrustList::load()?.servers.contains(normal(url)) {
        return Ok(());
    }
    let message = format!("the server `{url}` is not one that you have trusted, so it gets no token");
    Err(Failure::error("not_trusted", message).hint(format!("if it is yours: countersign trust {url}")))
}

/// A server's address as the list has it.
pub fn normal(url: &str) -> &str {
    url.trim_end_matches('/')
}
