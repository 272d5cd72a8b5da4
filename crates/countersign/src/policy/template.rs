//! Templates for the arguments of a related call: an `undo` or a `before` read.
//!
//! A template is a table of the policy. Rendered with the values that it refers to, it becomes one JSON object. Nothing
//! is escaped for display, because the object is passed to a tool.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::Reader;
use super::schema::value_to_json;
use crate::display::clip;
use crate::json::{Malformed, Node, TopLevel, Tree, push_segment};
use crate::summary::{reason, to_value};

const FUEL: u64 = 50_000;

/// A call declared by a tool's `undo` or `before`.
#[derive(Clone, Debug)]
pub(super) struct CallTemplate {
    pub(super) tool: String,
    /// Byte offset of the tool's name in the policy.
    pub(super) at: usize,
    arguments: ValueTemplate,
}

/// Template of one argument value.
#[derive(Clone, Debug)]
enum ValueTemplate {
    /// Text with embedded expressions; renders to a string.
    Text(String),
    /// A single expression; keeps the type of its value.
    Expression(String),
    /// A constant, as JSON.
    Fixed(String),
    List(Vec<ValueTemplate>),
    Object(Vec<(String, ValueTemplate)>),
}

/// An argument that could not be rendered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RenderError {
    pub(super) field: String,
    pub(super) reason: String,
}

impl CallTemplate {
    /// Parses `KEY = { tool, arguments }`, whose templates may use `variables`. Returns `None` and reports the mistakes
    /// to the reader if it is not valid.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        variables: &[&str],
    ) -> Option<CallTemplate> {
        let table: &DeTable<'_> = value.get_ref().as_table()?;
        reader.only(table, &format!("`{key}`"), &["tool", "arguments"]);
        let tool = reader.string(table, "tool");
        if tool.is_none() && !table.contains_key("tool") {
            let message = format!("`{key}` names no tool");
            reader.problem(value.span().start, message, "add `tool = \"…\"`");
        }
        let arguments = match reader.table(table, "arguments") {
            Some(value) => template(reader, value, (key, variables)),
            None => Some(ValueTemplate::Object(Vec::new())),
        };
        let (tool, arguments) = (tool?, arguments?);
        Some(CallTemplate {
            tool: tool.value,
            at: tool.start,
            arguments,
        })
    }

    /// Returns the variables that each argument is built from: the JSON pointer of each template, with names such as
    /// `result.id`. An expression that yields an object or list is one entry.
    pub(super) fn sources(&self) -> Vec<(String, Vec<String>)> {
        let mut sources = Vec::new();
        add_sources(&self.arguments, &mut String::new(), &environment(), &mut sources);
        sources
    }

    /// Renders the arguments as JSON. A value that is copied and not computed keeps its bytes.
    pub(super) fn render(&self, inputs: &Inputs<'_>) -> Result<Vec<u8>, RenderError> {
        let mut made = Vec::new();
        write(&self.arguments, "arguments", &environment(), inputs, &mut made)?;
        Ok(made)
    }
}

/// JSON documents that templates refer to by name.
pub(super) struct Inputs<'a> {
    documents: Vec<(&'static str, Tree<'a>)>,
    /// The same documents as template values, for expressions that compute something. A number that cannot be
    /// represented exactly is undefined in them.
    context: Value,
}

