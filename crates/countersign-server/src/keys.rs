//! Reads and generates the sealing key, which encrypts the credentials that are stored with calls.
//!
//! The key is never taken from a command-line argument, because every process on the machine can read those.

use std::path::Path;

use countersign::hash::Hash;
use countersign::seal::Sealer;

use crate::failure::Failure;
use crate::{regular, trust};

/// Largest accepted size of a key file, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Returns the sealer with the key from the file or from `COUNTERSIGN_SEAL_KEY`; `None` if there is no key.
pub fn sealer(file: Option<&Path>) -> Result<Option<Sealer>, Failure> {
    let text = match file {
        Some(file) => read_key_file(file)?,
        None => match std::env::var("COUNTERSIGN_SEAL_KEY") {
            Ok(text) => text,
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => String::new(),
        },
    };
    let sealer = Sealer::from_hex(&text).map_err(|problem| {
        Failure::error("bad_seal_key", problem.to_string()).hint("make one with `countersign key generate`")
    })?;
    Ok(Some(sealer))
}

/// Generates a new key, as hex.
pub fn generate() -> Result<String, Failure> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| {
        Failure::error(
            "no_randomness",
            format!("the operating system returned no random bytes: {error}"),
        )
    })?;
    Ok(Hash(key).to_string())
}

fn read_key_file(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read the sealing key in `{}`: {error}", file.display());
        Failure::error("bad_seal_key", message).hint("make one with `countersign key generate > FILE`")
    };
    trust::check_secret(file)?;
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if is_open_to_all(&metadata) {
        let message = format!(
            "the sealing key in `{}` is readable by other accounts",
            file.display()
        );
        return Err(Failure::error("bad_seal_key", message).hint(format!("chmod 600 {}", file.display())));
    }
    regular::read_text(file, LARGEST).map_err(failed)
}

/// Returns true if the file's mode gives access to anybody other than its owner and group.
#[cfg(unix)]
pub fn is_open_to_all(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o007 != 0
}

/// Returns true if the file's mode gives access to anybody other than its owner.
#[cfg(unix)]
pub fn is_open_to_group(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

/// Always false: file modes are not checked on this platform.
#[cfg(not(unix))]
pub fn is_open_to_group(_: &std::fs::Metadata) -> bool {
    false
}

/// Always false: file modes are not checked on this platform.
#[cfg(not(unix))]
pub fn is_open_to_all(_: &std::fs::Metadata) -> bool {
    false
}
