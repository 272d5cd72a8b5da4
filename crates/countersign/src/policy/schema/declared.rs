//! Defaults and member names that a schema declares, for tracing where values came from.

use std::collections::HashMap;

use serde_json::Value;

use super::names::Names;
use crate::json::push_segment;

#[derive(Debug)]
pub(in crate::policy) struct Declared {
    /// Default values by JSON pointer.
    defaults: HashMap<String, Value>,
    names: Names,
}

impl Declared {
    pub(super) fn of(schema: &Value) -> Declared {
        let mut defaults = HashMap::new();
        collect_defaults(schema, &mut String::new(), &mut defaults);
        let names = Names::of(schema);
        Declared { defaults, names }
    }

    /// Returns the default of the value at a pointer. `None` if there is none; values inside lists never have one.
    pub(in crate::policy) fn default(&self, pointer: &str) -> Option<&Value> {
        self.defaults.get(pointer)
    }

    /// Returns true if the schema declares the member at a pointer, and false if the member's name was freely chosen;
    /// `None` if the schema says nothing about names there.
    pub(in crate::policy) fn is_name(&self, pointer: &str) -> Option<bool> {
        self.names.is_name(pointer)
    }
}

fn collect_defaults(schema: &Value, pointer: &mut String, defaults: &mut HashMap<String, Value>) {
    if let Some(default) = schema.get("default") {
        defaults.insert(pointer.clone(), default.clone());
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let length = pointer.len();
        push_segment(pointer, name);
        collect_defaults(property, pointer, defaults);
        pointer.truncate(length);
    }
}
