//! What a person has trusted, in one file of theirs.
//!
//! Enters: files, stores, servers and hooks that a person stands for. Leaves: whether they still are what was trusted.
//! The file is in the person's own configuration folder, and theirs alone: one that others can write is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FileIdentity, TrustedContent, who};
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
    /// Files that say what this program does, by their full paths.
    #[serde(default)]
    pub files: BTreeMap<PathBuf, TrustedContent>,
    /// Stores, by their full paths.
    #[serde(default)]
    pub stores: BTreeMap<PathBuf, FileIdentity>,
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
        TrustList::lock()?.change(change)
    }

    /// Waits until no other process changes the list.
    pub fn lock() -> Result<Lock, Failure> {
        let folder = folder().ok_or_else(|| {
            Failure::error(
                "no_config",
                "neither XDG_CONFIG_HOME nor HOME says where your settings are",
            )
            .hint("set HOME to a folder that is there, and try again")
        })?;
        let lock = folder.join(LOCK);
        private::create_folder(&folder).map_err(|error| unwritable(&folder, &error))?;
        who::check(&lock, who::Folder::Own)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let opened = options.open(&lock).and_then(|file| file.lock().map(|()| file));
        Ok(Lock {
            _file: opened.map_err(|error| unwritable(&lock, &error))?,
            list: folder.join(FILE),
        })
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

/// The right to change the list. Ends when it is dropped.
pub struct Lock {
    _file: File,
    list: PathBuf,
}

impl Lock {
    /// Changes the list.
    pub fn change(&self, change: impl FnOnce(&mut TrustList)) -> Result<(), Failure> {
        let mut list = TrustList::read(&self.list)?;
        change(&mut list);
        let text = serde_json::to_vec_pretty(&list)
            .map_err(|error| Failure::error("no_config", error.to_string()))?;
        private::replace(&self.list, &text).map_err(|error| unwritable(&self.list, &error))
    }
}

/// The person's own settings of this program; nothing when there is no home.
pub fn folder() -> Option<PathBuf> {
    let named = |name: &str| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let home = || named("HOME").filter(|home| home.is_dir());
    let base = named("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))?;
    Some(base.join("countersign"))
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::error("no_config", format!("cannot write `{}`: {error}", file.display()))
        .hint("check who may write that folder")
}