impl<'a> Inputs<'a> {
    pub(super) fn read(
        documents: impl IntoIterator<Item = (&'static str, &'a [u8], TopLevel)>,
    ) -> Result<Inputs<'a>, Malformed> {
        let read = |(name, bytes, top)| Ok((name, Tree::read(bytes, top)?));
        let documents: Vec<(&'static str, Tree<'a>)> =
            documents.into_iter().map(read).collect::<Result<_, _>>()?;
        let value = |tree| to_value(tree, &|_| Some(Value::UNDEFINED)).unwrap_or_default();
        let context = Value::from_pairs(documents.iter().map(|(name, tree)| (*name, value(tree))));
        Ok(Inputs { documents, context })
    }

    /// Returns the value that a plain path such as `args.user.id` names; `None` if the expression is not a plain path,
    /// or if there is no such value.
    fn at(&self, expression: &str) -> Option<&Tree<'a>> {
        let (name, mut rest) = split_name(expression.trim())?;
        let mut tree = &self.documents.iter().find(|(known, _)| *known == name)?.1;
        while !rest.is_empty() {
            let (step, behind) = next_step(rest)?;
            tree = match (&tree.node, step) {
                (Node::Object(fields), Step::Key(key)) => &fields.iter().find(|(name, _)| name == key)?.1,
                (Node::Array(items), Step::Index(index)) => items.get(index)?,
                _ => return None,
            };
            rest = behind;
        }
        Some(tree)
    }

    /// Renders a template whose expressions are all plain paths, with numbers exactly as written in the document.
    /// `None` for any other template, or if a value is missing or is neither text, number nor boolean.
    fn embed(&self, template: &str) -> Option<String> {
        // The template engine removes a line break at the end.
        if template.contains("{%") || template.contains("{#") || template.ends_with(['\n', '\r']) {
            return None;
        }
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (expression, behind) = behind.split_once("}}")?;
            let tree = self.at(expression)?;
            if matches!(tree.node, Node::Null | Node::Array(_) | Node::Object(_)) {
                return None;
            }
            text.push_str(before);
            text.push_str(tree.text());
            rest = behind;
        }
        text.push_str(rest);
        Some(text)
    }
}

/// One step of a path: a member's name, or an index.
enum Step<'e> {
    Key(&'e str),
    Index(usize),
}

/// Splits a path such as `.name`, `["name"]` or `[0]` after its first step; `None` if it begins with no such step.
fn next_step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let (name, rest) = split_name(rest)?;
        return Some((Step::Key(name), rest));
    }
    let (inside, rest) = path.strip_prefix('[')?.split_once(']')?;
    let quoted = |quote: char| inside.strip_prefix(quote)?.strip_suffix(quote);
    let key = quoted('"').or_else(|| quoted('\''));
    let is_plain = |key: &&str| !key.contains(['"', '\'', '\\']);
    match key {
        Some(key) => Some((Step::Key(Some(key).filter(is_plain)?), rest)),
        None => Some((Step::Index(inside.parse().ok()?), rest)),
    }
}

/// Splits a text after the name that it begins with; `None` if it begins with no name.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_name.then(|| text.split_at_checked(end)).flatten()
}

/// Creates the template environment for data: nothing is escaped, and rendering a value that is neither text, number
/// nor boolean fails.
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

/// Parses a template value. `names` holds the policy key, for messages, and the variables that templates may use.
/// Returns `None` and reports the mistake to the reader if the value is not valid.
fn template(
    reader: &mut Reader<'_>,
    value: &Spanned<DeValue<'_>>,
    names: (&str, &[&str]),
) -> Option<ValueTemplate> {
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
                                ValueTemplate::Expression(expression.to_owned()),
                            )
                        })
                }
                None => environment
                    .template_from_named_str(key, &text.value)
                    .map(|compiled| {
                        (
                            compiled.undeclared_variables(false),
                            ValueTemplate::Text(text.value.clone()),
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
            let items: Vec<Option<ValueTemplate>> =
                items.iter().map(|item| template(reader, item, names)).collect();
            items.into_iter().collect::<Option<_>>().map(ValueTemplate::List)
        }
        DeValue::Table(table) => {
            let fields = table
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), template(reader, value, names)?)));
            let fields: Vec<Option<_>> = fields.collect();
            fields
                .into_iter()
                .collect::<Option<_>>()
                .map(ValueTemplate::Object)
        }
        plain => match value_to_json(plain) {
            Some(json) => Some(ValueTemplate::Fixed(json.to_string())),
            None => {
                reader.problem(value.span().start, "a number that JSON cannot hold", "");
                None
            }
        },
    }
}

