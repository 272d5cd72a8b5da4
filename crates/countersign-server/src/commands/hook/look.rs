//! `hook status`, and what `doctor` says about hooks.

use std::path::PathBuf;

use crate::cli::HookStatus;
use crate::commands::doctor::{self, Finding};
use crate::failure::{Exit, Failure};
use crate::hook::{Dialect, status};
use crate::output::Output;
use crate::trust::TrustList;

pub async fn run(options: &HookStatus, output: &mut Output) -> Result<Exit, Failure> {
    let dialects: Vec<Dialect> = match options.dialect {
        Some(dialect) => vec![dialect],
        None => Dialect::ALL.to_vec(),
    };
    let mut findings = Vec::new();
    for dialect in dialects {
        let mut files = status::files(dialect);
        files.extend(options.settings.clone());
        let found = look(dialect, &files).await;
        match found.is_empty() {
            false => findings.extend(found),
            true => findings.push(Finding::warning(
                dialect.as_str(),
                "there is no hook in its settings",
                format!("countersign hook install {} --user", dialect.as_str()),
            )),
        }
    }
    doctor::report(&findings, output)
}

/// What `doctor` says about hooks: nothing where there is none.
pub async fn look_at_all() -> Vec<Finding> {
    let mut findings = Vec::new();
    for dialect in Dialect::ALL {
        findings.extend(look(dialect, &status::files(dialect)).await);
    }
    match findings.is_empty() {
        true => vec![Finding::good("hooks", "no coding agent has one in its settings")],
        false => findings,
    }
}

async fn look(dialect: Dialect, files: &[PathBuf]) -> Vec<Finding> {
    let subject = dialect.as_str();
    let again = format!("run `countersign hook install {subject}` again");
    let made = match TrustList::load() {
        Ok(list) => list.hooks,
        Err(failure) => return vec![Finding::failed(subject, failure)],
    };
    let mut findings = Vec::new();
    let mut active = 0;
    for file in files {
        let shown = file.display();
        let installed = match status::read(file) {
            Ok(None) => continue,
            Ok(Some(text)) => status::look(file, &text, dialect, &made),
            Err(problem) => Err(problem),
        };
        let installed = match installed {
            Ok(None) => continue,
            Ok(Some(installed)) => installed,
            Err(problem) => {
                let message = format!("`{shown}`: {problem}");
                findings.push(Finding::problem(
                    subject,
                    message,
                    "mend the file: the coding agent may ignore it",
                ));
                continue;
            }
        };
        active += 1;
        let mut is_good = installed.is_trusted;
        if !is_good {
            let message = format!(
                "`{shown}`: {} does not trust it yet, so it runs tools without it",
                dialect.title()
            );
            findings.push(Finding::problem(
                subject,
                message,
                "start it and look at `/hooks`",
            ));
        }
        for problem in &installed.problems {
            is_good = false;
            findings.push(Finding::problem(
                subject,
                format!("`{shown}`: {problem}"),
                again.clone(),
            ));
        }
        let tested = match &installed.words {
            Some(words) => status::test(dialect, words).await,
            // Said already, as a problem.
            None => Ok(()),
        };
        if let Err(problem) = tested {
            is_good = false;
            let message = format!("`{shown}`: the self-test was not blocked as it should be: {problem}");
            findings.push(Finding::problem(subject, message, again.clone()));
        }
        if is_good {
            findings.push(Finding::good(subject, status::sentence(file, &installed)));
        }
        let warned = installed.warnings.iter();
        findings.extend(
            warned.map(|warning| Finding::warning(subject, format!("`{shown}`: {warning}"), again.clone())),
        );
    }
    if active > 1 {
        let message =
            "it is in several settings that count together, so one of the two denies what the other allows";
        findings.push(Finding::problem(subject, message, "keep it in one of them"));
    }
    findings
}
