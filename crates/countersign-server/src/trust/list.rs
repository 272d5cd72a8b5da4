//! The trust list: everything a person has trusted, in one file.
//!
//! Files are recorded by hash, stores by inode and creation time, servers by address, and hooks by command line. They
//! are compared with the list when they are used again. The file is in the person's own configuration folder. It is
//! refused if others can write it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FileIdentity, TrustedContent, who};
use crate::failure::Failure;
use crate::{private_file, regular};

/// Maximum size of the list in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;
const FILE: &str = "trusted.json";
const LOCK: &str = "trusted.lock";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrustList {
    /// Servers that hooks may send a token to.
    #[serde(default)]
    pub servers: BTreeSet<String>,
    /// Files that control this program, by full path.
    #[serde(default)]
    pub files: BTreeMap<PathBuf, TrustedContent>,
    /// Stores, by full path.
    #[serde(default)]
    pub stores: BTreeMap<PathBuf, FileIdentity>,
    /// Command lines that `hook install` wrote, as separate words.
    #[serde(default)]
    pub hooks: BTreeSet<Vec<String>>,
}

impl TrustList {
    /// Reads the list; returns an empty one if the file does not exist, or if there is no home folder.
    pub fn load() -> Result<TrustList, Failure> {
        match folder() {
            Some(folder) => TrustList::read(&folder.join(FILE)),
            None => Ok(TrustList::default()),
        }
    }

    /// Returns the contents that were trusted for this file, under any path that resolves to the same file.
    pub fn contents_of(&self, path: &Path) -> Vec<&TrustedContent> {
        let files = self.files.iter();
        let same = files.filter(|(listed, _)| is_same_file(listed, path));
        same.map(|(_, content)| content).collect()
    }

    /// Adds a file's content to the list. Replaces the contents that were trusted for the same file before.
    pub fn trust_file(&mut self, path: PathBuf, content: TrustedContent) {
        self.files.retain(|listed, _| !is_same_file(listed, &path));
        self.files.insert(path, content);
    }

    /// Returns the stores in the command lines of installed hooks: those of one coding agent, or of all if `agent` is
    /// `None`.
    pub fn hook_stores(&self, agent: Option<&str>) -> BTreeSet<&str> {
        let is_its = |words: &&Vec<String>| {
            let named = words.get(2).map(String::as_str);
            agent.is_none() || named == agent
        };
        let store = |words: &'_ [String]| words.iter().position(|word| word == "--store");
        let stores = self.hooks.iter().filter(is_its);
        let stores = stores.filter_map(|words| words.get(store(words)? + 1));
        stores.map(String::as_str).collect()
    }

    /// Changes the list while holding its lock.
    pub fn change(change: impl FnOnce(&mut TrustList)) -> Result<(), Failure> {
        TrustList::lock()?.change(change)
    }

    /// Waits for the lock on the list, which only one process at a time can hold.
    pub fn lock() -> Result<Lock, Failure> {
        let folder = folder().ok_or_else(|| {
            Failure::error(
                "no_config",
                "neither XDG_CONFIG_HOME nor HOME says where your settings are",
            )
            .hint("set HOME to an existing folder and try again")
        })?;
        let lock = folder.join(LOCK);
        private_file::create_folder(&folder).map_err(|error| unwritable(&folder, &error))?;
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
                .hint("move it away, then trust again what you use")
        };
        let text = match regular::read(file, LARGEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TrustList::default()),
            read => read.map_err(|error| bad(&error.to_string()))?,
        };
        who::check(file, who::Folder::Own)?;
        serde_json::from_slice(&text).map_err(|error| bad(&error.to_string()))
    }
}

/// Exclusive lock on the list, released when dropped.
pub struct Lock {
    _file: File,
    list: PathBuf,
}

impl Lock {
    /// Reads the list, applies `change` and writes it back.
    pub fn change(&self, change: impl FnOnce(&mut TrustList)) -> Result<(), Failure> {
        let mut list = TrustList::read(&self.list)?;
        change(&mut list);
        let text = serde_json::to_vec_pretty(&list)
            .map_err(|error| Failure::error("no_config", error.to_string()))?;
        private_file::replace(&self.list, &text).map_err(|error| unwritable(&self.list, &error))
    }
}

/// Returns true if two paths resolve to the same file. Paths that cannot be resolved are the same only if they are
/// spelled alike.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let followed = |path: &Path| path.canonicalize().ok();
    one == other || followed(one).is_some_and(|one| followed(other) == Some(one))
}

/// Returns the person's configuration folder for this program; `None` if there is no home folder.
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
        .hint("check the permissions of that folder")
}
