//! The working folder of a call: the folder that its host will run it in, and the links that paths in its arguments
//! lead through.
//!
//! The host reports them, for example a coding agent's hook. They are shown on the card, enter the call's digest as a
//! hash, and give more paths to compare with sensitive places. What a host reports can only make a ruling stricter.
//! Nothing here accesses files: a host that can see them follows the links itself.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::hash::{Fields, Hash};

/// Maximum length of a path in bytes, as on Linux.
pub const LONGEST_PATH: usize = 4096;
/// Maximum number of links of one call.
pub const MOST_LINKS: usize = 64;
/// Path of the link that stands for the host's home folder. A host adds such a link if the home folder is in an unusual
/// location and the call may read it.
pub const HOME: &str = "~";
/// Character in a link's target that replaces bytes which are not UTF-8. Such a target cannot be compared with
/// sensitive files.
pub const UNREADABLE: char = char::REPLACEMENT_CHARACTER;

/// The folder that a call runs in, and links that its arguments name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingFolder {
    path: String,
    links: Vec<Link>,
}

/// A path that leads to another file or folder than its text says, because of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The path as the call names it.
    pub path: String,
    /// The absolute path of the file or folder that it leads to.
    pub target: String,
}

/// Reason why a working folder is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFolder {
    /// The folder, or the target of a link, does not begin at a root.
    #[error("a working folder and the targets of links are absolute paths")]
    NotAbsolute,
    /// A path is empty, too long, or contains a NUL character.
    #[error("a path has 1 to {LONGEST_PATH} bytes and no NUL character")]
    NoPath,
    /// There are too many links.
    #[error("a call has at most {MOST_LINKS} links")]
    TooManyLinks,
}

impl WorkingFolder {
    /// Creates a working folder, after checking its path and the links that its host found.
    pub fn new(path: impl Into<String>, links: Vec<Link>) -> Result<WorkingFolder, BadFolder> {
        let path = path.into();
        if links.len() > MOST_LINKS {
            return Err(BadFolder::TooManyLinks);
        }
        let texts = links.iter().flat_map(|link| [&link.path, &link.target]);
        if std::iter::once(&path).chain(texts).any(|text| !is_path(text)) {
            return Err(BadFolder::NoPath);
        }
        let mut absolute = std::iter::once(&path).chain(links.iter().map(|link| &link.target));
        match absolute.all(|path| is_absolute(path)) {
            true => Ok(WorkingFolder { path, links }),
            false => Err(BadFolder::NotAbsolute),
        }
    }

    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the links, in the order of the arguments.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the hash over the folder and its links.
    pub fn hash(&self) -> Hash {
        let fields = Fields::new("countersign/folder/1").field(self.path.as_bytes());
        let add =
            |fields: Fields, link: &Link| fields.field(link.path.as_bytes()).field(link.target.as_bytes());
        self.links.iter().fold(fields, add).finish()
    }

    /// Returns the notes for the card, not escaped: first the folder, then where links lead. The host's text is in
    /// quotes, so that it cannot be mistaken for text of this program.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let folder = format!("runs in the folder {}", quoted(&self.path));
        let mut named = HashSet::new();
        let link = move |link: &Link| {
            if link.path == HOME {
                return format!("the home folder is {}", quoted(&link.target));
            }
            // Programs may read one path in two ways, or begin it in two folders.
            let verb = match named.insert(link.path.clone()) {
                true => "leads to",
                false => "may also lead to",
            };
            format!("{} {verb} {}", quoted(&link.path), quoted(&link.target))
        };
        std::iter::once(folder).chain(self.links.iter().map(link))
    }

    /// Returns all of the host's texts that a card shows: the folder, and the paths and targets of links.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let links = self.links.iter();
        let links = links.flat_map(|link| [link.path.as_str(), link.target.as_str()]);
        std::iter::once(self.path.as_str()).chain(links)
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

fn is_path(text: &str) -> bool {
    (1..=LONGEST_PATH).contains(&text.len()) && !text.contains('\0')
}

/// Returns true for a path that is absolute on any operating system, since the host may run on another one.
fn is_absolute(path: &str) -> bool {
    let has_drive =
        || matches!(path.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic());
    path.starts_with('/') || path.starts_with(r"\\") || has_drive()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: &str, target: &str) -> Link {
        Link {
            path: path.to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn only_absolute_folders_are_accepted() {
        for good in ["/", "/home/ana/p", r"C:\p", "c:/p", r"\\host\share"] {
            assert!(WorkingFolder::new(good, Vec::new()).is_ok(), "{good}");
        }
        for bad in ["", ".", "p", "~/p", "C:p", "/a\0b", &"/a".repeat(LONGEST_PATH)] {
            assert!(WorkingFolder::new(bad, Vec::new()).is_err(), "{bad}");
        }
        let relative = vec![link("a", "b")];
        assert_eq!(WorkingFolder::new("/", relative), Err(BadFolder::NotAbsolute));
        let many = vec![link("a", "/b"); MOST_LINKS + 1];
        assert_eq!(WorkingFolder::new("/", many), Err(BadFolder::TooManyLinks));
    }

    #[test]
    fn every_part_changes_the_hash() {
        let folder = |path, links| WorkingFolder::new(path, links).unwrap().hash();
        let hashes = [
            folder("/a", vec![]),
            folder("/a/", vec![]),
            folder("/a", vec![link("b", "/c")]),
            folder("/a", vec![link("b", "/d")]),
            folder("/a", vec![link("e", "/c")]),
            folder("/a", vec![link("b", "/c"), link("b", "/c")]),
        ];
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
