//! Whether Codex trusts our hook: it skips, without a word, hooks that the person has not reviewed.
//!
//! Enters: the hooks file, and Codex's own configuration beside it. Leaves: whether the hash that the person trusted is
//! the hash of the hook as it is now. As read in Codex 0.166; a version that reckons otherwise reads as not trusted.

use std::path::Path;

use countersign::hash::Hash;
use serde_json::{Value, json};

use super::Dialect;
use super::settings;

/// Whether the hook before tool calls is trusted as it is.
pub fn is_trusted(file: &Path, root: &Value, dialect: Dialect) -> bool {
    let Some((group, handler, found)) = position(root, dialect) else {
        return false;
    };
    let folder = dialect.user_file();
    let folder = folder.as_deref().and_then(Path::parent);
    let Some(config) = folder.and_then(|folder| settings::read(&folder.join("config.toml")).ok()?) else {
        return false;
    };
    let Ok(config) = config.parse::<toml::Table>() else {
        return false;
    };
    let Ok(file) = std::path::absolute(file) else {
        return false;
    };
    let key = format!("{}:pre_tool_use:{group}:{handler}", file.display());
    let state = config.get("hooks").and_then(|hooks| hooks.get("state"));
    let state = state.and_then(|state| state.get(key));
    let is_off = state
        .and_then(|state| state.get("enabled"))
        .and_then(toml::Value::as_bool)
        == Some(false);
    let trusted = state
        .and_then(|state| state.get("trusted_hash"))
        .and_then(toml::Value::as_str);
    !is_off && trusted == Some(fingerprint(&found).as_str())
}

/// Where our hook stands: which group, which handler in it, and both.
fn position(root: &Value, dialect: Dialect) -> Option<(usize, usize, (Value, Value))> {
    let groups = root.get("hooks")?.get(dialect.before())?.as_array()?;
    groups.iter().enumerate().find_map(|(number, group)| {
        let handlers = group.get("hooks")?.as_array()?;
        let ours = handlers.iter().position(|handler| dialect.is_ours(handler))?;
        Some((number, ours, (group.clone(), handlers.get(ours)?.clone())))
    })
}

/// The hash of a hook: of its settings with the usual values filled in, keys in order.
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

    /// The hash was reckoned apart from this code, in the way that Codex 0.166 took for trusted.
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
