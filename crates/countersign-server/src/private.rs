//! Writing files: each is its owner's alone whatever the umask says, and is there whole or not at all.
//!
//! Enters: a path and what to write. Leaves: the file, on the disk.
//! INVARIANT: no link is followed at the last name of a path, and no name can be guessed before it is used: new content
//! is written under a random name beside the file, synced, and moved to its place.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Replaces the content of a file, or makes the file. The mode and the owner of one that is there stay.
///
/// A link, a folder or a device at that name is an error. Callers that mean a link's target resolve it first, and look
/// whether it is where it may be.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let before = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Some(metadata),
        Ok(_) => return Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let temporary = beside(path)?;
    let written = write_as(&temporary, content, before.as_ref())
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        // One that cannot be removed either is seen for what it is by its name.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Makes a file that was not there before. A link at that name counts as one that is there, wherever it leads.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written.and_then(|()| sync_folder(path))
}

/// Makes a file that was not there before, to be written bit by bit.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// A name beside a file that nobody can guess.
pub fn beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{random}.new"));
    Ok(path.with_file_name(temporary))
}

/// Makes a folder and those above it, where they are missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_as(path: &Path, content: &[u8], before: Option<&Metadata>) -> io::Result<()> {
    let mut file = create_new(path)?;
    if let Some(before) = before {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
            std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o777))?;
    }
    file.write_all(content)?;
    file.sync_all()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn x94_nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "mine").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["link", "dangling"] {
            assert!(replace(&at(name), b"theirs").is_err(), "{name}");
            assert!(write_new(&at(name), b"theirs").is_err(), "{name}");
        }
        assert!(replace(folder.path(), b"theirs").is_err());
        assert_eq!(std::fs::read(at("victim")).unwrap(), b"mine");
        assert!(!at("nowhere").exists());
        assert_eq!(folder.path().read_dir().unwrap().count(), 3);
    }

    #[test]
    fn x94_a_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        replace(&file, b"first").unwrap();
        let mode = || file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        replace(&file, b"second").unwrap();
        assert_eq!(
            (std::fs::read(&file).unwrap().as_slice(), mode()),
            (&b"second"[..], 0o640)
        );
        assert!(write_new(&file, b"third").is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"second");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        assert_ne!(beside(&file).unwrap(), beside(&file).unwrap());
    }
}