/// Returns the inside of a string that consists of a single `{{ … }}`; `None` for any other string.
fn single_expression(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let is_single = !inside.contains("{{") && !inside.contains("}}") && !inside.contains("{%");
    (is_single && !inside.starts_with('-') && !inside.ends_with('-')).then_some(inside)
}

fn write(
    template: &ValueTemplate,
    field: &str,
    environment: &Environment<'_>,
    inputs: &Inputs<'_>,
    made: &mut Vec<u8>,
) -> Result<(), RenderError> {
    let fault = |reason: String| RenderError {
        field: clip(field, 60).to_string(),
        reason,
    };
    match template {
        ValueTemplate::Fixed(json) => made.extend_from_slice(json.as_bytes()),
        ValueTemplate::Text(template) => {
            let text = match inputs.embed(template) {
                Some(text) => text,
                None => environment
                    .render_str(template, inputs.context.clone())
                    .map_err(|error| fault(reason(&error)))?,
            };
            made.extend_from_slice(quoted(&text).as_bytes());
        }
        // INVARIANT: a copied value has exactly the same bytes, so that `1E3` names the same thing in both calls.
        ValueTemplate::Expression(expression) if inputs.at(expression).is_some() => {
            made.extend(
                inputs
                    .at(expression)
                    .into_iter()
                    .flat_map(|tree| tree.raw.bytes()),
            );
        }
        ValueTemplate::Expression(expression) => {
            let compiled = environment
                .compile_expression(expression)
                .map_err(|error| fault(reason(&error)))?;
            let value = compiled
                .eval(inputs.context.clone())
                .map_err(|error| fault(reason(&error)))?;
            if value.is_undefined() {
                return Err(fault("a value it names is missing".to_owned()));
            }
            let json = serde_json::to_vec(&value).map_err(|_| fault("it is not a JSON value".to_owned()))?;
            made.extend_from_slice(&json);
        }
        ValueTemplate::List(items) => {
            made.push(b'[');
            for (at, item) in items.iter().enumerate() {
                made.extend_from_slice(if at > 0 { b"," } else { b"" });
                write(item, field, environment, inputs, made)?;
            }
            made.push(b']');
        }
        ValueTemplate::Object(fields) => {
            made.push(b'{');
            for (at, (key, value)) in fields.iter().enumerate() {
                made.extend_from_slice(if at > 0 { b"," } else { b"" });
                made.extend_from_slice(quoted(key).as_bytes());
                made.push(b':');
                write(value, key, environment, inputs, made)?;
            }
            made.push(b'}');
        }
    }
    Ok(())
}

fn add_sources(
    template: &ValueTemplate,
    pointer: &mut String,
    environment: &Environment<'_>,
    sources: &mut Vec<(String, Vec<String>)>,
) {
    let length = pointer.len();
    // The template compiled when the policy was parsed, so this should not happen; if it does, the sources are unknown.
    let unknown = || vec![String::new()];
    let names = match template {
        ValueTemplate::Fixed(_) => Vec::new(),
        ValueTemplate::Text(template) => environment.template_from_str(template).map_or_else(
            |_| unknown(),
            |compiled| compiled.undeclared_variables(true).into_iter().collect(),
        ),
        ValueTemplate::Expression(expression) => environment.compile_expression(expression).map_or_else(
            |_| unknown(),
            |compiled| compiled.undeclared_variables(true).into_iter().collect(),
        ),
        ValueTemplate::List(items) => {
            for (at, item) in items.iter().enumerate() {
                push_segment(pointer, &at.to_string());
                add_sources(item, pointer, environment, sources);
                pointer.truncate(length);
            }
            return;
        }
        ValueTemplate::Object(fields) => {
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
