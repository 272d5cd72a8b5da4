//! API token for a remote server: from a file, the environment or the command line.

use std::path::Path;

use countersign::seal::Secret;

use crate::cli::Global;
use crate::failure::Failure;
use crate::{keys, regular, trust};

/// Largest accepted size of a token file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Returns the API token, from `--token-file` if given, otherwise from `--token` or its environment variable. Fails
/// if there is none.
pub fn token(global: &Global) -> Result<Secret, Failure> {
    let text = match (&global.token_file, &global.token) {
        (Some(file), _) => read(file)?,
        (None, Some(token)) => token.clone(),
        (None, None) => {
            return Err(Failure::error("no_token", "no token is given for the server").hint(HINT));
        }
    };
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || !is_plain {
        return Err(Failure::error("bad_token", "that is not a token").hint(HINT));
    }
    Ok(Secret::new(text.as_bytes()))
}

/// Hint for a missing or invalid token.
pub const HINT: &str =
    "set COUNTERSIGN_TOKEN or use `--token-file`; create a token with `countersign token create`";

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read the token in `{}`: {error}", file.display());
        Failure::error("bad_token", message).hint("name another file with `--token-file`")
    };
    trust::check_secret(file)?;
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if keys::is_open_to_all(&metadata) {
        let message = format!("the token in `{}` is readable by other accounts", file.display());
        return Err(Failure::error("bad_token", message).hint(format!("chmod 600 {}", file.display())));
    }
    regular::read_text(file, LARGEST).map_err(failed)
}
