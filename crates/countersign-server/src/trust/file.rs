//! Files that say what this program does: policies, configurations, agents, lists of servers.
//!
//! Enters: a path. Leaves: the text, or a refusal that says what to do.
//! INVARIANT: a file is believed because the person named it by its full path, or because they trusted exactly this
//! content at this path before. A path that depends on the folder somebody works in names nothing: a repository that
//! was cloned could bring the file along. The text that was compared is the text that is returned.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use countersign::effect::Effect;
use countersign::hash::Hash;
use countersign::policy::{Listed, Policy};
use serde::{Deserialize, Serialize};

use super::TrustList;
use super::who::{self, Folder};
use crate::failure::Failure;

/// How many changes of a policy are named.
const MOST_CHANGES: usize = 5;

/// The content of a file that the person trusted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedContent {
    /// The hash of its bytes.
    pub sha256: String,
    /// What it lets happen, tool by tool, if it is a policy: so that a change can be told.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
}

impl TrustedContent {
    /// The content of a file as it is now.
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

    /// What is different now, in a few words.
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
            (true, _) => "no tool is ruled on in another way, but other things are different".to_owned(),
            (false, 0) => told,
            (false, rest) => {
                told.push_str(&format!("; and {rest} more"));
                told
            }
        }
    }
}

/// What a policy does with a tool, in one line.
pub fn ruling(listed: &Listed<'_>) -> String {
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

/// Reads a file that the person stands for.
pub fn read(path: &Path, unreadable: impl Fn(io::Error) -> Failure) -> Result<String, Failure> {
    let is_named = path.is_absolute();
    let path = absolute(path)?;
    who::check(&path, Folder::Shared)?;
    let text = std::fs::read_to_string(&path).map_err(unreadable)?;
    let list = TrustList::load()?;
    let Some(trusted) = list.files.get(&path) else {
        return match is_named {
            true => Ok(text),
            false => Err(not_trusted(&path)),
        };
    };
    let now = TrustedContent::of(&text);
    match trusted.sha256 == now.sha256 {
        true => Ok(text),
        false => {
            let message = format!(
                "`{}` has changed since you trusted it: {}",
                path.display(),
                trusted.changes(&now)
            );
            let hint = format!(
                "read it, and if you want it so: countersign trust {}",
                path.display()
            );
            Err(Failure::error("not_trusted", message).hint(hint))
        }
    }
}

/// A path that depends on no folder. One that did leads through no link: a repository can bring those along.
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
            let message = format!("`{}` is a link, and may lead anywhere", found.display());
            return Err(Failure::error("not_trusted", message).hint("name what you mean by its full path"));
        }
    }
    Ok(found)
}

/// Nobody has named or trusted a file.
fn not_trusted(path: &Path) -> Failure {
    let shown = path.display();
    let message = format!("`{shown}` is in the folder you are in, and you have not trusted it");
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
            "no tool is ruled on in another way, but other things are different",
        );
    }
}
