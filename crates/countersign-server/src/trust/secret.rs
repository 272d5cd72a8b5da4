//! Trust in files that contain a token or a key.
//!
//! INVARIANT: the path must be absolute, and nobody else can write the file. With a token from a cloned repository, a
//! person would act in someone else's name. With a sealing key from there, the author of the repository could decrypt
//! the person's secrets.
//!
//! The content is not checked, because tokens are replaced regularly and nobody reviews them.

use std::path::Path;

use super::who::{self, Folder};
use crate::failure::Failure;

/// Refuses a relative path to a token or key, and a path that others could change.
pub fn check_secret(path: &Path) -> Result<(), Failure> {
    if path.is_absolute() {
        return who::check(path, Folder::Shared);
    }
    let shown = path.display();
    let message = format!("`{shown}` is a relative path, and the current folder may have brought it along");
    let full = super::absolute(path).map_or_else(|_| shown.to_string(), |full| full.display().to_string());
    Err(Failure::error("not_trusted", message)
        .hint(format!("if you mean that file, name it by its full path: {full}")))
}
