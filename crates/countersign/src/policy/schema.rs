//! JSON Schema for a tool's arguments. A mismatch is returned to the agent to fix instead of being put to a person.
//! Without the feature `schema` no schema compiles.

#[cfg(not(feature = "schema"))]
mod absent;
mod choices;
#[cfg(feature = "provenance")]
mod declared;
#[cfg(feature = "provenance")]
mod names;
#[cfg(feature = "schema")]
mod validator;

use serde_json::{Map, Number as JsonNumber, Value};
use toml::de::{DeTable, DeValue};

#[cfg(not(feature = "schema"))]
use absent::Validator;
pub use choices::Choices;
#[cfg(feature = "provenance")]
use declared::Declared;
#[cfg(feature = "schema")]
use validator::Validator;

use crate::json::{Node, Number, TopLevel, Tree};

/// Compiled JSON Schema of a tool's arguments.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    choices: Choices,
    /// Defaults and names, for tracing.
    #[cfg(feature = "provenance")]
    pub(super) declared: Declared,
}

impl Schema {
    /// Compiles a schema. References to other documents are not followed, and patterns match in linear time.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let validator = Validator::build(schema)?;
        Ok(Schema {
            validator,
            choices: Choices::of(schema),
            #[cfg(feature = "provenance")]
            declared: Declared::of(schema),
        })
    }

    /// Returns the values that the schema lists at a JSON pointer; `None` if it lists none there.
    pub fn choices(&self, pointer: &str) -> Option<&[Value]> {
        self.choices.at(pointer)
    }

    /// Checks the bytes of a call's arguments. The error describes the fault without repeating values.
    pub fn check_bytes(&self, arguments: &[u8]) -> Result<(), String> {
        let tree = Tree::read(arguments, TopLevel::Object).map_err(|problem| problem.to_string())?;
        self.check(&tree)
    }

    /// Checks arguments. The error describes the fault without repeating values.
    pub(super) fn check(&self, arguments: &Tree<'_>) -> Result<(), String> {
        let value = to_json(arguments).ok_or("a number is too large to be checked")?;
        self.validator.validate(&value)
    }
}

fn to_json(tree: &Tree<'_>) -> Option<Value> {
    Some(match &tree.node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Number => Value::Number(match Number::read(&tree.raw) {
            Number::Int(number) => JsonNumber::from(number),
            Number::UInt(number) => JsonNumber::from(number),
            Number::Float { value, .. } => JsonNumber::from_f64(value)?,
        }),
        Node::String(text) => Value::String(text.to_string()),
        Node::Array(items) => Value::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Node::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(key, value)| Some((key.to_string(), to_json(value)?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

/// Converts a TOML table to JSON, for inline schemas; `None` if it contains numbers that JSON cannot represent.
pub(super) fn table_to_json(table: &DeTable<'_>) -> Option<Value> {
    let mut fields = Map::new();
    for (key, value) in table.iter() {
        fields.insert(key.get_ref().to_string(), value_to_json(value.get_ref())?);
    }
    Some(Value::Object(fields))
}

/// Converts a TOML value to JSON; `None` for numbers that JSON cannot represent.
pub(super) fn value_to_json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Float(number) => Value::Number(JsonNumber::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| value_to_json(item.get_ref()));
            Value::Array(items.collect::<Option<_>>()?)
        }
        DeValue::Table(table) => table_to_json(table)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, arguments: &str, expected: Result<(), &str>) {
        let tree = Tree::read(arguments.as_bytes(), TopLevel::Object).unwrap();
        let answer = Schema::compile(&schema).unwrap().check(&tree);
        assert_eq!(answer, expected.map_err(str::to_owned), "{arguments}");
    }

    #[test]
    fn checks_arguments() {
        let schema = || {
            serde_json::json!({
                "type": "object",
                "required": ["to"],
                "properties": { "to": { "type": "string", "pattern": "^[a-z]+$" }, "n": { "type": "integer" } },
                "additionalProperties": false,
            })
        };
        check(schema(), r#"{"to":"ann","n":9007199254740993}"#, Ok(()));
        check(schema(), "{}", Err("\"to\" is a required property"));
        check(
            schema(),
            r#"{"to":"ann","n":1e400}"#,
            Err("a number is too large to be checked"),
        );
        check(
            schema(),
            r#"{"to":"ann","n":1.5}"#,
            Err("the value is not of type \"integer\" at `/n`"),
        );
    }

    #[test]
    fn x31_faults_do_not_repeat_values() {
        let schema = serde_json::json!({ "properties": { "key": { "maxLength": 3 } } });
        check(
            schema,
            r#"{"key":"hunter2"}"#,
            Err("the value is longer than 3 characters at `/key`"),
        );
    }

    #[test]
    fn bad_schemas_are_found_at_load() {
        assert!(Schema::compile(&serde_json::json!({ "type": "strnig" })).is_err());
        assert!(Schema::compile(&serde_json::json!({ "pattern": "(" })).is_err());
        assert!(Schema::compile(&serde_json::json!({ "$ref": "https://example.com/s.json" })).is_err());
    }
}
