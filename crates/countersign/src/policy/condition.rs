//! A question about a call's arguments, written in CEL.
//!
//! Enters: an expression at load, arguments at each call. Leaves: true, false, or why it cannot be told, which the
//! policy takes as "ask a person".
//! Deliberately absent: CEL's types. Nothing outside this file knows which evaluator is used.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value};

use super::problem::nearest;
use crate::display::clip;
use crate::json::{Node, Number, Tree};

/// What a condition may look at.
const VARIABLES: [&str; 1] = ["args"];
/// Types that CEL lets one name.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "optional",
    "string",
    "type",
    "uint",
];
const FUNCTIONS: [&str; 19] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "hasValue",
    "int",
    "matches",
    "none",
    "of",
    "ofNonZeroValue",
    "or",
    "orValue",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];
/// Macros are gone when names are checked, so these serve only as suggestions.
const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];

const MAX_BYTES: usize = 4 * 1024;
const MAX_LOOPS: usize = 2;
/// The evaluator has no cost limit, so this bounds turns of the innermost loop: about 70 ms.
const MAX_TURNS: usize = 100_000;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled condition.
#[derive(Debug)]
pub(super) struct Condition {
    source: String,
    program: Program,
    /// How deep its loops nest.
    loops: usize,
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
        let mut survey = Survey {
            program: &program,
            scope: Vec::new(),
            loops: 0,
        };
        let loops = survey.visit(program.expression())?;
        Ok(Condition {
            source: source.to_owned(),
            program,
            loops,
        })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Answers for these arguments, or says why it cannot.
    pub(super) fn holds_for(&self, arguments: &Tree<'_>) -> Result<bool, String> {
        let turns = u32::try_from(self.loops)
            .ok()
            .and_then(|loops| arguments.count().checked_pow(loops));
        if turns.is_none_or(|turns| turns > MAX_TURNS) {
            return Err("the arguments are too large for its loops".to_owned());
        }
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.add_variable_from_value("args", to_cel(arguments)?);
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

/// Looks for names that do not exist and for loops that nest too deep. The parser limits nesting, so recursion is
/// safe.
struct Survey<'p> {
    program: &'p Program,
    scope: Vec<&'p str>,
    /// Loops around the current place.
    loops: usize,
}

impl<'p> Survey<'p> {
    /// Returns how deep loops nest below `expression`.
    fn visit(&mut self, expression: &'p IdedExpr) -> Result<usize, BadCondition> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(0),
            Expr::Ident(name) => self.name(expression, name).map(|()| 0),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::List(list) => self.visit_all(list.elements.iter()),
            Expr::Map(map) => self.visit_entries(&map.entries),
            Expr::Struct(value) => self.visit_entries(&value.entries),
            Expr::Call(call) => {
                self.function(expression, &call.func_name)?;
                if call.func_name == "matches" {
                    call.args.iter().try_for_each(|pattern| self.pattern(pattern))?;
                }
                self.visit_all(call.target.as_deref().into_iter().chain(&call.args))
            }
            Expr::Comprehension(comprehension) => {
                let outside = self.visit_all([&comprehension.iter_range, &comprehension.accu_init])?;
                self.loops += 1;
                if self.loops > MAX_LOOPS {
                    let message = format!("loops nest deeper than {MAX_LOOPS}");
                    return Err(self.fault(expression, message, "simplify it, or hold every call"));
                }
                let before = self.scope.len();
                self.scope.push(&comprehension.iter_var);
                self.scope.extend(comprehension.iter_var2.as_deref());
                self.scope.push(&comprehension.accu_var);
                let parts = [
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                let inside = self.visit_all(parts)?;
                self.scope.truncate(before);
                self.loops -= 1;
                Ok(outside.max(inside + 1))
            }
        }
    }

    fn visit_all(&mut self, parts: impl IntoIterator<Item = &'p IdedExpr>) -> Result<usize, BadCondition> {
        parts
            .into_iter()
            .try_fold(0, |deepest, part| Ok(self.visit(part)?.max(deepest)))
    }

    fn visit_entries(&mut self, entries: &'p [IdedEntryExpr]) -> Result<usize, BadCondition> {
        entries.iter().try_fold(0, |deepest: usize, entry| {
            let inside = match &entry.expr {
                EntryExpr::StructField(field) => self.visit(&field.value)?,
                EntryExpr::MapEntry(entry) => self.visit_all([&entry.key, &entry.value])?,
            };
            Ok(deepest.max(inside))
        })
    }

    fn name(&self, place: &IdedExpr, name: &str) -> Result<(), BadCondition> {
        if VARIABLES.contains(&name) || TYPES.contains(&name) || self.scope.contains(&name) {
            return Ok(());
        }
        let hint = format!("arguments are written as `args.{name}`");
        Err(self.fault(place, format!("unknown name `{name}` in condition"), hint))
    }

    fn function(&self, place: &IdedExpr, name: &str) -> Result<(), BadCondition> {
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_operator || FUNCTIONS.contains(&name) {
            return Ok(());
        }
        let hint = match nearest(name, FUNCTIONS.into_iter().chain(MACROS)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are {} and {}", FUNCTIONS.join(", "), MACROS.join(", ")),
        };
        Err(self.fault(place, format!("unknown function `{name}` in condition"), hint))
    }

