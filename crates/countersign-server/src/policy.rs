//! Loading the policy file. Without one, every call is held.
//!
//! A policy is used only if the person named it by its full path or trusted it; see `trust`.

pub mod record;

use std::path::{Path, PathBuf};

use countersign::policy::{Policy, Problem};

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::{regular, trust};

/// Default policy file, in the current folder. It has to be trusted, since it may have come with the folder.
pub const DEFAULT_FILE: &str = "countersign.toml";

/// A policy with the file that it was read from.
pub struct Loaded {
    pub policy: Policy,
    /// Text that the policy was parsed from; empty for the empty policy.
    pub text: String,
    /// Path of the file. `None` for the empty policy.
    pub file: Option<PathBuf>,
}

/// Loads the named file or, if none is named, the default file if it exists. A file that cannot be read or parsed is an
/// error, because continuing without it would apply a different policy than the intended one.
pub fn load(named: Option<&Path>) -> Result<Loaded, Failure> {
    let Some(file) = find(named) else {
        return Ok(Loaded {
            policy: Policy::empty(),
            text: String::new(),
            file: None,
        });
    };
    let text = trust::read(&file, |error| unreadable(&file, &error))?;
    parsed(trust::absolute(&file)?, text)
}

/// Loads a policy only to examine it. Also loads an untrusted file, with a notice.
pub fn look_at(named: Option<&Path>, output: &mut Output) -> Result<Loaded, Failure> {
    match (load(named), find(named)) {
        (Err(failure), Some(file)) if failure.code == "not_trusted" => {
            output.notice(
                "not_trusted",
                &format!("no gate uses this policy: {}", failure.message),
            );
            let text = read(&file)?;
            parsed(file, text)
        }
        (loaded, _) => loaded,
    }
}

fn find(named: Option<&Path>) -> Option<PathBuf> {
    let here = || {
        let is_there = Path::new(DEFAULT_FILE).symlink_metadata().is_ok();
        is_there.then(|| PathBuf::from(DEFAULT_FILE))
    };
    named.map(Path::to_owned).or_else(here)
}

fn parsed(file: PathBuf, text: String) -> Result<Loaded, Failure> {
    match Policy::parse(&text) {
        Ok(mut policy) => {
            protect(&mut policy, &file);
            Ok(Loaded {
                policy,
                text,
                file: Some(file),
            })
        }
        Err(problems) => Err(not_good(&file, &problems.0)),
    }
}

/// Adds a file of this program to the policy's sensitive places, so that no agent reads it without a person.
pub fn protect(policy: &mut Policy, file: &Path) {
    let file = std::path::absolute(file).ok();
    if let Some(file) = file.as_deref().and_then(Path::to_str) {
        policy.protect(file);
    }
}

/// Reads a policy file without checking whether it is trusted.
pub fn read(file: &Path) -> Result<String, Failure> {
    regular::read_text(file, trust::LARGEST).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot read the policy `{}`: {error}", file.display());
    Failure::error("policy_unreadable", message).hint("name another one with `--policy FILE`")
}

/// Formats a problem as `file:line:column: message`.
pub fn located(file: &Path, problem: &Problem) -> String {
    let Problem {
        line,
        column,
        message,
        ..
    } = problem;
    format!("{}:{line}:{column}: {message}", file.display())
}

/// Converts the problems of a policy to a failure.
pub fn not_good(file: &Path, problems: &[Problem]) -> Failure {
    let first = problems.first();
    let message = match (first, problems.len()) {
        (Some(first), 1) => located(file, first),
        (Some(first), count) => format!("{} (and {} more)", located(file, first), count - 1),
        (None, _) => format!("the policy `{}` is not valid", file.display()),
    };
    let check = format!("see all with `countersign policy check {}`", file.display());
    let hint = first.and_then(|first| first.hint.clone());
    let hint = match problems.len() {
        1 => hint.unwrap_or(check),
        _ => check,
    };
    Failure::with(Exit::Error, "bad_policy", message).hint(hint)
}
