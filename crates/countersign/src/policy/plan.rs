//! Arguments for another call, made from what is known of this one: for undos and for reads that come before.
//!
//! Enters: a table of the policy, later the values it names. Leaves: one JSON object.
//! Deliberately absent: escaping for display. These are values for a tool, not for an eye.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::Reader;
use super::schema::value_to_json;
use crate::display::clip;
use crate::json::{Malformed, Top, Tree, push_segment};
use crate::summary::{reason, to_value};

const FUEL: u64 = 50_000;

/// A call that another one leads to.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) tool: String,
    /// Where the tool's name stands in the policy.
    pub(super) at: usize,
    arguments: Plan,
}

/// A value to be made.
#[derive(Clone, Debug)]
enum Plan {
    /// Text around expressions; always a string.
    Text(String),
    /// A single expression; keeps the value's type.
    Expression(String),
    /// A value without expressions, as JSON.
    Fixed(String),
    List(Vec<Plan>),
    Object(Vec<(String, Plan)>),
}

/// A value that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmakable {
    pub(super) field: String,
    pub(super) reason: String,
}

impl Planned {
    /// Reads `KEY = { tool, arguments }`, whose templates may name `variables`; notes mistakes with the reader.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        variables: &[&str],
    ) -> Option<Planned> {
        let table: &DeTable<'_> = value.get_ref().as_table()?;
        reader.only(table, &format!("`{key}`"), &["tool", "arguments"]);
        let tool = reader.string(table, "tool");
        if tool.is_none() && !table.contains_key("tool") {
            let message = format!("`{key}` names no tool");
            reader.problem(value.span().start, message, "add `tool = \"…\"`");
        }
        let arguments = match reader.table(table, "arguments") {
            Some(value) => plan(reader, value, (key, variables)),
            None => Some(Plan::Object(Vec::new())),
        };
        let (tool, arguments) = (tool?, arguments?);
        Some(Planned {
            tool: tool.value,
            at: tool.start,
            arguments,
        })
    }

    /// Where its arguments come from: the pointer of each value that is planned, and the names that are used to make it,
    /// `result.id` say. A value with parts is planned as a whole.
    pub(super) fn sources(&self) -> Vec<(String, Vec<String>)> {
        let mut sources = Vec::new();
        add_sources(&self.arguments, &mut String::new(), &environment(), &mut sources);
        sources
    }

    /// Makes its arguments.
    pub(super) fn make(&self, context: &Value) -> Result<Vec<u8>, Unmakable> {
        let mut made = Vec::new();
        write(&self.arguments, "arguments", &environment(), context, &mut made)?;
        Ok(made)
    }
}

/// JSON as a template sees it. A number that would change on the way counts as missing.
pub(super) fn value(bytes: &[u8], top: Top) -> Result<Value, Malformed> {
    let tree = Tree::read(bytes, top)?;
    Ok(to_value(&tree, &|_| Some(Value::UNDEFINED)).unwrap_or_default())
}

/// Templates here make data: nothing is escaped, and what has no text of its own is an error.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment.set_formatter(|out, _, value| match value.kind() {
        ValueKind::String | ValueKind::Number => Ok(write!(out, "{value}")?),
        ValueKind::Bool => Ok(write!(out, "{}", value.is_true())?),
        _ => Err(Error::new(ErrorKind::UndefinedError, "neither text nor number")),
    });
    environment
}

