//! `doctor`: checks the installation and says how to fix what is wrong.
//!
//! Every finding has a message of one sentence and, if something is wrong, a hint. Nothing is changed: a missing store
//! is not created.

mod access;
mod history;
mod pages;
mod server;
mod store;

use std::borrow::Cow;

use serde::Serialize;

use super::hook;
use crate::cli::{Doctor, Global};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::foreign::quoting;
use crate::output::style::{self, paint};
use crate::serve::Config;
use crate::{keys, policy};

/// Result of one check.
#[derive(Serialize)]
pub struct Finding {
    /// Subject of the check in one word, such as `store`.
    subject: &'static str,
    state: Health,
    /// Message, one sentence.
    message: String,
    /// Suggested fix; `None` if nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing to change.
    Good,
    /// Works, but should be changed.
    Warning,
    /// Does not work, or is not safe.
    Problem,
}

impl Finding {
    /// Creates a finding without a problem.
    pub fn good(subject: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            subject,
            state: Health::Good,
            message: message.into(),
            hint: None,
        }
    }

    /// Creates a finding for something that works, but should be changed.
    pub fn warning(subject: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            state: Health::Warning,
            hint: Some(hint.into()),
            ..Finding::good(subject, message)
        }
    }

    /// Creates a finding for something that does not work or is not safe.
    pub fn problem(subject: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            state: Health::Problem,
            ..Finding::warning(subject, message, hint)
        }
    }

    /// Lowers a finding to a warning.
    pub fn into_warning(self) -> Finding {
        Finding {
            state: Health::Warning,
            ..self
        }
    }

    /// Returns true if this finding is a problem.
    pub fn is_problem(&self) -> bool {
        self.state == Health::Problem
    }

    /// Creates a problem from the failure that kept a check from running.
    pub fn failed(subject: &'static str, failure: Failure) -> Finding {
        let hint = failure.hint.unwrap_or(Cow::Borrowed("see `countersign --help`"));
        Finding::problem(subject, failure.message, hint)
    }
}

pub async fn run(global: &Global, options: Doctor, output: &mut Output) -> Result<Exit, Failure> {
    let mut findings = match &global.server {
        Some(url) => server::check(global, url).await,
        None => check(global, &options).await,
    };
    findings.extend(hook::look_at_all().await);
    report(&findings, output)
}

/// Prints findings, and returns an error exit code if one of them is a problem.
pub fn report(findings: &[Finding], output: &mut Output) -> Result<Exit, Failure> {
    let is_bad = findings.iter().any(Finding::is_problem);
    match output.is_json {
        true => output.json(&serde_json::json!({ "ok": !is_bad, "findings": findings }))?,
        false => output.text(&findings.iter().map(line).collect::<String>()),
    }
    Ok(if is_bad { Exit::Error } else { Exit::Done })
}

async fn check(global: &Global, options: &Doctor) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = match Config::check(global, options.config.as_deref()) {
        Ok((file, place)) => {
            findings.push(match file {
                Some(file) => Finding::good("configuration", format!("`{}` is understood", file.display())),
                None => Finding::good("configuration", "there is none; defaults apply"),
            });
            place
        }
        Err(failure) => {
            findings.push(Finding::failed("configuration", failure));
            global.store().to_owned()
        }
    };
    findings.push(look_at_policy(global));
    findings.push(look_at_key(global));
    findings.extend(pages::check(&place, options.full).await);
    findings.extend(store::check(global, &place, options.full).await);
    findings
}

fn look_at_policy(global: &Global) -> Finding {
    match policy::load(global.policy.as_deref()) {
        Err(failure) => Finding::failed("policy", failure),
        Ok(loaded) => match loaded.file {
            Some(file) => {
                let count = loaded.policy.catalogue().len();
                Finding::good("policy", format!("`{}` lists {count} tools", file.display()))
            }
            None => Finding::warning(
                "policy",
                "there is none: every call is held as destructive",
                "write one, check it with `countersign policy check FILE`, and name it with `--policy`",
            ),
        },
    }
}

fn look_at_key(global: &Global) -> Finding {
    match keys::sealer(global.seal_key_file.as_deref()) {
        Err(failure) => Finding::failed("sealing key", failure),
        Ok(Some(_)) => Finding::good("sealing key", "it exists, and others cannot read it"),
        Ok(None) => Finding::good("sealing key", "not given; calls cannot carry credentials"),
    }
}

fn line(finding: &Finding) -> String {
    let label = match finding.state {
        Health::Good => paint(style::GOOD, "good"),
        Health::Warning => paint(style::WARNING, "warning"),
        Health::Problem => paint(style::ERROR, "problem"),
    };
    let mut text = format!("{label}  {}: {}\n", finding.subject, quoting(&finding.message));
    if let Some(hint) = &finding.hint {
        text.push_str(&format!("  {} {}\n", paint(style::HINT, "hint:"), quoting(hint)));
    }
    text
}
