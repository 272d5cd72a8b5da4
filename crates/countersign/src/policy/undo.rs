//! How a call is taken back: another tool, with arguments made from this call's arguments and result.
//!
//! Enters: the plan from the policy, the call's bytes, the result's bytes. Leaves: a new call, to be proposed and
//! decided like any other.
//! Deliberately absent: escaping for display. These are values for a tool, not for an eye.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use toml::de::{DeTable, DeValue};

use super::read::Reader;
use super::schema::value_to_json;
use crate::display::clip;
use crate::json::{self, Limits, Malformed, Top, Tree};
use crate::summary::{reason, to_value};

const FUEL: u64 = 50_000;
const VARIABLES: [&str; 2] = ["args", "result"];

/// A declared undo.
#[derive(Clone, Debug)]
pub(super) struct Undo {
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

/// Why there is no undo for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoProblem {
    /// The policy declares none.
    #[error("`{0}` cannot be undone\nhint: declare `undo` for it in the policy")]
    NotDeclared(String),
    /// An argument of the undo could not be made.
    #[error(
        "cannot make `{field}` for the undo: {reason}\nhint: undo it by hand, then mend `undo.arguments`"
    )]
    Unmakable {
        /// Which argument.
        field: String,
        /// Why.
        reason: String,
    },
    /// The call's arguments or its result are not JSON.
    #[error("cannot read what the call did: {0}")]
    Unreadable(Malformed),
    /// What came out cannot be proposed.
    #[error("the undo's arguments cannot be proposed: {0}")]
    Unproposable(Malformed),
}

impl Undo {
    /// Reads `undo = { tool, arguments }`; notes mistakes with the reader.
    pub(super) fn read(reader: &mut Reader<'_>, table: &DeTable<'_>, at: usize) -> Option<Undo> {
        reader.only(table, "`undo`", &["tool", "arguments"]);
        let tool = reader.string(table, "tool");
        if tool.is_none() && !table.contains_key("tool") {
            reader.problem(at, "`undo` names no tool", "add `tool = \"…\"`");
        }
        let arguments = match reader.table(table, "arguments") {
            Some(value) => plan(reader, value),
            None => Some(Plan::Object(Vec::new())),
        };
        let (tool, arguments) = (tool?, arguments?);
        Some(Undo {
            tool: tool.value,
            at: tool.start,
            arguments,
        })
    }

    /// Makes the arguments of the undo.
    pub(super) fn make(&self, arguments: &[u8], result: &[u8]) -> Result<Vec<u8>, UndoProblem> {
        // A number that would change on the way counts as missing.
        let value = |bytes, top| {
            let tree = Tree::read(bytes, top).map_err(UndoProblem::Unreadable)?;
            Ok(to_value(&tree, &|_| Some(Value::UNDEFINED)).unwrap_or_default())
        };
        let context = Value::from_pairs([
            ("args", value(arguments, Top::Object)?),
            ("result", value(result, Top::Any)?),
        ]);
        let mut made = Vec::new();
        write(&self.arguments, "arguments", &environment(), &context, &mut made)?;
        json::check(&made, Limits::ARGUMENTS).map_err(UndoProblem::Unproposable)?;
        Ok(made)
    }
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

fn plan(reader: &mut Reader<'_>, value: &toml::Spanned<DeValue<'_>>) -> Option<Plan> {
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
                    .template_from_named_str("undo", &text.value)
                    .map(|compiled| {
                        (
                            compiled.undeclared_variables(false),
                            Plan::Text(text.value.clone()),
                        )
                    }),
            };
            match checked {
                Ok((names, made)) => {
                    let globals: Vec<&str> = environment.globals().map(|(name, _)| name).collect();
                    for name in names {
                        if !VARIABLES.contains(&name.as_str()) && !globals.contains(&name.as_str()) {
                            let hint = format!("write `args.{name}` or `result.{name}`");
                            reader.problem(text.start, format!("unknown name `{name}` in undo"), hint);
                        }
                    }
                    Some(made)
                }
                Err(error) => {
                    let detail = error
                        .detail()
                        .map(str::to_owned)
                        .unwrap_or_else(|| error.kind().to_string());
                    let at = text.at(error.range().map_or(0, |range| range.start));
                    reader.problem(
                        at,
                        format!("bad template: {detail}"),
                        "templates look like `{{ result.id }}`",
                    );
                    None
                }
            }
        }
        DeValue::Array(items) => {
            let items: Vec<Option<Plan>> = items.iter().map(|item| plan(reader, item)).collect();
            items.into_iter().collect::<Option<_>>().map(Plan::List)
        }
        DeValue::Table(table) => {
            let fields = table
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), plan(reader, value)?)));
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
) -> Result<(), UndoProblem> {
    let fault = |reason: String| UndoProblem::Unmakable {
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

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
