//! A scripted model: a file of rules instead of a mind. It needs no key and always says the same.
//!
//! Enters: a file of `[[rule]]`s, read once, every template compiled. Leaves: what the first rule that fits says and
//! calls. A rule fits by who is asked, by what the person last asked for, and by which tool answered last.
//!
//! Templates are Jinja. They know the captures of the rule's pattern, `result` (what the tool of `after` answered),
//! `results` (all answers of it, in a batch), `latest` (the last answer of each tool since the person spoke), and
//! `item` in calls that are made for `each` of something.

mod facts;
mod pattern;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use minijinja::{Environment, UndefinedBehavior, Value, value::Serde};
use serde::Deserialize;

use super::{Model, ModelError, Part, Parts, Request, Stop, Usage};
use crate::message::ModelCall;
use facts::Facts;
use pattern::Pattern;

/// Steps a template may take.
const FUEL: u64 = 200_000;
/// The most calls one rule makes.
const MOST_CALLS: usize = 100;

/// A model that follows a file. Clones share it.
#[derive(Clone)]
pub struct Script(Arc<Rules>);

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({} rules)", self.0.rules.len())
    }
}

struct Rules {
    rules: Vec<Rule>,
    environment: Environment<'static>,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScript {
    /// It is not the TOML it should be.
    #[error("the script cannot be read: {0}")]
    Unreadable(String),
    /// A rule of it makes no sense.
    #[error("rule {0} of the script: {1}")]
    Rule(usize, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    /// Who is asked: a specialist, `orchestrator` or `evaluator`.
    role: Option<OneOrMany>,
    /// What the person last asked for; one of these.
    person: Option<OneOrMany>,
    /// The tool that answered last.
    after: Option<String>,
    /// How its call ended.
    status: Option<OneOrMany>,
    /// What must also be true.
    #[serde(rename = "if")]
    condition: Option<String>,
    /// What it says.
    say: Option<String>,
    /// What it calls.
    #[serde(default)]
    call: Vec<WrittenCall>,
    /// It fails instead, and says this: to see what others do about it.
    fail: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    tool: String,
    arguments: String,
    each: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn list(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

struct Rule {
    roles: Vec<String>,
    person: Vec<Pattern>,
    after: Option<String>,
    status: Vec<String>,
    condition: Option<String>,
    say: Option<String>,
    calls: Vec<Call>,
    fail: Option<String>,
}

struct Call {
    tool: String,
    arguments: String,
    each: Option<String>,
}

impl Script {
    /// Reads a script, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Script, BadScript> {
        let file: File = toml::from_str(text).map_err(|error| BadScript::Unreadable(error.to_string()))?;
        let environment = environment();
        let numbered = (1..).zip(file.rule);
        let rules = numbered.map(|(number, rule)| {
            Rule::new(rule, &environment).map_err(|problem| BadScript::Rule(number, problem))
        });
        Ok(Script(Arc::new(Rules {
            rules: rules.collect::<Result<_, _>>()?,
            environment,
        })))
    }

    fn parts(&self, request: &Request) -> Result<Vec<Part>, ModelError> {
        let facts = Facts::of(request);
        for (number, rule) in (1..).zip(&self.0.rules) {
            let bad = |problem: minijinja::Error| ModelError::BadRule(number, problem.to_string());
            let Some(captures) = rule.fits(&facts) else {
                continue;
            };
            let context = facts.context(captures);
            if let Some(condition) = &rule.condition {
                let expression = self.0.environment.compile_expression(condition).map_err(bad)?;
                if !expression.eval(context.clone()).map_err(bad)?.is_true() {
                    continue;
                }
            }
            return self
                .follow(rule, &context, request)
                .map_err(|problem| match problem {
                    Problem::Template(problem) => bad(problem),
                    Problem::Asked(problem) => ModelError::Failed(problem),
                });
        }
        Err(ModelError::NoRule)
    }

    fn follow(&self, rule: &Rule, context: &Value, request: &Request) -> Result<Vec<Part>, Problem> {
        let environment = &self.0.environment;
        let mut parts = Vec::new();
        if let Some(say) = &rule.say {
            let text = environment.render_str(say, context.clone())?;
            parts.extend(in_pieces(text.trim()));
        }
        if let Some(fail) = &rule.fail {
            return Err(Problem::Asked(fail.clone()));
        }
        let mut made = 0;
        for call in rule.calls.iter().filter(|_| request.may_call) {
            for item in call.items(environment, context)?.into_iter().take(MOST_CALLS) {
                let context = match item {
                    Some(item) => minijinja::context! { item, ..context.clone() },
                    None => context.clone(),
                };
                made += 1;
                parts.push(Part::Call(ModelCall {
                    id: format!("script_{}_{made}", request.messages.len()),
                    tool: call.tool.clone(),
                    arguments: environment.render_str(&call.arguments, context)?,
                }));
            }
        }
        parts.push(Part::Usage(Usage::default()));
        parts.push(Part::Stop(Stop::Done));
        Ok(parts)
    }
}

enum Problem {
    Template(minijinja::Error),
    Asked(String),
}

impl From<minijinja::Error> for Problem {
    fn from(error: minijinja::Error) -> Problem {
        Problem::Template(error)
    }
}

impl Model for Script {
    fn answer(&self, request: Request) -> Parts {
        match self.parts(&request) {
            Ok(parts) => stream::iter(parts.into_iter().map(Ok)).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn name(&self) -> String {
        "script".to_owned()
    }
}

impl Rule {
    fn new(written: WrittenRule, environment: &Environment<'_>) -> Result<Rule, String> {
        let template = |text: &str| {
            let compiled = environment.template_from_str(text).map(|_| ());
            compiled.map_err(|error| error.to_string())
        };
        let expression = |text: &str| {
            let compiled = environment.compile_expression(text).map(|_| ());
            compiled.map_err(|error| error.to_string())
        };
        if written.say.is_none() && written.call.is_empty() && written.fail.is_none() {
            return Err("it neither says nor calls anything".to_owned());
        }
        if written.status.is_some() && written.after.is_none() {
            return Err("`status` is about the tool in `after`, and there is none".to_owned());
        }
        written.say.as_deref().map(template).transpose()?;
        written.condition.as_deref().map(expression).transpose()?;
        for call in &written.call {
            template(&call.arguments)?;
            call.each.as_deref().map(expression).transpose()?;
        }
        let patterns = written.person.map(OneOrMany::list).unwrap_or_default();
        let patterns = patterns.iter().map(|pattern| Pattern::parse(pattern));
        Ok(Rule {
            roles: written.role.map(OneOrMany::list).unwrap_or_default(),
            person: patterns.collect::<Result<_, _>>()?,
            after: written.after,
            status: written.status.map(OneOrMany::list).unwrap_or_default(),
            condition: written.condition,
            say: written.say,
            calls: written
                .call
                .into_iter()
                .map(|call| Call {
                    tool: call.tool,
                    arguments: call.arguments,
                    each: call.each,
                })
                .collect(),
            fail: written.fail,
        })
    }

    /// What its pattern captured, if it fits.
    fn fits(&self, facts: &Facts) -> Option<BTreeMap<String, String>> {
        let is_for = self.roles.is_empty() || self.roles.contains(&facts.role);
        let is_next = match (&self.after, facts.after.as_deref()) {
            (None, last) => last.is_none(),
            (Some(tool), Some(results)) => results.iter().any(|result| {
                result.tool == *tool && (self.status.is_empty() || self.status.contains(&result.status))
            }),
            (Some(_), None) => false,
        };
        if !is_for || !is_next {
            return None;
        }
        if self.person.is_empty() {
            return Some(BTreeMap::new());
        }
        self.person
            .iter()
            .find_map(|pattern| pattern.matches(&facts.person))
    }
}

impl Call {
    /// One for each thing there is, or one without any.
    fn items(
        &self,
        environment: &Environment<'_>,
        context: &Value,
    ) -> Result<Vec<Option<Value>>, minijinja::Error> {
        let Some(each) = &self.each else {
            return Ok(vec![None]);
        };
        let list = environment.compile_expression(each)?.eval(context.clone())?;
        Ok(list.try_iter()?.map(Some).collect())
    }
}

/// A text as a stream of words, the way models write.
fn in_pieces(text: &str) -> Vec<Part> {
    text.split_inclusive(' ')
        .map(|piece| Part::Text(piece.to_owned()))
        .collect()
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("json", |value: Value| {
        serde_json::to_string(&value)
            .map_err(|error| minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string()))
    });
    environment
}

/// JSON as templates see it; what is no JSON is a text.
fn value_of(text: &str) -> Value {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => Value::from(Serde(value)),
        Err(_) => Value::from(text),
    }
}
