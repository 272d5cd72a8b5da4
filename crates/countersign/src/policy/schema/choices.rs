//! Lists the values that a schema allows at each JSON pointer, so that a form can offer them.

use std::collections::HashMap;

use serde_json::Value;

use crate::json::push_segment;

/// Pointer segment that stands for every index of a list.
const ANY_ITEM: &str = "-";
/// Maximum nesting depth that is searched. Schemas below it offer no choices.
const MOST_DEPTH: usize = 32;

/// Values that a JSON Schema lists for its places (`enum`), by JSON pointer.
#[derive(Debug, Default)]
pub struct Choices(HashMap<String, Vec<Value>>);

impl Choices {
    /// Collects the values from a schema, which need not be trusted: nothing of it is compiled or followed.
    pub fn of(schema: &Value) -> Choices {
        let mut choices = Choices::default();
        choices.collect(schema, &mut String::new(), MOST_DEPTH);
        choices
    }

    /// Returns the values that are allowed at a pointer; `None` if the schema lists none.
    pub fn at(&self, pointer: &str) -> Option<&[Value]> {
        let is_index =
            |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
        let pattern = || {
            let segments = pointer.split('/').map(|segment| match is_index(segment) {
                true => ANY_ITEM,
                false => segment,
            });
            segments.collect::<Vec<_>>().join("/")
        };
        let found = self.0.get(pointer).or_else(|| self.0.get(&pattern()));
        found.map(Vec::as_slice)
    }

    fn collect(&mut self, schema: &Value, pointer: &mut String, room: usize) {
        if room == 0 {
            return;
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            self.0.insert(pointer.clone(), allowed.clone());
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let members = properties.into_iter().flatten();
        let members = members.map(|(name, member)| (name.as_str(), member));
        let items = schema.get("items").map(|items| (ANY_ITEM, items));
        for (name, below) in members.chain(items) {
            let length = pointer.len();
            push_segment(pointer, name);
            self.collect(below, pointer, room - 1);
            pointer.truncate(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn choices_are_found_in_members_and_items() {
        let schema = json!({ "properties": {
            "size": { "enum": ["s", "m"] },
            "a/b": { "properties": { "n": { "enum": [1, null] } } },
            "all": { "items": { "properties": { "kind": { "enum": ["x"] } } } },
        } });
        let choices = Choices::of(&schema);
        assert_eq!(choices.at("/size"), Some(&[json!("s"), json!("m")][..]));
        assert_eq!(choices.at("/a~1b/n"), Some(&[json!(1), json!(null)][..]));
        assert_eq!(choices.at("/all/12/kind"), Some(&[json!("x")][..]));
        assert_eq!(choices.at("/all/x/kind"), None);
        assert_eq!(choices.at("/other"), None);
    }
}