    /// Has the evaluator try a literal regular expression once, so that a bad one is found now.
    fn pattern(&self, pattern: &IdedExpr) -> Result<(), BadCondition> {
        let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
            return Ok(());
        };
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.add_variable_from_value("pattern", text.inner().to_owned());
        let works = ENVIRONMENT
            .compile("''.matches(pattern)")
            .is_ok_and(|trial| trial.execute(&context).is_ok());
        match works {
            true => Ok(()),
            false => Err(self.fault(
                pattern,
                format!("bad regular expression `{}`", text.inner()),
                "no look-around or back-references; double each backslash",
            )),
        }
    }

    fn fault(&self, place: &IdedExpr, message: String, hint: impl Into<String>) -> BadCondition {
        let offset = self.program.source_info().offset_for(place.id);
        BadCondition {
            offset: offset.map_or(0, |(start, _)| start as usize),
            message,
            hint: hint.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Top;

    #[track_caller]
    fn check(source: &str, arguments: &str, expected: Result<bool, &str>) {
        let tree = Tree::read(arguments.as_bytes(), Top::Object).unwrap();
        let answer = Condition::compile(source).unwrap().holds_for(&tree);
        assert_eq!(
            answer,
            expected.map_err(str::to_owned),
            "{source} for {arguments}"
        );
    }

    #[test]
    fn answers_about_arguments() {
        check("args.amount >= 100.0", r#"{"amount":100}"#, Ok(true));
        check("args.amount >= 100.0", r#"{"amount":99.99}"#, Ok(false));
        check("args.amount * 2 == 10", r#"{"amount":5}"#, Ok(true));
        check(
            "args.id == 9007199254740993",
            r#"{"id":9007199254740992}"#,
            Ok(false),
        );
        check(
            "args.id == 18446744073709551615u",
            r#"{"id":18446744073709551615}"#,
            Ok(true),
        );
        check(
            "has(args.cc) && args.cc.exists(x, !x.endsWith('@us.example'))",
            r#"{"cc":["a@b"]}"#,
            Ok(true),
        );
        check("has(args.cc)", "{}", Ok(false));
        check(
            "args.to.matches('^[a-z]+@us[.]example$')",
            r#"{"to":"ann@us.example"}"#,
            Ok(true),
        );
        check("type(args.a) == string", r#"{"a":"x"}"#, Ok(true));
        check(
            "args.a in ['x', 'y'] && args.b == null",
            r#"{"a":"y","b":null}"#,
            Ok(true),
        );
    }

    #[test]
    fn x21_what_cannot_be_told_is_an_error() {
        check("args.amount > 1", "{}", Err("there is no `amount`"));
        check(
            "args.amount > 1",
            r#"{"amount":"secret"}"#,
            Err("an argument has an unexpected type"),
        );
        check(
            "args.amount",
            r#"{"amount":1}"#,
            Err("its result is neither true nor false"),
        );
        check(
            "args.amount > 1",
            r#"{"amount":1e400}"#,
            Err("a number is too large"),
        );
        check(
            "args.a / args.b > 1",
            r#"{"a":1,"b":0}"#,
            Err("it cannot be evaluated"),
        );
        let many = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(2_000));
        let source = "args.a.exists(x, args.a.exists(y, x + y == 1))";
        check(source, &many, Err("the arguments are too large for its loops"));
        check("args.a.exists(x, x == 0)", &many, Ok(true));
    }

    #[track_caller]
    fn refuses(source: &str, offset: usize, message: &str) {
        let fault = Condition::compile(source).unwrap_err();
        assert_eq!(
            (fault.offset, fault.message.as_str()),
            (offset, message),
            "{source}"
        );
    }

    #[test]
    fn mistakes_are_found_at_load() {
        refuses("amount > 1", 0, "unknown name `amount` in condition");
        refuses("args.a > 1 || arg.b", 14, "unknown name `arg` in condition");
        refuses("args.a.exists(x, y > 1)", 17, "unknown name `y` in condition");
        refuses(
            "args.a.exists(x, x > 1) && x > 1",
            27,
            "unknown name `x` in condition",
        );
        assert!(
            Condition::compile("sise(args.a) > 1")
                .unwrap_err()
                .hint
                .contains("`size`")
        );
        assert!(
            Condition::compile("args.a.matches('(')")
                .unwrap_err()
                .message
                .contains("regular expression")
        );
        assert!(Condition::compile("args.a >").is_err());
        assert!(Condition::compile("").is_err());
        assert!(Condition::compile(&format!("args.a == '{}'", "x".repeat(5_000))).is_err());
        let three = "args.a.all(x, args.b.all(y, args.c.all(z, x + y + z > 0)))";
        assert!(Condition::compile(three).unwrap_err().message.contains("nest"));
        assert_eq!(
            Condition::compile("args.a.all(x, args.b.all(y, x > y))")
                .unwrap()
                .loops,
            2
        );
        assert_eq!(
            Condition::compile("args.a.all(x, x > 0) && args.b.all(y, y > 0)")
                .unwrap()
                .loops,
            1
        );
    }
}
