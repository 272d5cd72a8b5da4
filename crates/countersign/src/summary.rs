//! The sentence a person can verify, made by the gate from the stored bytes.
//!
//! Enters: the operator's template and a call's arguments. Leaves: one sentence, or a table with a row per value,
//! both safe to show: every character from the arguments has been through [`escape`], secrets
//! are replaced before any template sees them, and nothing is cut without saying so.
//! Deliberately absent: the model's own words, and quoting for HTML or chat markup.

use std::collections::HashMap;
use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, UndefinedBehavior, Value};

use crate::display::{clip, clip_to, escape};
use crate::json::{Node, Number, Top, Tree};

mod said;
mod secret;
mod table;

pub use secret::{BadSecretPath, SecretPath};
pub use table::{Row, table};

pub(crate) use said::{Prints, Said};
pub(crate) use secret::{hide, hide_values, is_secret, marked, secret_values};
pub(crate) use table::rows;

/// Longest summary, in characters.
const MAX_CHARS: usize = 2_000;
/// Longest value within a summary: one of them must not push the others out of sight.
const MAX_VALUE_CHARS: usize = 300;
/// Most items of one list, and most values of a generic summary.
const MAX_ITEMS: usize = 20;
/// Steps a template may take.
const FUEL: u64 = 50_000;

/// All summary templates of a policy, by tool.
#[derive(Debug)]
pub(crate) struct Summaries {
    environment: Environment<'static>,
    /// What each tool's template is certain to print.
    prints: HashMap<String, Prints>,
}

impl Summaries {
    pub(crate) fn new() -> Summaries {
        let mut environment = Environment::new();
        // A missing name is false in a condition, and a mistake when it should be shown.
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

    /// Adds a tool's template, or says what is wrong with it.
    pub(crate) fn add(&mut self, tool: &str, template: &str) -> Result<(), Error> {
        self.prints.insert(tool.to_owned(), Prints::read(template));
        self.environment
            .add_template_owned(tool.to_owned(), template.to_owned())
    }

    /// Renders a tool's template over arguments, and over what they would change where that was read. Secrets are
    /// hidden in both already. Or says why it cannot.
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
        // A number that would change on the way counts as missing: better no sentence than a wrong one.
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
    /// Returns the values that a tool's template says of these arguments, whose secrets are hidden already.
    pub(crate) fn said(&self, tool: &str, arguments: &Tree<'_>) -> Said {
        let prints = self.prints.get(tool);
        prints.map_or_else(Said::nothing, |prints| prints.said(arguments))
    }
}

/// Returns true if a summary says that something is missing from it. A value may say so too: then it is listed.
pub(crate) fn is_cut(summary: &str) -> bool {
    summary.contains("bytes not shown]") || summary.contains("… and ")
}

/// Why rendering failed, without quoting values.
pub(crate) fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::UndefinedError => "a value it names is missing".to_owned(),
        ErrorKind::OutOfFuel => "it takes too long".to_owned(),
        kind => kind.to_string(),
    }
}

/// The sentence for a call without a template, or with one that failed: every value under its name.
pub fn generic(tool: &str, arguments: &[u8], secrets: &[SecretPath], salt: &[u8]) -> String {
    match Tree::read(arguments, Top::Object) {
        Ok(tree) => generic_tree(tool, &hide(tree, secrets, salt)),
        // INVARIANT: what cannot be read is said to be unreadable, never shown as harmless.
        Err(_) => format!("{}: arguments that cannot be read", clip(tool, 128)),
    }
}

/// As [`generic`], for arguments whose secrets are hidden already.
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

/// Dotted names with their values, until there are enough. Every proposal goes through here: one text for all of them.
struct Values {
    shown: String,
    path: String,
    count: usize,
}

impl Values {
    /// Adds what is below, and counts what is too much.
    fn list(&mut self, tree: &Tree<'_>) -> usize {
        if self.count >= MAX_ITEMS {
            return count_values(tree);
        }
        match &tree.node {
            Node::Object(fields) if !fields.is_empty() => {
                let below = fields.iter().map(|(key, value)| self.below(key, value));
                below.sum()
            }
            Node::Array(items) if !items.is_empty() => {
                let numbered = items.iter().enumerate();
                let below = numbered.map(|(at, item)| self.below(&at.to_string(), item));
                below.sum()
            }
            Node::Object(_) | Node::Array(_) => self.add("(empty)"),
            Node::String(text) if text.is_empty() => self.add("(empty)"),
            _ => self.add(tree.text()),
        }
    }

    fn below(&mut self, part: &str, tree: &Tree<'_>) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(part);
        if self.path.is_empty() {
            self.path.push_str("(no name)");
        }
        let unnamed = self.list(tree);
        self.path.truncate(length);
        unnamed
    }

    fn add(&mut self, value: &str) -> usize {
        if self.count > 0 {
            self.shown.push_str(", ");
        }
        self.count += 1;
        clip_to(&mut self.shown, &self.path, 60);
        self.shown.push(' ');
        clip_to(&mut self.shown, value, 100);
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

/// Arguments as template values. `None` for a number that no longer prints as it was written, unless `instead` has
/// something to offer.
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
        // As JSON writes them, not as Python does.
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

/// Shortens text that is escaped already, and says by how much.
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
    // Escaping the tail alone would double its escapes; only a mark without a base has to go.
    let tail: String = text.chars().skip(total - tail_chars).collect();
    let tail = tail.trim_start_matches(|c: char| !c.is_ascii() && !c.is_alphanumeric());
    let hidden = text.len() - head.len() - tail.len();
    format!("{head}… [{hidden} of {} bytes not shown] …{tail}", text.len())
}

#[cfg(test)]
mod tests;