/// `names` are the key it stands under, and what its templates may name.
fn plan(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>, names: (&str, &[&str])) -> Option<Plan> {
    let (key, variables) = names;
    match value.get_ref() {
        DeValue::String(text) => {
            let text = reader.text_at(value, text);
            let environment = environment();
            let checked = match single_expression(&text.value) {
                Some(expression) => {
                    environment
                        .compile_expression_owned(expression.to_owned())
                        .map(|compiled| {
                            (
                                compiled.undeclared_variables(false),
                                Plan::Expression(expression.to_owned()),
                            )
                        })
                }
                None => environment
                    .template_from_named_str(key, &text.value)
                    .map(|compiled| {
                        (
                            compiled.undeclared_variables(false),
                            Plan::Text(text.value.clone()),
                        )
                    }),
            };
            match checked {
                Ok((named, made)) => {
                    let globals: Vec<&str> = environment.globals().map(|(name, _)| name).collect();
                    for name in named {
                        if !variables.contains(&name.as_str()) && !globals.contains(&name.as_str()) {
                            let meant: Vec<String> = variables
                                .iter()
                                .map(|known| format!("`{known}.{name}`"))
                                .collect();
                            let hint = format!("write {}", meant.join(" or "));
                            reader.problem(text.start, format!("unknown name `{name}` in {key}"), hint);
                        }
                    }
                    Some(made)
                }
                Err(error) => {
                    reader.bad_template(&text, &error, "{{ result.id }}");
                    None
                }
            }
        }
        DeValue::Array(items) => {
            let items: Vec<Option<Plan>> = items.iter().map(|item| plan(reader, item, names)).collect();
            items.into_iter().collect::<Option<_>>().map(Plan::List)
        }
        DeValue::Table(table) => {
            let fields = table
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), plan(reader, value, names)?)));
            let fields: Vec<Option<_>> = fields.collect();
            fields.into_iter().collect::<Option<_>>().map(Plan::Object)
        }
        plain => match value_to_json(plain) {
            Some(json) => Some(Plan::Fixed(json.to_string())),
            None => {
                reader.problem(value.span().start, "a number that JSON cannot hold", "");
                None
            }
        },
    }
}

/// The inside of a string that is one `{{ … }}` and nothing else.
fn single_expression(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let is_single = !inside.contains("{{") && !inside.contains("}}") && !inside.contains("{%");
    (is_single && !inside.starts_with('-') && !inside.ends_with('-')).then_some(inside)
}

fn write(
    plan: &Plan,
    field: &str,
    environment: &Environment<'_>,
    context: &Value,
    made: &mut Vec<u8>,
) -> Result<(), Unmakable> {
    let fault = |reason: String| Unmakable {
        field: clip(field, 60).to_string(),
        reason,
    };
    match plan {
        Plan::Fixed(json) => made.extend_from_slice(json.as_bytes()),
        Plan::Text(template) => {
            let text = environment
                .render_str(template, context.clone())
                .map_err(|error| fault(reason(&error)))?;
            made.extend_from_slice(quoted(&text).as_bytes());
        }
        Plan::Expression(expression) => {
            let compiled = environment
                .compile_expression(expression)
                .map_err(|error| fault(reason(&error)))?;
            let value = compiled
                .eval(context.clone())
                .map_err(|error| fault(reason(&error)))?;
            if value.is_undefined() {
                return Err(fault("a value it names is missing".to_owned()));
            }
            let json = serde_json::to_vec(&value).map_err(|_| fault("it is not a JSON value".to_owned()))?;
            made.extend_from_slice(&json);
        }
        Plan::List(items) => {
            made.push(b'[');
            for (at, item) in items.iter().enumerate() {
                made.extend_from_slice(if at > 0 { b"," } else { b"" });
                write(item, field, environment, context, made)?;
            }
            made.push(b']');
        }
        Plan::Object(fields) => {
            made.push(b'{');
            for (at, (key, value)) in fields.iter().enumerate() {
                made.extend_from_slice(if at > 0 { b"," } else { b"" });
                made.extend_from_slice(quoted(key).as_bytes());
                made.push(b':');
                write(value, key, environment, context, made)?;
            }
            made.push(b'}');
        }
    }
    Ok(())
}

fn add_sources(
    plan: &Plan,
    pointer: &mut String,
    environment: &Environment<'_>,
    sources: &mut Vec<(String, Vec<String>)>,
) {
    let length = pointer.len();
    // What compiled when the policy was read compiles again; should it not, nothing is known of it.
    let unknown = || vec![String::new()];
    let names = match plan {
        Plan::Fixed(_) => Vec::new(),
        Plan::Text(template) => environment.template_from_str(template).map_or_else(
            |_| unknown(),
            |compiled| compiled.undeclared_variables(true).into_iter().collect(),
        ),
        Plan::Expression(expression) => environment.compile_expression(expression).map_or_else(
            |_| unknown(),
            |compiled| compiled.undeclared_variables(true).into_iter().collect(),
        ),
        Plan::List(items) => {
            for (at, item) in items.iter().enumerate() {
                push_segment(pointer, &at.to_string());
                add_sources(item, pointer, environment, sources);
                pointer.truncate(length);
            }
            return;
        }
        Plan::Object(fields) => {
            for (key, value) in fields {
                push_segment(pointer, key);
                add_sources(value, pointer, environment, sources);
                pointer.truncate(length);
            }
            return;
        }
    };
    sources.push((pointer.clone(), names));
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
