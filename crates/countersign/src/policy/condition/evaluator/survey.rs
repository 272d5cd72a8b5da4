//! Static checks of a condition at load time: unknown names, deeply nested loops, bad patterns.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, operators};
use cel::{Context, Program};

use super::super::super::problem::nearest;
use super::super::BadCondition;
use super::ENVIRONMENT;

/// Variables that a condition may use.
const VARIABLES: [&str; 3] = ["args", super::ORIGINS, super::PATHS];
/// Type names that CEL defines.
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
/// Macros, listed only to suggest corrections of misspelled names: they are expanded before names are checked.
const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];

const MAX_LOOPS: usize = 2;

/// Returns the nesting depth of loops, or the first fault found.
pub(super) fn survey(program: &Program) -> Result<usize, BadCondition> {
    let mut survey = Survey {
        program,
        scope: Vec::new(),
        loops: 0,
    };
    survey.visit(program.expression())
}

/// Visitor that finds unknown names and loops nested too deeply. The parser limits nesting, so recursion is safe.
struct Survey<'p> {
    program: &'p Program,
    scope: Vec<&'p str>,
    /// Number of loops around the current expression.
    loops: usize,
}

impl<'p> Survey<'p> {
    /// Returns the nesting depth of loops within `expression`.
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
                let inside = self.visit_all(call.target.as_deref().into_iter().chain(&call.args))?;
                // `in` on a list from the arguments, inside a loop, costs as much as another nested loop.
                let is_search = call.func_name == operators::IN && self.loops > 0;
                let is_literal = call
                    .args
                    .last()
                    .is_some_and(|list| matches!(list.expr, Expr::List(_)));
                Ok(inside.max(usize::from(is_search && !is_literal)))
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

    /// Checks a regular expression by running it once. The pattern must be a literal: an agent must not choose which
    /// pattern is compiled.
    fn pattern(&self, pattern: &IdedExpr) -> Result<(), BadCondition> {
        let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
            let message = "`matches` needs a literal pattern".to_owned();
            return Err(self.fault(pattern, message, "write the regular expression itself, in quotes"));
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
