//! Files and folders that only their owner can use, whatever the umask says.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Options for a file that, if it is made, is its owner's alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a file that was not there before.
pub fn create_new(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

/// Writes a file. One that was there keeps the mode it had.
pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    options().create(true).truncate(true).open(path)?.write_all(text)
}

/// Makes a folder and those above it, where they are missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
