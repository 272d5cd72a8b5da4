//! Compiles and evaluates conditions. Only this module depends on the CEL library.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value};

use super::super::{argument_paths, feature};
use super::{BadCondition, Origins};
use crate::display::clip;
use crate::json::{Node, Number, Tree};
use crate::provenance::Counts;
use crate::working_folder::WorkingFolder;

mod survey;

const MAX_BYTES: usize = 4 * 1024;
/// Maximum number of iterations of the innermost loop. Needed because the evaluator itself has no cost limit; this many
/// iterations take about 30 ms, or 160 ms with patterns.
const MAX_TURNS: usize = 100_000;

/// CEL variable that holds the number of values of each origin.
const ORIGINS: &str = "provenance";
/// CEL variable that holds, for each argument, the file paths that its texts may refer to.
const PATHS: &str = "paths";

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[derive(Debug)]
pub(in crate::policy) struct Condition {
    source: String,
    program: Program,
    /// Nesting depth of the loops in the condition.
    loops: usize,
    /// True if the condition uses the `provenance` variable.
    asks_origin: bool,
    /// True if the condition uses the `paths` variable.
    asks_paths: bool,
}

impl Condition {
    pub(in crate::policy) fn compile(source: &str) -> Result<Condition, BadCondition> {
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
        let asks_origin = program.references().has_variable(ORIGINS);
        let missing = feature::PROVENANCE.missing_for("`provenance`");
        if let Some((message, hint)) = missing.filter(|_| asks_origin) {
            let offset = source.find(ORIGINS).unwrap_or(0);
            return Err(BadCondition {
                offset,
                message,
                hint,
            });
        }
        Ok(Condition {
            source: source.to_owned(),
            asks_origin,
            asks_paths: program.references().has_variable(PATHS),
            program,
            loops,
        })
    }

    pub(in crate::policy) fn source(&self) -> &str {
        &self.source
    }

    /// Returns true if the condition's result may depend on the working folder and on links.
    pub(in crate::policy) fn asks_paths(&self) -> bool {
        self.asks_paths
    }

    /// Evaluates the condition for these arguments, in this working folder. The error is the reason why the evaluation
    /// failed.
    pub(in crate::policy) fn holds_for(
        &self,
        arguments: &Tree<'_>,
        origins: &Origins,
        folder: Option<&WorkingFolder>,
    ) -> Result<bool, String> {
        let written = self.holds_at(arguments, origins, None);
        // INVARIANT: what the host reports about folder and links may tighten a ruling, never loosen it. A condition
        // tightens when it is true and when it fails.
        match (written, folder.filter(|_| self.asks_paths)) {
            (Ok(false), Some(folder)) => self.holds_at(arguments, origins, Some(folder)),
            (Err(problem), Some(folder)) => match self.holds_at(arguments, origins, Some(folder)) {
                Ok(true) => Ok(true),
                _ => Err(problem),
            },
            (written, _) => written,
        }
    }

    fn holds_at(
        &self,
        arguments: &Tree<'_>,
        origins: &Origins,
        folder: Option<&WorkingFolder>,
    ) -> Result<bool, String> {
        // INVARIANT: a condition on origins is never evaluated when the person's messages are missing; it fails
        // instead.
        match origins {
            _ if !self.asks_origin => self.answer(arguments, None, folder),
            Origins::Unknown => Err(
                "no conversation with the person was given, so where the values came from is unknown"
                    .to_owned(),
            ),
            Origins::Heard(counts) => self.answer(arguments, Some(counts), folder),
            // INVARIANT: a conversation supplied by the agent may tighten a ruling, never loosen it. A condition
            // tightens when it is true and when it fails, so only `true` is accepted here; anything else counts as a
            // failure.
            Origins::Supplied(counts) => match self.answer(arguments, Some(counts), folder) {
                Ok(true) => Ok(true),
                _ => Err(
                    "the agent itself supplied the conversation, so where the values came from is unknown"
                        .to_owned(),
                ),
            },
        }
    }

    fn answer(
        &self,
        arguments: &Tree<'_>,
        origins: Option<&Counts>,
        folder: Option<&WorkingFolder>,
    ) -> Result<bool, String> {
        let paths = match self.asks_paths {
            true => argument_paths::read(arguments, folder)?,
            false => Vec::new(),
        };
        let count = arguments.count() + paths.iter().map(|(_, paths)| paths.len()).sum::<usize>();
        let turns = u32::try_from(self.loops)
            .ok()
            .and_then(|loops| count.checked_pow(loops));
        if turns.is_none_or(|turns| turns > MAX_TURNS) {
            return Err("the arguments are too large for its loops".to_owned());
        }
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.add_variable_from_value("args", to_cel(arguments)?);
        if let Some(origins) = origins {
            context.add_variable_from_value(ORIGINS, counts_to_cel(origins));
        }
        if self.asks_paths {
            context.add_variable_from_value(PATHS, paths_to_cel(paths));
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(_) => Err("its result is neither true nor false".to_owned()),
            Err(ExecutionError::NoSuchKey(key)) => Err(format!("there is no `{}`", clip(&key, 60))),
            // The error text is not passed on: it can quote arguments, including secrets.
            Err(ExecutionError::NoSuchOverload { .. }) => {
                Err("an argument has an unexpected type".to_owned())
            }
            Err(_) => Err("it cannot be evaluated".to_owned()),
        }
    }
}

/// Converts CEL's 1-based line and column to a byte offset.
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

fn paths_to_cel(paths: Vec<(&str, Vec<String>)>) -> Value {
    let text = |text: String| Value::String(Arc::new(text));
    let entries = paths.into_iter().map(|(name, paths)| {
        let paths = paths.into_iter().map(text).collect();
        (
            Key::String(Arc::new(name.to_owned())),
            Value::List(Arc::new(paths)),
        )
    });
    let map = Arc::new(entries.collect());
    Value::Map(Map { map })
}

/// Converts arguments to CEL values. serde is not used for this, because it makes integers unsigned, so that
/// `args.amount * 2` would fail.
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
