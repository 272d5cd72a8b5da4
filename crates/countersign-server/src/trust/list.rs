//! What a person has trusted, in one file of theirs.
//!
//! Enters: files, stores, servers and hooks that a person stands for. Leaves: whether they still are what was trusted.
//! The file is in the person's own configuration folder, and theirs alone: one that others can write is refused.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::who;
use crate::failure::Failure;
use crate::private;

/// The largest list that is read.
const LARGEST: u64 = 8 * 1024 * 1024;
const FILE: &str = "trusted.json";
const LOCK: &str = "trusted.lock";

/// What a person has trusted.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrustList {
    /// Servers that hooks may show a token to.
    #[serde(default)]
    pub servers: BTreeSet<String>,
    /// The command lines that `hook install` made, word by word.
    #[serde(default)]
    pub hooks: BTreeSet<Vec<String>>,
}

impl TrustList {
    /// Reads the list; an empty one when there is none, or when nothing says where it would be.
    pub fn load() -> Result<TrustList, Failure> {
        match folder() {
            Some(folder) => TrustList::read(&folder.join(FILE)),
            None => Ok(TrustList::default()),
        }
    }

    /// Changes the list, while nobody else does.
    pub fn change(change: impl FnOnce(&mut TrustList)) -> Result<(), Failure> {
        let folder = folder().ok_or_else(|| {
            Failure::error(
                "no_config",
                "neither XDG_CONFIG_HOME nor HOME says where your settings are",
            )
            .hint("set HOME, and try again")
        })?;
        let file = folder.join(FILE);
        let failed = |error: std::io::Error| {
            Failure::error("no_config", format!("cannot write `{}`: {error}", file.display()))
                .hint("check who may write that folder")
        };
        private::create_folder(&folder).map_err(failed)?;
        who::check(&file, who::Folder::Own)?;
        let _lock = lock(&folder.join(LOCK)).map_err(failed)?;
        let mut list = TrustList::read(&file)?;
        change(&mut list);
        let text = serde_json::to_vec_pretty(&list)
            .map_err(|error| Failure::error("no_config", error.to_string()))?;
        private::replace(&file, &text).map_err(failed)
    }

    fn read(file: &Path) -> Result<TrustList, Failure> {
        let bad = |problem: &str| {
            Failure::error("bad_trust", format!("cannot use `{}`: {problem}", file.display()))
                .hint("move it away, and trust again what you use")
        };
        match std::fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TrustList::default()),
            Err(error) => return Err(bad(&error.to_string())),
            Ok(found) if found.len() > LARGEST => return Err(bad("it is too large")),
            Ok(_) => who::check(file, who::Folder::Own)?,
        }
        let text = std::fs::read(file).map_err(|error| bad(&error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| bad(&error.to_string()))
    }
}

/// The person's own settings of this program.
pub fn folder() -> Option<PathBuf> {
    let named = |name: &str| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let base = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))?;
    Some(base.join("countersign"))
}

/// Waits until no other process changes the list. Ends when the file is closed.
fn lock(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.lock()?;
    Ok(file)
}
