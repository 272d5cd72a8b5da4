//! Stores, and other databases of this program.
//!
//! Enters: a path. Leaves: a place to open, or a refusal that says what to do.
//! A store changes all the time, so it is known by the file itself: its number on the disk and when it was made. A store
//! that this program makes is known from then on; one that came with a folder is refused until a person trusts it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::TrustList;
use super::file::absolute;
use super::list::Lock;
use super::who::{self, Folder};
use crate::failure::Failure;

/// What SQLite keeps beside a file.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Which file it is, whatever is in it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    inode: u64,
    /// When it was made, in nanoseconds since 1970: numbers are used again after a file is gone.
    made: u64,
}

impl FileIdentity {
    /// The identity of a file; nothing where the file system does not say when files were made.
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
    /// Where it is.
    pub path: PathBuf,
    /// Held while a new store is made, so that no other process finds one that is not known yet.
    making: Option<Lock>,
    is_new: bool,
}

impl StorePlace {
    /// Looks whether a store may be used, or be made there.
    pub fn find(path: &Path) -> Result<StorePlace, Failure> {
        let is_named = path.is_absolute();
        let path = absolute(path)?;
        who::check(&path, Folder::Own)?;
        if is_there(&path) && is_known(&path, is_named)? {
            return StorePlace::old(path);
        }
        // Somebody may be making it at this moment.
        let making = TrustList::lock().ok();
        match is_there(&path) {
            true if is_known(&path, is_named)? => StorePlace::old(path),
            true => Err(not_trusted(&path)),
            false => {
                let beside = beside(&path).find(|path| is_there(path));
                if let Some(beside) = beside {
                    let message = format!("`{}` is there without its store", beside.display());
                    return Err(Failure::error("not_trusted", message)
                        .hint("take it away, or name another store with `--store`"));
                }
                Ok(StorePlace {
                    path,
                    making,
                    is_new: true,
                })
            }
        }
    }

    /// Notes that this person's own program has just made the store.
    pub fn remember(self) {
        let (true, Some(lock), Some(identity)) = (self.is_new, &self.making, FileIdentity::of(&self.path))
        else {
            return;
        };
        // A store that could not be noted is refused the next time, with a sentence that says what to do.
        let _ = lock.change(|list| {
            list.stores.retain(|path, _| is_there(path));
            list.stores.insert(self.path.clone(), identity);
        });
    }

    fn old(path: PathBuf) -> Result<StorePlace, Failure> {
        for beside in beside(&path) {
            who::check(&beside, Folder::Own)?;
        }
        Ok(StorePlace {
            path,
            making: None,
            is_new: false,
        })
    }
}

/// Whether a store is one that the person named by its full path, trusted or made.
fn is_known(path: &Path, is_named: bool) -> Result<bool, Failure> {
    if is_named {
        return Ok(true);
    }
    let known = TrustList::load()?.stores.get(path).copied();
    Ok(known.is_some() && known == FileIdentity::of(path))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.iter().map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn not_trusted(path: &Path) -> Failure {
    let shown = path.display();
    let message = format!("`{shown}` is in the folder you are in, and this program has not made it for you");
    Failure::error("not_trusted", message).hint(format!(
        "whoever made it may have put tokens into it; if it is yours: countersign trust {shown}; or name the store you mean \
         with `--store` and its full path"
    ))
}
