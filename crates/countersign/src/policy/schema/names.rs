//! Member names that a JSON Schema declares, as opposed to names chosen by an agent.
//!
//! Names that a schema merely allows (`patternProperties`, `additionalProperties`) are not declared: the agent chooses
//! them.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum depth to which references and nested schemas are followed.
const DEEPEST: usize = 12;
/// Maximum number of subschemas visited; the rest of a larger schema is ignored.
const MOST: usize = 5_000;

/// Names declared for the members of one object.
#[derive(Debug, Default)]
pub(super) struct Names {
    members: HashMap<String, Names>,
    /// Names inside list elements and inside members with undeclared names.
    others: Option<Box<Names>>,
    /// True if the schema describes the members of this object.
    is_told: bool,
}

impl Names {
    /// Collects the names that a whole schema declares.
    pub(super) fn of(schema: &Value) -> Names {
        let mut names = Names::default();
        let mut left = MOST;
        names.add(schema, schema, DEEPEST, &mut left);
        names
    }

    /// Returns true if the schema declares the member at a pointer, and false if the member's name was freely chosen;
    /// `None` if the schema says nothing about that object.
    pub(super) fn is_name(&self, pointer: &str) -> Option<bool> {
        let mut place = self;
        let mut segments = pointer.split('/').skip(1).peekable();
        while let Some(segment) = segments.next() {
            let name = segment.replace("~1", "/").replace("~0", "~");
            if segments.peek().is_none() {
                let is_there = place.members.contains_key(&name);
                return (place.is_told || is_there).then_some(is_there);
            }
            let next = place.members.get(&name).or(place.others.as_deref());
            place = next?;
        }
        None
    }

    fn add(&mut self, schema: &Value, root: &Value, depth: usize, left: &mut usize) {
        let (Some(deeper), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
            return;
        };
        *left = fewer;
        let reference = schema.get("$ref").and_then(Value::as_str);
        let referred = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        if let Some(referred) = referred {
            self.add(referred, root, deeper, left);
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for one in schema
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.add(one, root, deeper, left);
            }
        }
        for keyword in ["if", "then", "else"] {
            if let Some(one) = schema.get(keyword) {
                self.add(one, root, deeper, left);
            }
        }
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            self.is_told = true;
            for (name, property) in properties {
                let member = self.members.entry(name.clone()).or_default();
                member.add(property, root, deeper, left);
            }
        }
        let named = schema.get("propertyNames").and_then(|names| names.get("enum"));
        for name in named
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            self.is_told = true;
            self.members.entry(name.to_owned()).or_default();
        }
        if schema
            .get("additionalProperties")
            .is_some_and(|free| free != &Value::Bool(false))
        {
            self.is_told = true;
        }
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        self.is_told |= patterns.is_some();
        let listed = schema.get("prefixItems").and_then(Value::as_array);
        let others = ["items", "additionalProperties", "contains"].map(|keyword| schema.get(keyword));
        let others = others.into_iter().flatten();
        let others = others.chain(listed.into_iter().flatten());
        let others = others.chain(patterns.into_iter().flat_map(|patterns| patterns.values()));
        for other in others.filter(|other| other.is_object()) {
            self.others.get_or_insert_default().add(other, root, deeper, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_chosen_ones() {
        let schema = serde_json::json!({
            "properties": {
                "to": { "type": "string" },
                "shares": { "additionalProperties": { "properties": { "amount": {} } } },
                "people": { "items": { "$ref": "#/$defs/person" } },
                "either": { "anyOf": [{ "properties": { "a": {} } }, { "type": "null" }] },
                "any": {}
            },
            "$defs": { "person": { "properties": { "name": {}, "boss": { "$ref": "#/$defs/person" } } } }
        });
        let names = Names::of(&schema);
        let check = |pointer: &str, expected: Option<bool>| {
            assert_eq!(names.is_name(pointer), expected, "{pointer}");
        };
        check("/to", Some(true));
        check("/evil", Some(false));
        check("/shares/eve@evil.example", Some(false));
        check("/shares/eve@evil.example/amount", Some(true));
        check("/people/0/name", Some(true));
        check("/people/0/boss/boss/name", Some(true));
        check("/people/0/eve", Some(false));
        check("/either/a", Some(true));
        check("/either/b", Some(false));
        check("/any/thing", None);
    }
}
