//! Inserts a hook into a settings file.
//!
//! The text is edited in place, not re-serialised, so every other byte stays the same. Text that cannot be edited
//! safely is rejected with the reason.

use std::ops::Range;

use countersign::json::{self, Limits};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Dialect;
use super::settings::{Group, LARGEST};
use crate::failure::Failure;

/// JSON limits of a settings file.
const LIMITS: Limits = Limits {
    bytes: LARGEST,
    depth: 128,
    paths: 64 * 1024 * 1024,
};

/// Returns the settings with these groups inserted, or `None` if they are already present.
pub fn with_groups(
    text: &str,
    dialect: Dialect,
    groups: &[(&'static str, Group)],
) -> Result<Option<String>, Failure> {
    let text = match text.trim().is_empty() {
        true => "{}\n",
        false => text,
    };
    json::check(text.as_bytes(), LIMITS)
        .map_err(|problem| broken(problem.to_string().lines().next().unwrap_or_default()))?;
    let mut edits = Vec::new();
    let root = Members::of(text)?;
    match root.get("hooks") {
        None => {
            let all = groups
                .iter()
                .map(|(event, group)| format!("{}: [\n  {}\n]", quoted(event), pretty(group, 1)));
            let item = format!(
                "\"hooks\": {{\n  {}\n}}",
                indented(&all.collect::<Vec<_>>().join(",\n"), 1)
            );
            edits.push(root.append(text, text, &item, 1)?);
        }
        Some(hooks) => {
            let events = Members::of(hooks.get())?;
            let mut fresh = Vec::new();
            for (event, group) in groups {
                match events.get(event) {
                    None => fresh.push(format!("{}: [\n  {}\n]", quoted(event), pretty(group, 1))),
                    Some(list) => edits.extend(with_group(text, dialect, list, group)?),
                }
            }
            if !fresh.is_empty() {
                edits.push(events.append(text, hooks.get(), &fresh.join(",\n"), 2)?);
            }
        }
    }
    if edits.is_empty() {
        return Ok(None);
    }
    let mut edited = text.to_owned();
    // Apply edits from the end, so that earlier offsets stay valid.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, replacement) in edits {
        edited.replace_range(range, &replacement);
    }
    json::check(edited.as_bytes(), LIMITS).map_err(|_| broken("it could not be changed safely"))?;
    Ok(Some(edited))
}

type Edit = (Range<usize>, String);

fn with_group(text: &str, dialect: Dialect, list: &RawValue, group: &Group) -> Result<Option<Edit>, Failure> {
    let entries: Vec<&RawValue> =
        serde_json::from_str(list.get()).map_err(|_| broken("an event's hooks are not a list"))?;
    let mut ours = Vec::new();
    for entry in &entries {
        let value: Value = serde_json::from_str(entry.get()).map_err(|error| broken(&error.to_string()))?;
        let handlers = value
            .get("hooks")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        if handlers.iter().any(|handler| dialect.is_ours(handler)) {
            ours.push((*entry, value, handlers.len()));
        }
    }
    let wanted = serde_json::to_value(group).map_err(|error| broken(&error.to_string()))?;
    match ours.as_slice() {
        [] => {
            let last = entries.last().map(|entry| span(text, entry.get()).end);
            let list = span(text, list.get());
            Ok(Some(insertion(last, list, &pretty(group, 0), 3)))
        }
        [(_, value, _)] if *value == wanted => Ok(None),
        [(entry, _, 1)] => Ok(Some((span(text, entry.get()), pretty(group, 3)))),
        [_] => Err(by_hand("the hook is there together with others, in one entry")),
        _ => Err(by_hand("the hook is there more than once for the same event")),
    }
}

/// Members of an object in order, each with its exact text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    fn of(text: &'a str) -> Result<Members<'a>, Failure> {
        serde_json::from_str(text).map_err(|_| broken("`hooks` is not an object"))
    }

    fn get(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    }

    /// Returns the edit that appends members after the last one of this object.
    fn append(&self, text: &str, object: &str, item: &str, level: usize) -> Result<Edit, Failure> {
        let last = self.0.last().map(|(_, value)| span(text, value.get()).end);
        let object = span(text, object.trim());
        Ok(insertion(last, object, item, level))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(InOrder).map(Members)
    }
}

/// Byte range of `part` within `text`. `part` must be a slice of `text`.
fn span(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start.saturating_add(part.len())
}

/// Returns the edit that appends an item to a container, or puts it into an empty one.
fn insertion(last: Option<usize>, container: Range<usize>, item: &str, level: usize) -> Edit {
    let (inner, outer) = ("  ".repeat(level), "  ".repeat(level.saturating_sub(1)));
    let item = indented(item, level);
    match last {
        Some(end) => (end..end, format!(",\n{inner}{item}")),
        None => {
            let inside = container.start.saturating_add(1)..container.end.saturating_sub(1);
            (inside, format!("\n{inner}{item}\n{outer}"))
        }
    }
}

fn pretty(value: &impl Serialize, level: usize) -> String {
    indented(&serde_json::to_string_pretty(value).unwrap_or_default(), level)
}

