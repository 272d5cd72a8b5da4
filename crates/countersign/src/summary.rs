//! The summary of a call: a sentence that a person can verify, made by the gate from the stored bytes.
//!
//! A call's arguments are rendered with the operator's template as one sentence, or listed in a table with a row per
//! value. Both are safe to show: every character from the arguments has been through [`escape`], secrets are replaced
//! before any template sees them, and a value that is clipped says so. The model's own words are never used. Quoting
//! for HTML or chat markup is left to the surfaces.

use std::collections::HashMap;
use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, UndefinedBehavior, Value};

use crate::display::{clip, escape, push_value, shown_name};
use crate::json::{Node, Number, TopLevel, Tree};

mod coverage;
mod secret;
mod table;

pub use secret::{BadSecretPath, SecretPath};
pub use table::{Row, table};

pub(crate) use coverage::{ShownValues, TemplateOutput};
pub(crate) use secret::{Secrets, UNSHOWN, hide, hide_values, is_secret, mark_each, marked, secret_values};
pub(crate) use table::rows;

/// Longest summary, in characters.
const MAX_CHARS: usize = 2_000;
/// Longest value in a summary, in characters: a long one must not push the others out of sight.
const MAX_VALUE_CHARS: usize = 300;
/// Longest name of a value in a generic summary, in characters.
const MAX_PATH_CHARS: usize = 60;
/// Longest value in a generic summary, in characters.
const MAX_LISTED_CHARS: usize = 100;
/// Maximum number of items of one list, and of values in a generic summary.
const MAX_ITEMS: usize = 20;
/// Limit on the number of template instructions (minijinja's fuel).
const FUEL: u64 = 50_000;

/// All summary templates of a policy, by tool.
#[derive(Debug)]
pub(crate) struct Summaries {
    environment: Environment<'static>,
    /// The values that each tool's template is certain to print.
    prints: HashMap<String, TemplateOutput>,
}

impl Summaries {
    pub(crate) fn new() -> Summaries {
        let mut environment = Environment::new();
        // An undefined name is false in a condition, but an error when printed.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_fuel(Some(FUEL));
        environment.set_debug(false);
        // INVARIANT: this formatter is the only way from an argument into a summary.
        environment.set_formatter(|out, _, value| show(out, value));
        Summaries {
            environment,
            prints: HashMap::new(),
        }
    }

    /// Adds a tool's template. Fails if the template does not compile.
    pub(crate) fn add(&mut self, tool: &str, template: &str) -> Result<(), Error> {
        self.prints
            .insert(tool.to_owned(), TemplateOutput::read(template));
        self.environment
            .add_template_owned(tool.to_owned(), template.to_owned())
    }

    /// Renders a tool's template over the arguments and the snapshot, if there is one. Secrets must be hidden in both
    /// already. The error is the reason why the template cannot be rendered.
    pub(crate) fn render(
        &self,
        tool: &str,
        arguments: &Tree<'_>,
        before: Option<&Tree<'_>>,
    ) -> Result<String, String> {
        let values =
            to_value(arguments, &|_| None).ok_or("a number has more digits than a template can keep")?;
        let fields = match &arguments.node {
            Node::Object(fields) => fields.as_slice(),
            _ => &[],
        };
        let named = fields
            .iter()
            .map(|(key, _)| (key.to_string(), values.get_attr(key).unwrap_or_default()));
        let everything = [("args".to_owned(), values.clone())];
        // A number that would not print as written counts as missing: it is better to show no sentence than a wrong
        // one.
        let before = before.and_then(|tree| to_value(tree, &|_| Some(Value::UNDEFINED)));
        let before = before.map(|value| ("before".to_owned(), value));
        let context = Value::from_pairs(named.chain(everything).chain(before));
        let template = self.environment.get_template(tool).map_err(|_| "there is none")?;
        let text = template.render(context).map_err(|error| reason(&error))?;
        match text.trim() {
            "" => Err("it comes out empty".to_owned()),
            text => Ok(cut(text.to_owned(), MAX_CHARS)),
        }
    }
}

impl Summaries {
    /// Returns the values that a tool's template prints for these arguments, in which secrets must be hidden already.
    pub(crate) fn shown_values(&self, tool: &str, arguments: &Tree<'_>) -> ShownValues {
        let prints = self.prints.get(tool);
        prints.map_or_else(ShownValues::nothing, |prints| prints.shown_values(arguments))
    }
}

/// Returns true if a summary says that something is left out. A value can contain the same words; then all values are
/// listed below the summary, which does no harm.
pub(crate) fn is_cut(summary: &str) -> bool {
    summary.contains("bytes not shown]") || summary.contains("… and ")
}

/// Returns the reason why rendering failed, without quoting values.
pub(crate) fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::UndefinedError => "a value it names is missing".to_owned(),
        ErrorKind::OutOfFuel => "it takes too long".to_owned(),
        kind => kind.to_string(),
    }
}

/// Returns the summary of a call whose template is missing or failed: every value with its name.
pub fn generic(tool: &str, arguments: &[u8], secrets: &[SecretPath], salt: &[u8]) -> String {
    match Tree::read(arguments, TopLevel::Object) {
        Ok(tree) => generic_tree(tool, &hide(tree, secrets, salt)),
        // INVARIANT: unreadable arguments are described as unreadable, never shown as harmless.
        Err(_) => format!("{}: arguments that cannot be read", clip(tool, 128)),
    }
}

