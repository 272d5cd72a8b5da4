//! A question about a call's arguments, written in CEL.
//!
//! Enters: an expression at load, arguments at each call. Leaves: true, false, or why it cannot be told, which the
//! policy takes as "ask a person".
//! Deliberately absent: CEL's types. Nothing outside this file knows which evaluator is used.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value};

use crate::display::clip;
use crate::json::{Node, Number, Tree};
use crate::provenance::Counts;

mod survey;

const MAX_BYTES: usize = 4 * 1024;
/// The evaluator has no cost limit, so this bounds turns of the innermost loop: about 30 ms, 160 ms with patterns.
const MAX_TURNS: usize = 100_000;

/// The variable that counts where values came from.
const ORIGINS: &str = "provenance";

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled condition.
#[derive(Debug)]
pub(super) struct Condition {
    source: String,
    program: Program,
    /// How deep its loops nest.
    loops: usize,
    /// Whether it asks where values came from.
    asks_origin: bool,
}

/// What conditions are told of where a call's values came from.
#[derive(Debug)]
pub(super) enum Origins {
    /// Nothing.
    Unknown,
    /// What follows from a conversation as the proposer tells it.
    Supplied(Counts),
    /// What follows from a conversation that the gate heard itself.
    Heard(Counts),
}

/// Why an expression cannot be a condition: where in it, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadCondition {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Condition {
    pub(super) fn compile(source: &str) -> Result<Condition, BadCondition> {
        if source.len() > MAX_BYTES {
            let message = format!("condition is longer than {MAX_BYTES} bytes");
            let hint = "decide in the tool, or hold every call".to_owned();
            return Err(BadCondition {
                offset: 0,
                message,
                hint,
            });
        }
        let program = ENVIRONMENT.compile(source).map_err(|errors| {
            let (position, message) = match errors.errors.first() {
                Some(error) => (error.pos, error.msg.clone()),
                None => ((1, 1), "not an expression".to_owned()),
            };
            BadCondition {
                offset: offset_of(source, position),
                message: format!("bad condition: {}", message.to_lowercase()),
                hint: "conditions are CEL, as in `args.amount >= 100.0`".to_owned(),
            }
        })?;
        let loops = survey::survey(&program)?;
        Ok(Condition {
            source: source.to_owned(),
            asks_origin: program.references().has_variable(ORIGINS),
            program,
            loops,
        })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Answers for these arguments and the counts of where they came from, or says why it cannot.
    pub(super) fn holds_for(&self, arguments: &Tree<'_>, origins: &Origins) -> Result<bool, String> {
        // INVARIANT: unknown is not fine. Who asks about origins gets no answer where nobody heard the person.
        match origins {
            _ if !self.asks_origin => self.answer(arguments, None),
            Origins::Unknown => Err(
                "no conversation with the person was given, so where the values came from is unknown"
                    .to_owned(),
            ),
            Origins::Heard(counts) => self.answer(arguments, Some(counts)),
            // INVARIANT: what the agent says may tighten, never loosen. Every condition tightens when it is true, and
            // when it fails, so of the answers with and without this conversation the stricter one counts.
            Origins::Supplied(counts) => match self.answer(arguments, Some(counts)) {
                Ok(true) => Ok(true),
                _ => Err(
                    "the agent itself supplied the conversation, so where the values came from is unknown"
                        .to_owned(),
                ),
            },
        }
    }

    fn answer(&self, arguments: &Tree<'_>, origins: Option<&Counts>) -> Result<bool, String> {
        let turns = u32::try_from(self.loops)
            .ok()
            .and_then(|loops| arguments.count().checked_pow(loops));
        if turns.is_none_or(|turns| turns > MAX_TURNS) {
            return Err("the arguments are too large for its loops".to_owned());
        }
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.add_variable_from_value("args", to_cel(arguments)?);
        if let Some(origins) = origins {
            context.add_variable_from_value(ORIGINS, counts_to_cel(origins));
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(_) => Err("its result is neither true nor false".to_owned()),
            Err(ExecutionError::NoSuchKey(key)) => Err(format!("there is no `{}`", clip(&key, 60))),
            // Other errors can quote the arguments, and a secret with them.
            Err(ExecutionError::NoSuchOverload { .. }) => {
                Err("an argument has an unexpected type".to_owned())
            }
            Err(_) => Err("it cannot be evaluated".to_owned()),
        }
    }
}

/// Turns CEL's line and column, both from 1, into an offset.
fn offset_of(source: &str, (line, column): (isize, isize)) -> usize {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = source.get(before..).unwrap_or_default();
    let column = usize::try_from(column - 1).unwrap_or(0);
    before + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

fn counts_to_cel(counts: &Counts) -> Value {
    let fields = [
        ("invented", counts.invented),
        ("tool", counts.tool),
        ("outside", counts.outside),
        ("user", counts.user),
        ("derived", counts.derived),
        ("default", counts.default),
        ("unknown", counts.unknown),
        ("total", counts.total()),
    ];
    let entries = fields.map(|(name, count)| {
        let key = Key::String(Arc::new(name.to_owned()));
        (key, Value::Int(count.into()))
    });
    let map = Arc::new(HashMap::from(entries));
    Value::Map(Map { map })
}

/// Integers are converted here: left to serde they become unsigned, and `args.amount * 2` an error.
fn to_cel(tree: &Tree<'_>) -> Result<Value, String> {
    Ok(match &tree.node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Number => match Number::read(&tree.raw) {
            Number::Int(number) => Value::Int(number),
            Number::UInt(number) => Value::UInt(number),
            Number::Float { value, .. } if value.is_finite() => Value::Float(value),
            Number::Float { .. } => return Err("a number is too large".to_owned()),
        },
        Node::String(text) => Value::String(Arc::new(text.to_string())),
        Node::Array(items) => {
            let items: Result<Vec<Value>, String> = items.iter().map(to_cel).collect();
            Value::List(Arc::new(items?))
        }
        Node::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (key, value) in fields {
                map.insert(Key::String(Arc::new(key.to_string())), to_cel(value)?);
            }
            Value::Map(Map { map: Arc::new(map) })
        }
    })
}

#[cfg(test)]
mod tests;
