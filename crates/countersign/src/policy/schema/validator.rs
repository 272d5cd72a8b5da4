//! Validates JSON against a schema. Only this file depends on the validation library.

use jsonschema::PatternOptions;
use serde_json::Value;

use crate::display::clip;

#[derive(Debug)]
pub(super) struct Validator(jsonschema::Validator);

impl Validator {
    pub(super) fn build(schema: &Value) -> Result<Validator, String> {
        let patterns = PatternOptions::regex()
            .size_limit(1 << 20)
            .dfa_size_limit(1 << 20);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.should_validate_formats(true).build(schema);
        validator.map(Validator).map_err(|error| error.to_string())
    }

    /// Checks a value. The error describes the fault without repeating values.
    pub(super) fn validate(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let message = error.masked_with("the value").to_string();
            let place = if place.is_empty() {
                String::new()
            } else {
                format!(" at `{}`", clip(&place, 100))
            };
            format!("{}{place}", clip(&message, 200))
        })
    }
}
