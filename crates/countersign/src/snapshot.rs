//! A snapshot: what a call would change, as it was when a person was asked.
//!
//! Enters: what the read that the policy declares (`before`) answered. Leaves: a hash that the call's digest covers, so
//! that the run can be bound to what was shown, and the differences between what is there and what would be.
//! Deliberately absent: reading, and any sense of which differences matter. One byte more or less is another snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Arguments;
use crate::hash::{Fields, Hash};
use crate::id::ToolName;
use crate::json::{self, Kind, Leaf, Limits};

/// The largest snapshot: as large as arguments may be, because a person has to look at it.
pub const LARGEST_SNAPSHOT: usize = 64 * 1024;

/// What a call would change.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The tool that read it.
    pub tool: ToolName,
    /// What that tool was asked; empty once it is erased.
    pub arguments: Arguments,
    /// What it answered, to the byte; empty once it is erased.
    pub result: Arc<[u8]>,
    /// Over all of the above; zeros once it is erased.
    pub hash: Hash,
}

impl Snapshot {
    /// A snapshot of what a read answered.
    pub fn new(tool: ToolName, arguments: Arguments, result: Arc<[u8]>) -> Snapshot {
        let hash = Fields::new("countersign/before/1")
            .field(tool.as_str().as_bytes())
            .field(arguments.as_bytes())
            .field(&result)
            .finish();
        Snapshot {
            tool,
            arguments,
            result,
            hash,
        }
    }

    /// Forgets the content, and its hash, which would confirm a guess.
    pub(crate) fn erase(&mut self) {
        self.hash = Hash([0; 32]);
        self.arguments = Arguments::stored(&b""[..]);
        self.result = Arc::from(&b""[..]);
    }
}

/// It may hold what nobody should read in a log.
impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tool, bytes, hash) = (&self.tool, self.result.len(), self.hash.short());
        write!(f, "Snapshot({tool}, {bytes} bytes, {hash})")
    }
}

/// A value that is not what it was. Its texts are not made safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where it stands: a JSON pointer.
    pub pointer: String,
    /// What stands there now.
    pub was: Option<String>,
    /// What would stand there; nothing when it would be gone.
    pub is: Option<String>,
}

/// Which values of `after` are others than those at the same place in `before`. What only `after` has is no difference
/// unless `whole` says that `before` has everything there was; then what only `before` has is one, too.
pub fn differences(before: &[u8], after: &[u8], whole: bool) -> Vec<Difference> {
    if json::check(before, Limits::default()).is_err() {
        return Vec::new();
    }
    let (old, new) = (json::leaves(before), json::leaves(after));
    let by_pointer = |leaves: &'_ [Leaf<'_>]| -> HashMap<String, (Kind, String)> {
        let value = |leaf: &Leaf<'_>| (leaf.kind, leaf.text().into_owned());
        leaves
            .iter()
            .map(|leaf| (leaf.pointer.clone(), value(leaf)))
            .collect()
    };
    let (was, is) = (by_pointer(&old), by_pointer(&new));
    let text = |values: &HashMap<String, (Kind, String)>, pointer: &str| {
        values.get(pointer).map(|(_, text)| text.clone())
    };
    let is_other = |leaf: &&Leaf<'_>| match was.get(&leaf.pointer) {
        Some(was) => is.get(&leaf.pointer) != Some(was),
        None => whole,
    };
    let changed = new.iter().filter(is_other);
    let gone = old.iter().filter(|leaf| whole && !is.contains_key(&leaf.pointer));
    let difference = |leaf: &Leaf<'_>| Difference {
        pointer: leaf.pointer.clone(),
        was: text(&was, &leaf.pointer),
        is: text(&is, &leaf.pointer),
    };
    changed.chain(gone).map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, whole: bool, expected: &[(&str, &str, &str)]) {
        let found = differences(before.as_bytes(), after.as_bytes(), whole);
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let found: Vec<_> = found
            .into_iter()
            .map(|each| (each.pointer, shown(each.was), shown(each.is)))
            .collect();
        let found: Vec<_> = found
            .iter()
            .map(|(pointer, was, is)| (pointer.as_str(), was.as_str(), is.as_str()))
            .collect();
        assert_eq!(found, expected, "{before} → {after}");
    }

    #[test]
    fn only_what_differs_is_told() {
        let page = r#"{"id":"p1","title":"Old","tags":["a","b"],"views":7}"#;
        check(
            page,
            r#"{"id":"p1","title":"New","tags":["a","c"]}"#,
            false,
            &[("/title", "Old", "New"), ("/tags/1", "b", "c")],
        );
        // Another kind of value is another value.
        check(page, r#"{"views":"7"}"#, false, &[("/views", "7", "7")]);
        check(page, r#"{"new":1}"#, false, &[]);
        check(
            r#"{"a":1,"b":2}"#,
            r#"{"b":2,"c":3}"#,
            true,
            &[("/c", "-", "3"), ("/a", "1", "-")],
        );
    }

    #[test]
    fn what_is_no_object_has_no_places_to_compare() {
        check("page one", r#"{"title":"New"}"#, true, &[]);
        check(r#"["a"]"#, r#"{"title":"New"}"#, true, &[]);
        check(r#"{"a":1,"a":2}"#, r#"{"a":3}"#, true, &[]);
    }

    #[test]
    fn i8_every_part_of_a_snapshot_changes_its_hash() {
        let snapshot = |tool: &str, arguments: &str, result: &str| {
            let arguments = Arguments::parse(arguments.as_bytes()).unwrap();
            Snapshot::new(ToolName::new(tool).unwrap(), arguments, result.as_bytes().into()).hash
        };
        let hashes = [
            snapshot("get", "{}", "{}"),
            snapshot("get_", "{}", "{}"),
            snapshot("get", "{ }", "{}"),
            snapshot("get", "{}", "{} "),
        ];
        // Computed apart from this code, from the definition in docs/before.md.
        let known = snapshot("get_page", r#"{"id":"p1"}"#, "{}");
        assert_eq!(
            known.to_string(),
            "b46399cc28006230f99393972c0d893fcceb26d64d2297fb66e89dc843e61264"
        );
        let different: std::collections::HashSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
