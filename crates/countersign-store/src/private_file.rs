//! Writes files. A new file can be read only by its owner, whatever the umask.
//!
//! Input: a path and the content. Output: the file, synced to disk; with [`create_new`], the caller writes and syncs
//! it.
//! INVARIANT: no symbolic link is followed at the last component of a path. [`replace`] is atomic: it writes to an
//! unguessable name in the same directory, syncs, and renames the file into place.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Replaces a file's content atomically, or creates the file. An existing file keeps its mode and owner.
///
/// Fails if `path` is a symbolic link, a directory or a device. To write through a link, the caller resolves it first
/// and checks that its target is allowed.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let existing = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Some(metadata),
        Ok(_) => return Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let temporary = temporary_path(path)?;
    let written = write_as(&temporary, content, existing.as_ref())
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| sync_parent(path));
    if written.is_err() {
        // A leftover temporary file is recognisable by its name.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Creates a file and fails if `path` exists. A symbolic link counts as existing, even a dangling one.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written.and_then(|()| sync_parent(path))
}

/// Creates a file with mode 0600, to be written incrementally. Fails if `path` exists.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns true if `path` still names this open file, not a symbolic link or another file put in its place.
/// Outside Unix only the file types are compared.
pub fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let (opened, found) = (file.metadata()?, path.symlink_metadata()?);
    #[cfg(unix)]
    let is_same = {
        use std::os::unix::fs::MetadataExt as _;
        (opened.dev(), opened.ino()) == (found.dev(), found.ino())
    };
    #[cfg(not(unix))]
    let is_same = opened.is_file();
    Ok(is_same && found.is_file())
}

/// Returns an unguessable path for a temporary file in the directory of `path`: `.NAME.RANDOM.new`.
pub fn temporary_path(path: &Path) -> io::Result<PathBuf> {
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

/// Creates a directory and its missing parents, each with mode 0700.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

fn write_as(path: &Path, content: &[u8], existing: Option<&Metadata>) -> io::Result<()> {
    let mut file = create_new(path)?;
    if let Some(existing) = existing {
        keep_owner_and_mode(&file, existing)?;
    }
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(unix)]
fn keep_owner_and_mode(file: &File, existing: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let created = file.metadata()?;
    if (created.uid(), created.gid()) != (existing.uid(), existing.gid()) {
        std::os::unix::fs::fchown(file, Some(existing.uid()), Some(existing.gid()))?;
    }
    file.set_permissions(std::fs::Permissions::from_mode(existing.mode() & 0o777))
}

#[cfg(not(unix))]
fn keep_owner_and_mode(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Syncs the directory that contains `path`, so that the file's name survives a power failure.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn x94_symbolic_links_are_not_followed() {
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
        assert_ne!(temporary_path(&file).unwrap(), temporary_path(&file).unwrap());
    }
}
