//! Tools as a model sees them: a name, a description and a schema, kept as their file has them.
//!
//! Enters: the text of a `tools.json`. Leaves: definitions with a compiled schema and a hash.
//! Deliberately absent: running them. That takes a permit, which only the gate can make.

use std::sync::Arc;

use countersign::hash::Hash;
use countersign::id::ToolName;
use countersign::policy::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most tools of one agent.
pub const MOST_TOOLS: usize = 500;

/// One tool's definition.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// The schema of its arguments, byte for byte.
    pub schema: String,
    /// The hash of all of it: another definition is another tool.
    pub hash: Hash,
    compiled: Schema,
}

/// What is wrong with a file of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTools {
    /// It is not the JSON it should be.
    #[error("the tools cannot be read: {0}")]
    Unreadable(String),
    /// There are too many.
    #[error("an agent has at most {MOST_TOOLS} tools, not {0}")]
    TooMany(usize),
    /// One of them is none.
    #[error("tool `{0}`: {1}")]
    Tool(String, String),
    /// Two of them have one name.
    #[error("tool `{0}` is defined twice")]
    Twice(String),
}

#[derive(Deserialize)]
struct Definition {
    name: String,
    description: String,
    input_schema: Box<RawValue>,
}

impl Tool {
    /// Reads `[{"name", "description", "input_schema"}]`.
    pub fn read_all(text: &str) -> Result<Vec<Arc<Tool>>, BadTools> {
        let definitions: Vec<Definition> =
            serde_json::from_str(text).map_err(|error| BadTools::Unreadable(error.to_string()))?;
        if definitions.len() > MOST_TOOLS {
            return Err(BadTools::TooMany(definitions.len()));
        }
        let mut tools: Vec<Arc<Tool>> = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let Definition {
                name,
                description,
                input_schema,
            } = definition;
            if tools.iter().any(|tool| tool.name.as_str() == name) {
                return Err(BadTools::Twice(name));
            }
            let tool = Tool::new(&name, description, input_schema.get().to_owned());
            tools.push(Arc::new(tool.map_err(|problem| BadTools::Tool(name, problem))?));
        }
        Ok(tools)
    }

    /// A tool whose arguments have this JSON Schema.
    pub fn new(name: &str, description: String, schema: String) -> Result<Tool, String> {
        let name = ToolName::new(name).map_err(|problem| problem.to_string())?;
        let value: serde_json::Value = serde_json::from_str(&schema).map_err(|error| error.to_string())?;
        if !value.is_object() {
            return Err("its schema is not an object".to_owned());
        }
        let compiled = Schema::compile(&value)?;
        let fields = countersign::hash::Fields::new("countersign/tool/1")
            .field(name.as_str().as_bytes())
            .field(description.as_bytes())
            .field(schema.as_bytes());
        Ok(Tool {
            name,
            description,
            schema,
            hash: fields.finish(),
            compiled,
        })
    }

    /// Says what is wrong with a call's arguments, so that the model can mend it: a person is not asked about that.
    pub fn check(&self, arguments: &[u8]) -> Result<(), String> {
        self.compiled.check_bytes(arguments)
    }
}
