//! Tool definitions: a name, a description and a JSON Schema, as written in the agent's file.
//!
//! Input: the text of a `tools.json`. Output: definitions with a compiled schema and a hash. Tools are not run here:
//! that takes a permit, which only the gate can make.

use std::sync::Arc;

use countersign::hash::Hash;
use countersign::id::ToolName;
use countersign::policy::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of tools of one agent.
pub const MOST_TOOLS: usize = 500;

/// Definition of one tool.
#[derive(Debug)]
pub struct Tool {
    /// Name of the tool.
    pub name: ToolName,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, byte for byte.
    pub schema: String,
    /// Hash of name, description and schema, which pins a policy to this definition.
    pub hash: Hash,
    compiled: Schema,
}

/// Error in a file of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTools {
    /// The file is not valid JSON or lacks fields; with the parser's message.
    #[error("the tools cannot be read: {0}")]
    Unreadable(String),
    /// There are this many tools, which is more than [`MOST_TOOLS`].
    #[error("an agent has at most {MOST_TOOLS} tools, not {0}")]
    TooMany(usize),
    /// A tool's name or schema is invalid; with the name and the problem.
    #[error("tool `{0}`: {1}")]
    Tool(String, String),
    /// Two tools have this name.
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
    /// Parses a JSON array of objects with the fields `name`, `description` and `input_schema`.
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

    /// Creates a tool whose arguments have this JSON Schema. Fails if the name or the schema is invalid.
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

    /// Validates a call's arguments against the schema. The error goes to the model, and no person is asked.
    pub fn check(&self, arguments: &[u8]) -> Result<(), String> {
        self.compiled.check_bytes(arguments)
    }
}
