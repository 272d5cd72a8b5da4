//! A person's own editor on the exact bytes of a call.

use std::path::PathBuf;
use std::process::Command;

use countersign::call::Arguments;

use crate::private;

/// What the editor left.
pub enum Edited {
    /// Nothing was changed.
    Same,
    /// These bytes are to run instead.
    Changed(Arguments),
    /// They cannot be arguments; the text is kept for another try.
    Bad {
        /// What is wrong.
        problem: String,
        /// What the person wrote.
        text: Vec<u8>,
    },
}

/// Opens the editor. The file is the person's alone, and gone afterwards.
pub fn edit(original: &[u8], draft: Option<&[u8]>) -> Result<Edited, String> {
    let folder = Folder::new()?;
    let file = folder.0.join("arguments.json");
    let failed = |error: std::io::Error| format!("the editor's file cannot be used: {error}");
    let start = draft.unwrap_or(original);
    private::write_new(&file, start).map_err(failed)?;
    let status = command().arg(&file).status();
    let status = status.map_err(|error| format!("the editor cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("the editor ended badly ({status}); nothing is changed"));
    }
    let mut text = std::fs::read(&file).map_err(failed)?;
    // Editors end the last line; that is no change of ours.
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

/// `$VISUAL`, `$EDITOR` or `vi`, as a shell would take it: editors are often named with options.
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

/// A folder only its owner can look into.
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
