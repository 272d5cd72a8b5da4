//! Checks who can change a file: only root and the person who runs this program, or others as well.
//!
//! A path that others can change is refused with the command that fixes the permissions. Every folder on the path is
//! checked and every symbolic link is followed step by step, because a person who can replace a folder can replace its
//! contents. Access control lists and the rights of root are not checked.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// Environment variable with the comma-separated ids of further accounts that count as the person's own, for containers
/// in which files belong to another account.
const TRUST_UID: &str = "COUNTERSIGN_TRUST_UID";
const TRUST_GID: &str = "COUNTERSIGN_TRUST_GID";
/// Maximum number of symbolic links to follow, the same as the kernel's.
const MOST_LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// Rights that others may have in the folder that contains the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Others may create their own files in the folder if it is sticky, as `/tmp` is.
    Shared,
    /// Others may create nothing in the folder, because SQLite would read a WAL that they create next to a store.
    Own,
}

/// Refuses a path that others could change or replace. A path that does not exist yet is judged by those of its folders
/// that exist.
pub fn check(path: &Path, folder: Folder) -> Result<(), Failure> {
    let people = People::here();
    let mut at = PathBuf::from("/");
    people.check(&at, &metadata(&at)?, Folder::Shared)?;
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&name);
        let found = match here.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(&here, &error)),
            Ok(found) => found,
        };
        if found.is_symlink() {
            people.check_owner(&here, &found)?;
            links += 1;
            if links > MOST_LINKS {
                return Err(unreadable(path, &"too many symbolic links"));
            }
            let target = here.read_link().map_err(|error| unreadable(&here, &error))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(names(&target));
            continue;
        }
        let is_last_folder = left.len() == 1 && found.is_dir();
        let limit = if is_last_folder { folder } else { Folder::Shared };
        people.check(&here, &found, limit)?;
        at = here;
    }
    Ok(())
}

/// Splits a path into its components, last one first, without the root.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

/// User and group ids that count as the person's own, including root's.
struct People {
    uids: Vec<u32>,
    gids: Vec<u32>,
}

impl People {
    fn here() -> People {
        let mut uids = numbers(TRUST_UID);
        uids.extend([0, rustix::process::geteuid().as_raw()]);
        let mut gids = numbers(TRUST_GID);
        gids.push(0);
        People { uids, gids }
    }

    fn check(&self, path: &Path, found: &Metadata, folder: Folder) -> Result<(), Failure> {
        self.check_owner(path, found)?;
        let mode = found.mode();
        // In a sticky folder, nobody can replace the files of others.
        if found.is_dir() && mode & STICKY != 0 && folder == Folder::Shared {
            return Ok(());
        }
        let by_group = mode & 0o020 != 0 && !self.gids.contains(&found.gid());
        let by_all = mode & 0o002 != 0;
        let who = match (by_all, by_group) {
            (true, _) => "everybody on this machine",
            (false, true) => "its group",
            (false, false) => return Ok(()),
        };
        let shown = path.display();
        let message = format!("`{shown}` is not safe to use: {who} can write it");
        let failure = Failure::error("others_can_write", message);
        Err(match found.is_dir() && mode & STICKY != 0 {
            true => failure.hint("keep it in a folder of your own"),
            false if by_all => failure.hint(format!("chmod go-w {shown}")),
            false => failure.hint(format!(
                "chmod g-w {shown}; or, if nobody else is in that group, set {TRUST_GID}={}",
                found.gid()
            )),
        })
    }

    fn check_owner(&self, path: &Path, found: &Metadata) -> Result<(), Failure> {
        let uid = found.uid();
        if self.uids.contains(&uid) {
            return Ok(());
        }
        let message = format!(
            "`{}` is not safe to use: it belongs to another account (number {uid})",
            path.display()
        );
        Err(Failure::error("others_can_write", message).hint(format!(
            "use a copy of your own; or, if that account is yours, set {TRUST_UID}={uid}"
        )))
    }
}

fn numbers(name: &str) -> Vec<u32> {
    let text = std::env::var(name).unwrap_or_default();
    text.split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}

fn metadata(path: &Path) -> Result<Metadata, Failure> {
    path.metadata().map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot read the permissions of `{}`: {error}", path.display());
    Failure::error("others_can_write", message).hint("name a file that you can read")
}
