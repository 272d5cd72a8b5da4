//! Reading the policy file. Without one, everything is held.

use std::path::{Path, PathBuf};

use countersign::policy::{Policy, Problem};

use crate::failure::{Exit, Failure};

/// Where the policy is looked for when nobody says.
pub const DEFAULT_FILE: &str = "countersign.toml";

/// The policy, and the file it came from if there is one.
pub struct Loaded {
    /// The policy in force.
    pub policy: Policy,
    /// What it was read from.
    pub text: String,
    /// Nothing: the empty policy.
    pub file: Option<PathBuf>,
}

/// Reads the named file, or the default one if it is there. A file that cannot be read or understood is an error:
/// going on without it would let another policy rule than the one that was meant.
pub fn load(named: Option<&Path>) -> Result<Loaded, Failure> {
    let file = match named {
        Some(file) => file.to_owned(),
        None => match Path::new(DEFAULT_FILE).try_exists() {
            Ok(false) => {
                return Ok(Loaded {
                    policy: Policy::empty(),
                    text: String::new(),
                    file: None,
                });
            }
            _ => PathBuf::from(DEFAULT_FILE),
        },
    };
    let text = read(&file)?;
    match Policy::parse(&text) {
        Ok(policy) => Ok(Loaded {
            policy,
            text,
            file: Some(file),
        }),
        Err(problems) => Err(not_good(&file, &problems.0)),
    }
}

/// The text of a policy file.
pub fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!("cannot read the policy `{}`: {error}", file.display());
        Failure::error("policy_unreadable", message).hint("name another one with `--policy FILE`")
    })
}

/// A problem as compilers write it.
pub fn located(file: &Path, problem: &Problem) -> String {
    let Problem {
        line,
        column,
        message,
        ..
    } = problem;
    format!("{}:{line}:{column}: {message}", file.display())
}

/// What is wrong with a policy, as a failure.
pub fn not_good(file: &Path, problems: &[Problem]) -> Failure {
    let first = problems.first();
    let message = match (first, problems.len()) {
        (Some(first), 1) => located(file, first),
        (Some(first), count) => format!("{} (and {} more)", located(file, first), count - 1),
        (None, _) => format!("the policy `{}` cannot be understood", file.display()),
    };
    let check = format!("see all with `countersign policy check {}`", file.display());
    let hint = first.and_then(|first| first.hint.clone());
    let hint = match problems.len() {
        1 => hint.unwrap_or(check),
        _ => check,
    };
    Failure::with(Exit::Error, "bad_policy", message).hint(hint)
}
