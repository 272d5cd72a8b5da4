//! A scripted model: a file of rules in place of a language model. It needs no API key and is deterministic.
//!
//! Input: a file of `[[rule]]`s, parsed once, with all templates compiled. Output: the text and calls of the first
//! rule that matches. A rule matches by the role that is asked, the person's last message, and the tool that answered
//! last.
//!
//! Templates are Jinja. Their variables are the captures of the rule's pattern, `person` (the last message), `result`
//! and `status` (of the last call), `results` and `statuses` (of all calls of the last batch), `latest` (the last
//! answer of each tool since the person's message), `pending` (the calls of the pending card, each with `tool`,
//! `arguments` and `message`), and `item` in calls that are made for `each` element of a list.

mod facts;
mod pattern;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use minijinja::{Environment, UndefinedBehavior, Value, value::Serde};
use serde::Deserialize;

use super::{AnswerPart, AnswerStream, Model, ModelError, Request, StopReason, Usage};
use crate::message::ModelCall;
use facts::Facts;
use pattern::Pattern;

/// Maximum number of instructions that a template may execute.
const FUEL: u64 = 200_000;
/// Maximum number of calls that one `[[rule.call]]` makes.
const MOST_CALLS: usize = 100;

/// A model that follows a script. Clones share the rules.
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

