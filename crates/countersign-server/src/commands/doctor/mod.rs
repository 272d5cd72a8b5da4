//! `doctor`: looks whether everything is as it should be, and says what to do where it is not.
//!
//! Every finding is one sentence and a hint. It reads, and changes nothing: a store that is not there is not made.

mod access;
mod server;
mod store;

use std::path::Path;

use serde::Serialize;

use super::hook;
use crate::cli::{Doctor, Global};
use crate::failure::{Exit, Failure};
use crate::output::style::{self, paint};
use crate::output::{Output, once};
use crate::serve::Config;
use crate::{keys, policy};

/// One thing that was looked at.
#[derive(Serialize)]
pub struct Finding {
    /// What was looked at.
    subject: &'static str,
    /// How it is.
    state: Health,
    /// One sentence.
    message: String,
    /// What to do now.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Good,
    /// It works, and should be otherwise.
    Warning,
    /// It does not work, or is not safe.
    Problem,
}

impl Finding {
    /// As it should be.
    pub fn good(subject: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            subject,
            state: Health::Good,
            message: message.into(),
            hint: None,
        }
    }

    /// It works, and should be otherwise.
    pub fn warning(subject: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            state: Health::Warning,
            hint: Some(hint.into()),
            ..Finding::good(subject, message)
        }
    }

    /// It does not work, or is not safe.
    pub fn problem(subject: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            state: Health::Problem,
            ..Finding::warning(subject, message, hint)
        }
    }

    /// Could not be looked at.
    pub fn failed(subject: &'static str, failure: Failure) -> Finding {
        let hint = failure
            .hint
            .unwrap_or_else(|| "see `countersign --help`".to_owned());
        Finding::problem(subject, failure.message, hint)
    }
}

pub async fn run(global: &Global, options: Doctor, output: &mut Output) -> Result<Exit, Failure> {
    let mut findings = match &global.server {
        Some(url) => server::look(global, url).await,
        None => look(global, options.config.as_deref()).await,
    };
    findings.extend(hook::look_at_all().await);
    report(&findings, output)
}

/// Prints findings. The exit code says whether there is a problem.
pub fn report(findings: &[Finding], output: &mut Output) -> Result<Exit, Failure> {
    let is_bad = findings.iter().any(|finding| finding.state == Health::Problem);
    match output.is_json {
        true => output.json(&serde_json::json!({ "ok": !is_bad, "findings": findings }))?,
        false => output.text(&findings.iter().map(line).collect::<String>()),
    }
    Ok(if is_bad { Exit::Error } else { Exit::Done })
}

async fn look(global: &Global, config: Option<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = match Config::check(global, config) {
        Ok((file, place)) => {
            findings.push(match file {
                Some(file) => Finding::good("configuration", format!("`{}` is understood", file.display())),
                None => Finding::good("configuration", "there is none; the usual settings are in force"),
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
    findings.extend(store::look(global, &place).await);
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
        Ok(Some(_)) => Finding::good("sealing key", "it is there, and others cannot read it"),
        Ok(None) => Finding::good("sealing key", "there is none; calls cannot come with a secret"),
    }
}

fn line(finding: &Finding) -> String {
    let label = match finding.state {
        Health::Good => paint(style::GOOD, "good"),
        Health::Warning => paint(style::WARNING, "warning"),
        Health::Problem => paint(style::ERROR, "problem"),
    };
    let mut text = format!("{label}  {}: {}\n", finding.subject, once(&finding.message));
    if let Some(hint) = &finding.hint {
        text.push_str(&format!("  {} {}\n", paint(style::HINT, "hint:"), once(hint)));
    }
    text
}