fn indented(text: &str, level: usize) -> String {
    text.replace('\n', &format!("\n{}", "  ".repeat(level)))
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn broken(problem: &str) -> Failure {
    Failure::error(
        "bad_settings",
        format!("the settings cannot be changed: {problem}"),
    )
    .hint("mend them, or put in by hand what `--print` shows")
}

fn by_hand(problem: &str) -> Failure {
    Failure::error("bad_settings", problem.to_owned()).hint("take it out by hand, then install it again")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn install(text: &str, dialect: Dialect) -> Result<Option<String>, Failure> {
        let command = format!("/bin/countersign hook {} --hold 9m", dialect.as_str());
        with_groups(text, dialect, &dialect.groups(&command, Duration::from_secs(540)))
    }

    /// Checks that installing twice changes nothing, and that all other settings are unchanged.
    #[track_caller]
    fn check(before: &str, dialect: Dialect) -> String {
        let after = install(before, dialect).unwrap().unwrap();
        assert_eq!(install(&after, dialect).unwrap(), None, "{after}");
        let (old, mut new): (Value, Value) = (
            serde_json::from_str(before).unwrap(),
            serde_json::from_str(&after).unwrap(),
        );
        for (event, _) in dialect.groups("", Duration::ZERO) {
            let list = new["hooks"][event].as_array_mut().unwrap();
            list.retain(|group| {
                !group["hooks"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|one| dialect.is_ours(one))
            });
            if list.is_empty() && old["hooks"].get(event).is_none() {
                new["hooks"].as_object_mut().unwrap().remove(event);
            }
        }
        if old.get("hooks").is_none() {
            new.as_object_mut().unwrap().remove("hooks");
        }
        assert_eq!(new, old, "{after}");
        after
    }

    #[test]
    fn a_hook_is_spliced_into_settings() {
        for dialect in Dialect::ALL {
            let event = dialect.before();
            for before in [
                "{}",
                " { } \n",
                "{\"a\": 1.50,\n\t\"z\":[ ]}",
                "{\"hooks\":{}}",
                "{\"hooks\":{\"Other\":[]},\"b\":{\"hooks\":1}}",
                &format!("{{\"hooks\": {{\"{event}\": []}}}}"),
                &format!(
                    "{{\"hooks\": {{\"{event}\": [{{\"matcher\":\"Bash\",\"hooks\":[{{\"command\":\"x\"}}]}}]}}}}"
                ),
            ] {
                check(before, dialect);
            }
        }
    }

    #[test]
    fn what_was_there_stays_to_the_byte() {
        let before = "{\n    \"model\": \"opus\",   \"big\": 12345678901234567890123,\n    \"hooks\": {\n      \
                      \"PreToolUse\": [ {\"matcher\": \"Bash\", \"hooks\": [ {\"type\":\"command\",\"command\":\"./x\"} ]} ]\n    }\n}\n";
        let after = check(before, Dialect::ClaudeCode);
        let cut = before.find(" ]\n    }").unwrap();
        assert!(after.starts_with(&before[..cut]), "{after}");
        assert!(after.ends_with("\n    }\n}\n"), "{after}");
    }

    #[test]
    fn a_settings_file_from_nothing() {
        insta::assert_snapshot!(install("", Dialect::ClaudeCode).unwrap().unwrap(), @r#"
        {
          "hooks": {
            "PreToolUse": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "type": "command",
                    "command": "/bin/countersign hook claude-code --hold 9m || { echo 'countersign blocked this call' >&2; exit 2; }",
                    "timeout": 600,
                    "onFailure": "block",
                    "statusMessage": "Waiting for a countersignature"
                  }
                ]
              }
            ],
            "PostToolUse": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "type": "command",
                    "command": "/bin/countersign hook claude-code --hold 9m",
                    "timeout": 80
                  }
                ]
              }
            ],
            "PostToolUseFailure": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "type": "command",
                    "command": "/bin/countersign hook claude-code --hold 9m",
                    "timeout": 80
                  }
                ]
              }
            ]
          }
        }
        "#);
        insta::assert_snapshot!(install("{}", Dialect::Gemini).unwrap().unwrap(), @r#"
        {
          "hooks": {
            "BeforeTool": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "name": "countersign",
                    "type": "command",
                    "command": "/bin/countersign hook gemini --hold 9m || { echo 'countersign blocked this call' >&2; exit 2; }",
                    "timeout": 600000
                  }
                ]
              }
            ],
            "AfterTool": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "name": "countersign-after",
                    "type": "command",
                    "command": "/bin/countersign hook gemini --hold 9m",
                    "timeout": 80000
                  }
                ]
              }
            ]
          }
        }
        "#);
    }

    #[test]
    fn an_older_hook_is_replaced() {
        let older = check("{}", Dialect::ClaudeCode)
            .replace("9m", "1m")
            .replace("\"onFailure\": \"block\",", "");
        let newer = install(&older, Dialect::ClaudeCode).unwrap().unwrap();
        assert_eq!(Some(newer), install("{}", Dialect::ClaudeCode).unwrap());
    }

    #[test]
    fn broken_settings_are_refused() {
        let ours = "{\"type\":\"command\",\"command\":\"countersign hook claude-code \"}";
        let twice =
            format!("{{\"hooks\":{{\"PreToolUse\":[{{\"hooks\":[{ours}]}},{{\"hooks\":[{ours}]}}]}}}}");
        let beside = format!("{{\"hooks\":{{\"PreToolUse\":[{{\"hooks\":[{ours},{{}}]}}]}}}}");
        for bad in [
            "[]",
            "{",
            "{\"a\":1,}",
            "// note\n{}",
            "{\"hooks\":[]}",
            "{\"hooks\":null}",
            "{\"hooks\":{\"PreToolUse\":{}}}",
            "{\"a\":1,\"a\":2}",
            &twice,
            &beside,
        ] {
            let failure = install(bad, Dialect::ClaudeCode).unwrap_err();
            assert_eq!(
                (failure.code.as_ref(), failure.hint.is_some()),
                ("bad_settings", true),
                "{bad}"
            );
        }
    }
}