/// Error in a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScript {
    /// The file is not valid TOML or has unknown fields; with the parser's message.
    #[error("the script cannot be read: {0}")]
    Unreadable(String),
    /// A rule is invalid; with its number, counted from 1, and the problem.
    #[error("rule {0} of the script: {1}")]
    Rule(usize, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptToml {
    #[serde(default)]
    rule: Vec<RuleSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSection {
    /// Roles that the rule applies to: names of specialists, `orchestrator` or `evaluator`. All roles if absent.
    role: Option<OneOrMany>,
    /// Patterns, one of which has to match the person's last message. Any message if absent.
    person: Option<OneOrMany>,
    /// Tool whose result has to be among the latest results. If absent, the conversation must not end with results.
    after: Option<String>,
    /// Statuses that the call of the tool in `after` may have; any status if absent.
    status: Option<OneOrMany>,
    /// Jinja expression that has to be true for the rule to match. Optional.
    #[serde(rename = "if")]
    condition: Option<String>,
    /// Template of the text to say. No text if absent.
    say: Option<String>,
    #[serde(default)]
    call: Vec<CallSection>,
    /// Error to fail with instead of answering, in order to test how callers handle it. Optional.
    fail: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSection {
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
    /// Parses a script and compiles its templates.
    pub fn parse(text: &str) -> Result<Script, BadScript> {
        let file: ScriptToml =
            toml::from_str(text).map_err(|error| BadScript::Unreadable(error.to_string()))?;
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

    fn parts(&self, request: &Request) -> Result<Vec<AnswerPart>, ModelError> {
        let facts = Facts::of(request);
        for (number, rule) in (1..).zip(&self.0.rules) {
            let bad_rule = |problem: minijinja::Error| ModelError::BadRule(number, problem.to_string());
            let Some(captures) = rule.captures_if_matching(&facts) else {
                continue;
            };
            let context = facts.context(captures);
            if let Some(condition) = &rule.condition {
                let expression = self
                    .0
                    .environment
                    .compile_expression(condition)
                    .map_err(bad_rule)?;
                if !expression.eval(context.clone()).map_err(bad_rule)?.is_true() {
                    continue;
                }
            }
            return self
                .apply_rule(rule, &context, request)
                .map_err(|problem| match problem {
                    RuleError::Template(problem) => bad_rule(problem),
                    RuleError::Requested(problem) => ModelError::Failed(problem),
                });
        }
        Err(ModelError::NoRule)
    }

    fn apply_rule(
        &self,
        rule: &Rule,
        context: &Value,
        request: &Request,
    ) -> Result<Vec<AnswerPart>, RuleError> {
        let environment = &self.0.environment;
        let mut parts = Vec::new();
        if let Some(say) = &rule.say {
            let text = environment.render_str(say, context.clone())?;
            parts.extend(word_parts(text.trim()));
        }
        if let Some(fail) = &rule.fail {
            return Err(RuleError::Requested(fail.clone()));
        }
        let mut count = 0;
        for call in rule.calls.iter().filter(|_| request.may_call) {
            for item in call.items(environment, context)?.into_iter().take(MOST_CALLS) {
                let context = match item {
                    Some(item) => minijinja::context! { item, ..context.clone() },
                    None => context.clone(),
                };
                count += 1;
                parts.push(AnswerPart::Call(ModelCall {
                    id: format!("script_{}_{count}", request.messages.len()),
                    tool: call.tool.clone(),
                    arguments: environment.render_str(&call.arguments, context)?,
                }));
            }
        }
        parts.push(AnswerPart::Usage(Usage::default()));
        parts.push(AnswerPart::Stop(StopReason::Done));
        Ok(parts)
    }
}

enum RuleError {
    Template(minijinja::Error),
    Requested(String),
}

impl From<minijinja::Error> for RuleError {
    fn from(error: minijinja::Error) -> RuleError {
        RuleError::Template(error)
    }
}

impl Model for Script {
    fn answer(&self, request: Request) -> AnswerStream {
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
    fn new(section: RuleSection, environment: &Environment<'_>) -> Result<Rule, String> {
        let template = |text: &str| {
            let compiled = environment.template_from_str(text).map(|_| ());
            compiled.map_err(|error| error.to_string())
        };
        let expression = |text: &str| {
            let compiled = environment.compile_expression(text).map(|_| ());
            compiled.map_err(|error| error.to_string())
        };
        if section.say.is_none() && section.call.is_empty() && section.fail.is_none() {
            return Err("it neither says nor calls anything".to_owned());
        }
        if section.status.is_some() && section.after.is_none() {
            return Err("`status` is about the tool in `after`, and there is none".to_owned());
        }
        section.say.as_deref().map(template).transpose()?;
        section.condition.as_deref().map(expression).transpose()?;
        for call in &section.call {
            template(&call.arguments)?;
            call.each.as_deref().map(expression).transpose()?;
        }
        let patterns = section.person.map(OneOrMany::list).unwrap_or_default();
        let patterns = patterns.iter().map(|pattern| Pattern::parse(pattern));
        Ok(Rule {
            roles: section.role.map(OneOrMany::list).unwrap_or_default(),
            person: patterns.collect::<Result<_, _>>()?,
            after: section.after,
            status: section.status.map(OneOrMany::list).unwrap_or_default(),
            condition: section.condition,
            say: section.say,
            calls: section
                .call
                .into_iter()
                .map(|call| Call {
                    tool: call.tool,
                    arguments: call.arguments,
                    each: call.each,
                })
                .collect(),
            fail: section.fail,
        })
    }

    /// Returns the captures of the rule's pattern if the rule matches.
    fn captures_if_matching(&self, facts: &Facts) -> Option<BTreeMap<String, String>> {
        let is_role = self.roles.is_empty() || self.roles.contains(&facts.role);
        let is_after = match (&self.after, facts.after.as_deref()) {
            (None, last) => last.is_none(),
            (Some(tool), Some(results)) => results.iter().any(|result| {
                result.tool == *tool && (self.status.is_empty() || self.status.contains(&result.status))
            }),
            (Some(_), None) => false,
        };
        if !is_role || !is_after {
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
    /// Returns the elements of the list `each`, for each of which one call is made. Without `each`, returns a single
    /// `None`.
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

/// Splits a text into words, so that it is streamed in pieces as a model's answer is.
fn word_parts(text: &str) -> Vec<AnswerPart> {
    text.split_inclusive(' ')
        .map(|piece| AnswerPart::Text(piece.to_owned()))
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

/// Parses a text as JSON for templates; text that is not JSON becomes a string.
fn parse_value(text: &str) -> Value {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => Value::from(Serde(value)),
        Err(_) => Value::from(text),
    }
}
