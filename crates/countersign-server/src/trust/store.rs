//! Trust in stores and other databases of this program.
//!
//! The content of a store changes all the time, so a store is identified by its inode number and creation time. Stores
//! that this program creates are trusted from then on; a store found in a folder is refused until a person trusts it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::TrustList;
use super::file::absolute;
use super::list::Lock;
use super::who::{self, Folder};
use crate::failure::Failure;

/// Suffixes of the files that SQLite keeps next to a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Identifies a file regardless of its content.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    inode: u64,
    /// Creation time in nanoseconds since 1970. Needed because inode numbers are reused after a file is deleted.
    made: u64,
}

impl FileIdentity {
    /// Returns the identity of a file; `None` if the file does not exist or the file system does not record creation
    /// times.
    pub fn of(path: &Path) -> Option<FileIdentity> {
        let found = path.symlink_metadata().ok()?;
        let made = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileIdentity {
            inode: found.ino(),
            made: u64::try_from(made.as_nanos()).ok()?,
        })
    }
}

/// A store that may be opened.
pub struct StorePlace {
    pub path: PathBuf,
    /// Lock on the trust list while a new store is created, so that no other process finds the store before it is in
    /// the list.
    making: Option<Lock>,
    is_new: bool,
}

impl StorePlace {
    /// Checks whether the store at `path` may be opened, or may be created if it does not exist. Fails with a hint if
    /// not. If the store is new, the trust list stays locked until [`remember`](Self::remember).
    pub fn find(path: &Path) -> Result<StorePlace, Failure> {
        let is_named = path.is_absolute();
        let path = absolute(path)?;
        check_regular(&path)?;
        who::check(&path, Folder::Own)?;
        if is_there(&path) && is_known(&path, is_named)? {
            return StorePlace::old(path);
        }
        // Another process may be creating the store right now, so take the lock and check again.
        let making = TrustList::lock().ok();
        match is_there(&path) {
            true if is_known(&path, is_named)? => StorePlace::old(path),
            true => Err(not_trusted(&path)),
            false => {
                let beside = sibling_paths(&path).find(|path| is_there(path));
                if let Some(beside) = beside {
                    let message = format!("`{}` exists without its store", beside.display());
                    return Err(Failure::error("not_trusted", message).hint(without_store(&path)));
                }
                Ok(StorePlace {
                    path,
                    making,
                    is_new: true,
                })
            }
        }
    }

    /// Adds the store to the trust list if this process has just created it.
    pub fn remember(self) {
        let (true, Some(lock), Some(identity)) = (self.is_new, &self.making, FileIdentity::of(&self.path))
        else {
            return;
        };
        // If this fails, the store is refused next time, with a hint that says what to do.
        let _ = lock.change(|list| {
            list.stores.retain(|path, _| is_there(path));
            list.stores.insert(self.path.clone(), identity);
        });
    }

    fn old(path: PathBuf) -> Result<StorePlace, Failure> {
        for beside in sibling_paths(&path) {
            check_regular(&beside)?;
            who::check(&beside, Folder::Own)?;
        }
        Ok(StorePlace {
            path,
            making: None,
            is_new: false,
        })
    }
}

/// Returns true if the person named the store by its full path, or if it is in the trust list and still the same file.
fn is_known(path: &Path, is_named: bool) -> Result<bool, Failure> {
    if is_named {
        return Ok(true);
    }
    let known = TrustList::load()?.stores.get(path).copied();
    Ok(known.is_some() && known == FileIdentity::of(path))
}

/// Refuses a path that exists and is not a regular file. Opening a named pipe would wait for its writer.
fn check_regular(path: &Path) -> Result<(), Failure> {
    // If the path cannot be examined, opening it will report the reason.
    let Ok(found) = path.metadata() else {
        return Ok(());
    };
    if found.is_file() {
        return Ok(());
    }
    let message = format!("`{}` cannot be a store: it is not a regular file", path.display());
    Err(Failure::error("store_unusable", message)
        .hint("name a file with `--store`; a new one is made if it is missing"))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn sibling_paths(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.iter().map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

/// Returns the hint for WAL or journal files whose store is missing. They may hold the last acknowledged commits.
fn without_store(path: &Path) -> String {
    let store = path.display();
    let found = sibling_paths(path).filter(|path| is_there(path));
    let found: Vec<String> = found.map(|path| path.display().to_string()).collect();
    let found = found.join(" ");
    format!(
        "it may hold what was acknowledged last, so put its store back beside it: `mv WHERE-IT-IS {store}`. If that store is \
         gone for good, keep what is left and restore a backup: `mkdir lost && mv {found} lost/ && countersign restore BACKUP \
         --store {store}`"
    )
}

fn not_trusted(path: &Path) -> Failure {
    let shown = path.display();
    let message = format!("`{shown}` is in the current folder, and this program did not create it for you");
    Failure::error("not_trusted", message).hint(format!(
        "whoever made it may have put tokens into it; if it is yours: countersign trust {shown}; or name the store you mean \
         with `--store` and its full path"
    ))
}
