//! Reads files that someone else may have created: only regular files, and only up to a size limit.
//!
//! A named pipe can block its reader forever, and a device may be endless, so every policy, configuration, agent,
//! settings or key file is read through this module.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the content of a file; fails if it is larger than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    // Do not rely on the reported size: files in `/proc` report zero.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {most} bytes"),
        )),
        false => Ok(bytes),
    }
}

/// Returns the content of a file as text; fails if it is larger than `most` bytes or not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Returns the first bytes of a file, at most `most`.
pub fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file. The type is checked before opening, because opening a device may have side effects, and again
/// afterwards, because the file may have been replaced. `NONBLOCK` keeps a named pipe that was put in its place from
/// blocking.
fn open(path: &Path) -> io::Result<File> {
    check(&path.metadata()?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &std::fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x95_only_so_much_of_a_regular_file_is_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert_eq!(read_start(&file, 3).unwrap(), b"123");
        assert_eq!(read(&file, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for odd in [&pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(read(odd, 9).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        // Reports a size of zero, but has content.
        assert!(read(Path::new("/proc/self/status"), 10).is_err());
        assert_eq!(
            read(&folder.path().join("gone"), 9).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
