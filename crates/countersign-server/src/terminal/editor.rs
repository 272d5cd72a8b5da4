//! Opens the person's editor on the exact bytes of a call's arguments.

use std::path::PathBuf;
use std::process::Command;

use countersign::call::Arguments;

use crate::{private_file, regular};

/// Maximum size of an edited file in bytes, far above the size limit of arguments.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Result of editing a call's arguments.
pub enum Edited {
    /// The arguments are unchanged.
    Same,
    /// Valid new arguments.
    Changed(Arguments),
    /// The text is not valid. It is kept, so that the person can correct it.
    Bad {
        /// Reason why the text is not valid.
        problem: String,
        /// Text that the person wrote.
        text: Vec<u8>,
    },
}

/// Opens a private temporary file in the person's editor and reads the result; the file is removed afterwards. At first
/// the file contains `draft`, an earlier edit that was not valid, or `original` if there is no such draft.
pub fn edit(original: &[u8], draft: Option<&[u8]>) -> Result<Edited, String> {
    let folder = Folder::new()?;
    let file = folder.0.join("arguments.json");
    let failed = |error: std::io::Error| format!("the editor's file cannot be used: {error}");
    let start = draft.unwrap_or(original);
    private_file::write_new(&file, start).map_err(failed)?;
    let status = command().arg(&file).status();
    let status = status.map_err(|error| format!("the editor cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("the editor ended badly ({status}); nothing is changed"));
    }
    let mut text = regular::read(&file, LARGEST).map_err(failed)?;
    // Editors add a final newline, which is not a change.
    if text.last() == Some(&b'\n') && start.last() != Some(&b'\n') {
        text.pop();
    }
    if text == original {
        return Ok(Edited::Same);
    }
    Ok(match Arguments::parse(text.clone()) {
        Ok(arguments) => Edited::Changed(arguments),
        Err(problem) => Edited::Bad {
            problem: problem.to_string(),
            text,
        },
    })
}

/// Returns the command for `$VISUAL`, `$EDITOR` or `vi`. A shell runs it, because these variables often contain
/// options.
fn command() -> Command {
    let named = ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|named| !named.trim().is_empty());
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "editor"]);
    command.env_clear().envs(crate::environment::without_ours());
    command
}

/// A temporary folder with mode 0700, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| error.to_string())?;
        let name = format!("countersign-{}", crate::view::hex(&random));
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&path)
            .map_err(|error| format!("there is no room for the editor's file: {error}"))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
