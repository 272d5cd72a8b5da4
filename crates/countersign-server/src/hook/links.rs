//! Follows the paths in a call's arguments, so that a link to a sensitive file is held like the file itself.
//!
//! Input: the working folder and the arguments. Output: the working folder with every path that leads elsewhere.
//! A path need not exist: what exists of it is followed, as for a file that is about to be written. Hard links, mounts,
//! and names that a shell puts together are not detected, and a link can be replaced after it was followed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use countersign::call::Arguments;
use countersign::json::{self, Kind};
use countersign::working_folder::{BadFolder, LONGEST_PATH, Link, WorkingFolder};

/// Maximum number of paths that are followed for one call.
const MOST_FOLLOWED: usize = 1000;
/// Maximum number of links that lead to one place, as in the kernel.
const MOST_HOPS: usize = 40;
/// Characters between the words of a command line, besides white space.
const SEPARATORS: &str = "\"'`;|&<>()=,";

/// Returns the working folder with the links that the arguments name.
pub fn follow(folder: &str, arguments: &Arguments) -> Result<WorkingFolder, BadFolder> {
    let start = Path::new(folder);
    let real_start = resolved(start);
    let mut links = Vec::new();
    if real_start != without_dots(start) {
        links.push(link(folder, &real_start));
    }
    let leaves = json::leaves(arguments.as_bytes());
    let texts = leaves.iter().filter(|leaf| leaf.kind == Kind::String);
    let texts: Vec<String> = texts.map(|leaf| leaf.text().into_owned()).collect();
    let mut names: Vec<&str> = Vec::new();
    for name in texts.iter().flat_map(|text| names_in(text)).take(MOST_FOLLOWED) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let targets = targets(name, start, &real_start);
        links.extend(targets.iter().map(|target| link(name, target)));
    }
    WorkingFolder::new(folder, links)
}

/// Returns a text and its words, as far as they can be paths.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || SEPARATORS.contains(c));
    let is_path = |name: &&str| !name.is_empty() && !name.contains('\0');
    let all = std::iter::once(text).chain(words.filter(move |word| *word != text));
    all.filter(move |name| text.len() <= LONGEST_PATH && is_path(name))
}

/// Returns where a name leads, if that is not where it says: as the system follows it, and as programs do that first
/// remove `..` from its text.
fn targets(name: &str, start: &Path, real_start: &Path) -> Vec<PathBuf> {
    let path = match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => start.join(name),
    };
    let plain = without_dots(&path);
    // The working folder may be a link itself; that is noted once, not for each path below it.
    let expected = match plain.strip_prefix(without_dots(start)) {
        Ok(rest) => real_start.join(rest),
        Err(_) => plain.clone(),
    };
    let mut targets: Vec<PathBuf> = Vec::new();
    for found in [resolved(&path), resolved(&plain)] {
        if found != expected && found != plain && !targets.contains(&found) {
            targets.push(found);
        }
    }
    targets
}

/// Follows the links of an absolute path, one component after the other, as the kernel does. What does not exist is
/// kept as it is written, so that a file is known by its folder and a dangling link by its target.
fn resolved(path: &Path) -> PathBuf {
    let mut left: VecDeque<OsString> = names_of(path);
    let mut found = PathBuf::new();
    let mut hops = 0;
    let mut is_missing = false;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            found.pop();
            is_missing = false;
            continue;
        }
        found.push(&name);
        // Nothing is below a name that does not exist.
        if is_missing || hops == MOST_HOPS {
            continue;
        }
        match found.read_link() {
            Ok(target) => {
                hops += 1;
                found.pop();
                // The target begins in the folder of the link; an absolute one replaces that folder.
                for name in names_of(&target).into_iter().rev() {
                    left.push_front(name);
                }
            }
            Err(error) => is_missing = error.kind() == std::io::ErrorKind::NotFound,
        }
    }
    found
}

/// Returns the components of a path, without `.`.
fn names_of(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter(|name| *name != Component::CurDir);
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// Removes `.` and `..` from the text of a path.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Makes a link. A target that is not UTF-8 is written with replacement characters, which match no ordinary name.
fn link(name: &str, target: &Path) -> Link {
    Link {
        path: name.to_owned(),
        target: target.to_string_lossy().into_owned(),
    }
}
