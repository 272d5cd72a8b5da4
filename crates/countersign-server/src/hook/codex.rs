//! Checks whether Codex trusts the hook. Codex silently skips hooks that the person has not reviewed.
//!
//! The hash that the person trusted, in Codex's own configuration next to the hooks file, is compared with that of the
//! current hook. The hash follows Codex 0.166; if another version computes it differently, the hook counts as not
//! trusted.

use std::path::{Path, PathBuf};

use countersign::hash::Hash;
use serde_json::{Value, json};

use super::Dialect;
use super::settings;

/// Result of the person's review of a hook in Codex.
#[derive(Debug, PartialEq, Eq)]
pub enum Review {
    /// The person trusted the hook in its current form.
    Trusted,
    /// The person has not reviewed the hook, or it has changed since.
    Missing,
    /// The person turned the hook off, in this file, under this key.
    Off(PathBuf, String),
}

/// Returns how the person reviewed the hook that runs before tool calls.
pub fn review(file: &Path, root: &Value, dialect: Dialect) -> Review {
    reviewed(file, root, dialect).unwrap_or(Review::Missing)
}

fn reviewed(file: &Path, root: &Value, dialect: Dialect) -> Option<Review> {
    let (group, handler, found) = position(root, dialect)?;
    let own = dialect.user_file()?.with_file_name("config.toml");
    let config = settings::read(&own).ok()??.parse::<toml::Table>().ok()?;
    let file = std::path::absolute(file).ok()?;
    let key = format!("{}:pre_tool_use:{group}:{handler}", file.display());
    let state = config.get("hooks").and_then(|hooks| hooks.get("state"));
    let state = state.and_then(|state| state.get(&key))?;
    let enabled = state.get("enabled");
    if enabled.is_some_and(|enabled| enabled.as_bool() != Some(true)) {
        return Some(Review::Off(own, format!("hooks.state.\"{key}\".enabled")));
    }
    let trusted = state.get("trusted_hash").and_then(toml::Value::as_str)?;
    (trusted == fingerprint(&found)).then_some(Review::Trusted)
}

/// Returns the index of the group of this program's hook, the hook's index in the group, and the JSON of both; `None`
/// if the hook is not in the settings.
fn position(root: &Value, dialect: Dialect) -> Option<(usize, usize, (Value, Value))> {
    let groups = root.get("hooks")?.get(dialect.before())?.as_array()?;
    groups.iter().enumerate().find_map(|(number, group)| {
        let handlers = group.get("hooks")?.as_array()?;
        let ours = handlers.iter().position(|handler| dialect.is_ours(handler))?;
        Some((number, ours, (group.clone(), handlers.get(ours)?.clone())))
    })
}

/// Hash of a hook as Codex computes it: over its settings with defaults filled in and keys sorted.
fn fingerprint((group, handler): &(Value, Value)) -> String {
    let mut hook = json!({
        "type": "command",
        "command": handler.get("command").cloned().unwrap_or_default(),
        "timeout": handler.get("timeout").and_then(Value::as_u64).unwrap_or(600).max(1),
        "async": handler.get("async").and_then(Value::as_bool).unwrap_or_default(),
    });
    let mut identity = json!({ "event_name": "pre_tool_use" });
    if let (Some(hook), Some(message)) = (hook.as_object_mut(), handler.get("statusMessage")) {
        hook.insert("statusMessage".to_owned(), message.clone());
    }
    if let Some(identity) = identity.as_object_mut() {
        identity.insert("hooks".to_owned(), json!([hook]));
        identity.extend(
            group
                .get("matcher")
                .map(|matcher| ("matcher".to_owned(), matcher.clone())),
        );
    }
    format!("sha256:{}", Hash::of(identity.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hash was computed independently of this code and was accepted by Codex 0.166.
    #[test]
    fn x21_a_hook_counts_as_trusted_by_the_hash_that_codex_reckons() {
        let handler = json!({
            "type": "command",
            "command": "/bin/countersign hook codex --hold 540s || { echo 'é' >&2; exit 2; }",
            "timeout": 600,
            "statusMessage": "Waiting for a countersignature",
        });
        let group = json!({ "matcher": "*", "hooks": [handler] });
        let expected = "sha256:2d3c82011dac0c5e86c30de92bd58318ec886eae6a70986503d3fe663e3607ed";
        assert_eq!(fingerprint(&(group.clone(), handler.clone())), expected);
        let mut other = handler;
        other["timeout"] = json!(601);
        assert_ne!(fingerprint(&(group, other)), expected);
    }
}
