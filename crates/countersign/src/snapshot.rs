//! A snapshot: what a call would change, as read when the person was asked.
//!
//! A snapshot is the result of the policy's `before` read. Its hash is part of the call's digest and binds the run to
//! what was shown: any changed byte makes a different snapshot. This module also lists the differences that a call
//! would make. The gate does the reading.

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Arguments;
use crate::display::unescaped_value;
use crate::hash::{Fields, Hash};
use crate::id::ToolName;
use crate::json::{self, Kind, Leaf, Limits};

/// Maximum size of a snapshot, in bytes: the same as for arguments, because a person has to look at it.
pub const LARGEST_SNAPSHOT: usize = 64 * 1024;

/// State of a call's target before the call, as read by another tool.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Tool that read the target.
    pub tool: ToolName,
    /// Arguments of the read; empty once erased.
    pub arguments: Arguments,
    /// Result of the read, byte for byte; empty once erased.
    pub result: Arc<[u8]>,
    /// Hash over the fields above; zeros once erased.
    pub hash: Hash,
}

impl Snapshot {
    /// Builds a snapshot from the result of a read.
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

    /// Erases the content and its hash, which could confirm a guess.
    pub(crate) fn erase(&mut self) {
        self.hash = Hash([0; 32]);
        self.arguments = Arguments::stored(&b""[..]);
        self.result = Arc::from(&b""[..]);
    }
}

/// Snapshots may be confidential, so they are not printed.
impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tool, bytes, hash) = (&self.tool, self.result.len(), self.hash.short());
        write!(f, "Snapshot({tool}, {bytes} bytes, {hash})")
    }
}

/// A changed value. Texts are formatted as on a card, so that a changed type is visible, but are not escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// JSON pointer of the value.
    pub pointer: String,
    /// Current value; `None` if absent.
    pub was: Option<String>,
    /// Value after the call; `None` if it would be removed.
    pub is: Option<String>,
}

/// Lists the values of `after` that differ from those at the same pointer in `before`. Values that exist in only one of
/// the two are listed only if `whole` is true, which means that both documents are complete. Empty if `before` is not
/// an acceptable JSON object.
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
        let value = values.get(pointer);
        value.map(|(kind, text)| unescaped_value(*kind, text))
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
        // A different type makes a different value.
        check(page, r#"{"views":"7"}"#, false, &[("/views", "7", "\"7\"")]);
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
        // Reference hash, computed independently from the definition in docs/before.md.
        let known = snapshot("get_page", r#"{"id":"p1"}"#, "{}");
        assert_eq!(
            known.to_string(),
            "b46399cc28006230f99393972c0d893fcceb26d64d2297fb66e89dc843e61264"
        );
        let different: std::collections::HashSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
