//! Trust in files that control this program: policies, configurations, agents, lists of servers.
//!
//! A file that is not trusted is refused with a hint that says what to do.
//! INVARIANT: a file is accepted only if the person named it by its full path, or trusted exactly this content at this
//! path before. A relative path is not enough: a cloned repository could contain the file. A file that was trusted and
//! has changed is refused under every path that resolves to it. The text that was checked is the text that is returned.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use countersign::effect::Effect;
use countersign::hash::Hash;
use countersign::policy::{Policy, ToolListing};
use serde::{Deserialize, Serialize};

use super::TrustList;
use super::who::{self, Folder};
use crate::failure::Failure;
use crate::regular;

/// Maximum size of a trusted file in bytes.
pub const LARGEST: u64 = 16 * 1024 * 1024;
/// Maximum number of policy changes listed in a message.
const MOST_CHANGES: usize = 5;

/// Record of a file's content that the person trusted: its hash and, for a policy, its rulings.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedContent {
    /// SHA-256 of the bytes.
    pub sha256: String,
    /// Ruling for each tool, if the file is a policy. Used to describe what changed.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
}

impl TrustedContent {
    /// Creates the record of a file's content: its hash and, if it is a policy, its rulings.
    pub fn of(text: &str) -> TrustedContent {
        let policy = Policy::parse(text).ok();
        let listed = policy.iter().flat_map(|policy| policy.catalogue());
        TrustedContent {
            sha256: Hash::of(text.as_bytes()).to_string(),
            tools: listed
                .map(|listed| (listed.tool.to_owned(), ruling(&listed)))
                .collect(),
        }
    }

    /// Describes how the rulings of a policy changed since the file was trusted. Lists at most `MOST_CHANGES` of them.
    fn changes(&self, now: &TrustedContent) -> String {
        let names = self
            .tools
            .keys()
            .chain(now.tools.keys())
            .collect::<std::collections::BTreeSet<_>>();
        let changes: Vec<String> = names
            .into_iter()
            .filter_map(|name| match (self.tools.get(name), now.tools.get(name)) {
                (before, after) if before == after => None,
                (Some(before), Some(after)) => Some(format!("`{name}` was \"{before}\" and is \"{after}\"")),
                (None, Some(after)) => Some(format!("`{name}` is new: \"{after}\"")),
                (_, None) => Some(format!("`{name}` is gone")),
            })
            .collect();
        let rest = changes.len().saturating_sub(MOST_CHANGES);
        let mut told = changes
            .into_iter()
            .take(MOST_CHANGES)
            .collect::<Vec<_>>()
            .join("; ");
        match (told.is_empty(), rest) {
            (true, _) => "the rulings are the same, but other parts differ".to_owned(),
            (false, 0) => told,
            (false, rest) => {
                told.push_str(&format!("; and {rest} more"));
                told
            }
        }
    }
}

/// Describes in one line what a policy does with a tool.
pub fn ruling(listed: &ToolListing<'_>) -> String {
    let mut text = match (listed.effect, listed.hold) {
        (Effect::Read, None) => "passes".to_owned(),
        (_, None) => "is held".to_owned(),
        (_, Some(hold)) => format!("passes unless {hold}"),
    };
    if listed.has_places {
        text.push_str(", held at sensitive places");
    }
    if let Some(deny) = listed.deny {
        text.push_str(&format!(", forbidden if {deny}"));
    }
    text
}

/// Reads a file that the person named by its full path or has trusted. Refuses any other file, a trusted one that has
/// changed since, and one that others can change. `unreadable` makes the failure for a file that cannot be read.
pub fn read(path: &Path, unreadable: impl Fn(io::Error) -> Failure) -> Result<String, Failure> {
    let is_named = path.is_absolute();
    let path = absolute(path)?;
    who::check(&path, Folder::Shared)?;
    if !is_named {
        check_kind(&path)?;
    }
    let text = regular::read_text(&path, LARGEST).map_err(unreadable)?;
    let list = TrustList::load()?;
    let contents = list.contents_of(&path);
    let Some(trusted) = contents.first() else {
        return match is_named {
            true => Ok(text),
            false => Err(not_trusted(&path)),
        };
    };
    let now = TrustedContent::of(&text);
    match contents.iter().any(|trusted| trusted.sha256 == now.sha256) {
        true => Ok(text),
        false => {
            let message = format!(
                "`{}` has changed since you trusted it: {}",
                path.display(),
                trusted.changes(&now)
            );
            let hint = format!(
                "read it; if you agree with it, run: countersign trust {}",
                path.display()
            );
            Err(Failure::error("not_trusted", message).hint(hint))
        }
    }
}

/// Refuses anything that is not a regular file or is too large. Reading a pipe, for example, would block a hook until
/// the coding agent gives up.
fn check_kind(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() || found.len() > LARGEST => {
            let message = format!("`{}` is not a settings file", path.display());
            Err(Failure::error("not_trusted", message)
                .hint("remove it, or give the full path of the file you mean"))
        }
        _ => Ok(()),
    }
}

/// Makes a path absolute. A relative path that goes through a symbolic link is refused, because a repository can
/// contain links.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let failed = |error: io::Error| {
        Failure::error("bad_path", format!("`{}`: {error}", path.display())).hint("name it by its full path")
    };
    let mut found = std::fs::canonicalize(".").map_err(failed)?;
    for component in path.components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::ParentDir => {
                found.pop();
            }
            _ => {}
        }
        if found
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_symlink())
        {
            let message = format!("`{}` is a symbolic link", found.display());
            return Err(Failure::error("not_trusted", message).hint("name what you mean by its full path"));
        }
    }
    Ok(found)
}

/// Returns the failure for a file that the person has neither named by its full path nor trusted.
fn not_trusted(path: &Path) -> Failure {
    let shown = path.display();
    let message = format!("`{shown}` was found in the current folder, and you have not trusted it");
    Failure::error("not_trusted", message).hint(format!(
        "read it, then run: countersign trust {shown}; or name the file you mean by its full path"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x95_a_change_of_a_policy_is_told_tool_by_tool() {
        let before = TrustedContent::of("[tools.a]\neffect = \"write\"\n[tools.b]\neffect = \"read\"\n");
        let check = |after: &str, expected: &str| {
            assert_eq!(before.changes(&TrustedContent::of(after)), expected);
        };
        check(
            "[tools.a]\neffect = \"read\"\n[tools.c]\neffect = \"read\"\nhold = \"args.n > 1\"\n",
            "`a` was \"is held\" and is \"passes\"; `b` is gone; `c` is new: \"passes unless args.n > 1\"",
        );
        check(
            "[channel]\nttl = \"1h\"\n[tools.a]\neffect = \"write\"\n[tools.b]\neffect = \"read\"\n",
            "the rulings are the same, but other parts differ",
        );
    }
}