/// Like [`generic`], for arguments in which secrets are hidden already.
pub(crate) fn generic_tree(tool: &str, arguments: &Tree<'_>) -> String {
    let tool = clip(tool, 128);
    if arguments.node == Node::Object(Vec::new()) {
        return format!("{tool} without arguments");
    }
    let mut values = Values {
        shown: format!("{tool}: "),
        path: String::new(),
        count: 0,
    };
    let unnamed = values.list(arguments);
    if unnamed > 0 {
        let _ = write!(values.shown, ", … and {unnamed} more values");
    }
    cut(values.shown, MAX_CHARS)
}

/// Lists dotted names with their values, up to a limit. Appends to one string to save allocations, because this runs
/// for every proposal.
struct Values {
    shown: String,
    /// Dotted name of the current value, already escaped.
    path: String,
    count: usize,
}

impl Values {
    /// Adds the values of `tree` and returns how many were left out.
    fn list(&mut self, tree: &Tree<'_>) -> usize {
        if self.count >= MAX_ITEMS {
            return count_values(tree);
        }
        match &tree.node {
            Node::Object(fields) if !fields.is_empty() => {
                let below = fields
                    .iter()
                    .map(|(key, value)| self.below(&shown_name(key), value));
                below.sum()
            }
            Node::Array(items) if !items.is_empty() => {
                let numbered = items.iter().enumerate();
                let below = numbered.map(|(at, item)| self.below(&at.to_string(), item));
                below.sum()
            }
            _ => self.add(tree),
        }
    }

    fn below(&mut self, part: &str, tree: &Tree<'_>) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(part);
        let unnamed = self.list(tree);
        self.path.truncate(length);
        unnamed
    }

    fn add(&mut self, tree: &Tree<'_>) -> usize {
        if self.count > 0 {
            self.shown.push_str(", ");
        }
        self.count += 1;
        match self.path.len() <= MAX_PATH_CHARS {
            true => self.shown.push_str(&self.path),
            false => self.shown.push_str(&cut(self.path.clone(), MAX_PATH_CHARS)),
        }
        self.shown.push(' ');
        push_value(&mut self.shown, tree.kind(), tree.text(), MAX_LISTED_CHARS);
        0
    }
}

fn count_values(tree: &Tree<'_>) -> usize {
    match &tree.node {
        Node::Object(fields) if !fields.is_empty() => {
            fields.iter().map(|(_, value)| count_values(value)).sum()
        }
        Node::Array(items) if !items.is_empty() => items.iter().map(count_values).sum(),
        _ => 1,
    }
}

/// Converts arguments to template values. A number that would not print as written is replaced with the result of
/// `instead`; if that is `None`, the whole conversion returns `None`.
pub(crate) fn to_value(tree: &Tree<'_>, instead: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    Some(match &tree.node {
        Node::Null => Value::from(()),
        Node::Bool(value) => Value::from(*value),
        Node::Number => match Number::read(&tree.raw) {
            Number::Int(number) => Value::from(number),
            Number::UInt(number) => Value::from(number),
            Number::Float {
                value,
                is_faithful: true,
            } => Value::from(value),
            Number::Float { .. } => match tree.raw.parse::<i128>() {
                Ok(number) => Value::from(number),
                Err(_) => instead(&tree.raw)?,
            },
        },
        Node::String(text) => Value::from(text.as_ref()),
        Node::Array(items) => {
            let items: Option<Vec<Value>> = items.iter().map(|item| to_value(item, instead)).collect();
            Value::from(items?)
        }
        Node::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(key, value)| Some((key.to_string(), to_value(value, instead)?)));
            Value::from_pairs(pairs.collect::<Option<Vec<_>>>()?)
        }
    })
}

/// Writes a value for a person: escaped, clipped, without brackets.
fn show(out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => {}
        // Spelled as in JSON, not as in Python.
        ValueKind::None => out.write_str("null")?,
        ValueKind::Bool => write!(out, "{}", value.is_true())?,
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            write!(out, "{}", clip(text, MAX_VALUE_CHARS))?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let total = value.len().unwrap_or(0);
            for (at, item) in value.try_iter()?.take(MAX_ITEMS).enumerate() {
                out.write_str(if at > 0 { ", " } else { "" })?;
                show(out, &item)?;
            }
            if total > MAX_ITEMS {
                write!(out, ", … and {} more", total - MAX_ITEMS)?;
            }
        }
        ValueKind::Map => {
            let total = value.len().unwrap_or(0);
            for (at, key) in value.try_iter()?.take(MAX_ITEMS).enumerate() {
                out.write_str(if at > 0 { ", " } else { "" })?;
                show(out, &key)?;
                out.write_str(" ")?;
                show(out, &value.get_item(&key)?)?;
            }
            if total > MAX_ITEMS {
                write!(out, ", … and {} more", total - MAX_ITEMS)?;
            }
        }
        _ => out.write_str(&escape(&value.to_string()))?,
    }
    Ok(())
}

/// Shortens text that is escaped already, and states by how much.
fn cut(text: String, max_chars: usize) -> String {
    if text.len() <= max_chars {
        return text;
    }
    let total = text.chars().count();
    if total <= max_chars {
        return text;
    }
    let tail_chars = max_chars / 3;
    let head: String = text.chars().take(max_chars - tail_chars).collect();
    // Escaping the tail again would double its escapes. Only a combining mark without a base is removed.
    let tail: String = text.chars().skip(total - tail_chars).collect();
    let tail = tail.trim_start_matches(|c: char| !c.is_ascii() && !c.is_alphanumeric());
    let hidden = text.len() - head.len() - tail.len();
    format!("{head}… [{hidden} of {} bytes not shown] …{tail}", text.len())
}

#[cfg(test)]
mod tests;
