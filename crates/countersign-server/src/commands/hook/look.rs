//! `hook status`, and the checks of hooks for `doctor`.

use std::path::{Path, PathBuf};

use crate::cli::HookStatus;
use crate::commands::doctor::{self, Finding};
use crate::failure::{Exit, Failure};
use crate::hook::off::{self as switch, Reach};
use crate::hook::status::{Installed, Review};
use crate::hook::{Dialect, NOT_ON_RECORD, status};
use crate::output::{Output, shell_word};
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
        let found = check_files(dialect, &files).await;
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

/// Checks the hooks of all coding agents. Returns one good finding if none is installed.
pub async fn look_at_all() -> Vec<Finding> {
    let mut findings = Vec::new();
    for dialect in Dialect::ALL {
        findings.extend(check_files(dialect, &status::files(dialect)).await);
    }
    match findings.is_empty() {
        true => vec![Finding::good("hooks", "no coding agent has one in its settings")],
        false => findings,
    }
}

async fn check_files(dialect: Dialect, files: &[PathBuf]) -> Vec<Finding> {
    let subject = dialect.as_str();
    let made = match TrustList::load() {
        Ok(list) => list.hooks,
        Err(failure) => return vec![Finding::failed(subject, failure)],
    };
    let mut findings = Vec::new();
    let mut found = Vec::new();
    for file in files {
        let installed = match status::read(file) {
            Ok(None) => continue,
            Ok(Some(text)) => status::find_hook(file, &text, dialect, &made),
            Err(problem) => Err(problem),
        };
        match installed {
            Ok(None) => {}
            Ok(Some(installed)) => found.push((file, installed)),
            Err(problem) => {
                let message = format!("`{}`: {problem}", file.display());
                let hint = "correct the file; the coding agent may ignore it";
                findings.push(Finding::problem(subject, message, hint));
            }
        }
    }
    if found.is_empty() {
        return findings;
    }
    let switched = switches(dialect, files, &found);
    let is_off = switched.iter().any(Finding::is_problem);
    findings.extend(switched);
    let active = together(dialect, &found);
    for (file, installed) in found {
        let shown = file.display();
        let scope = scope(dialect, file);
        let again = format!(
            "run `countersign hook install {subject} {scope}` again, with the same options as before"
        );
        let mut is_good = !is_off;
        match &installed.review {
            Review::Trusted => {}
            Review::Missing => {
                is_good = false;
                let message = format!(
                    "`{shown}`: {} does not trust it yet, so it runs tools without it",
                    dialect.title()
                );
                let hint = "start it and look at `/hooks`";
                findings.push(Finding::problem(subject, message, hint));
            }
            Review::Off(file, key) => {
                is_good = false;
                findings.push(off(dialect, file, key, "it"));
            }
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
            // Already reported as a problem.
            None => Ok(()),
        };
        if let Err(problem) = tested {
            is_good = false;
            let hint = match problem.contains(NOT_ON_RECORD) {
                true => format!(
                    "if you changed the policy, run `countersign hook install {subject} {scope} --policy-change`, with the \
                     same options as before"
                ),
                false => again.clone(),
            };
            let message = format!("`{shown}`: the self-test failed: {problem}");
            findings.push(Finding::problem(subject, message, hint));
        }
        if is_good {
            findings.push(Finding::good(subject, status::sentence(file, &installed)));
        }
        if let Some(folder) = status::counts_in(dialect, file) {
            let message = format!(
                "`{shown}` counts only where {} is started in `{}`, not in a folder below",
                dialect.title(),
                folder.display()
            );
            let hint = format!("start it there, or run `countersign hook install {subject} --user`");
            findings.push(Finding::warning(subject, message, hint));
        }
        let warned = installed.warnings.iter();
        findings.extend(
            warned.map(|warning| Finding::warning(subject, format!("`{shown}`: {warning}"), again.clone())),
        );
    }
    if active > 1 {
        let message =
            "it is in several settings files that apply together, so one denies what the other allows";
        findings.push(Finding::problem(subject, message, "keep it in one of them"));
    }
    findings
}

/// Returns the option that makes `hook install` write to this settings file: `--user`, `--project` or `--settings
/// FILE`.
fn scope(dialect: Dialect, file: &Path) -> String {
    let is_project = |file: &Path| status::files(dialect).iter().any(|known| known == file);
    match dialect.user_file().as_deref() == Some(file) {
        true => "--user".to_owned(),
        false if is_project(file) => "--project".to_owned(),
        false => format!("--settings {}", shell_word(&file.display().to_string())),
    }
}

/// Returns the largest number of installed hooks that apply to one session of the coding agent: the person's own and
/// those of one project folder.
fn together(dialect: Dialect, found: &[(&PathBuf, Installed)]) -> usize {
    let folder = |(file, _): &(&PathBuf, Installed)| status::counts_in(dialect, file);
    let everywhere = found.iter().filter(|found| folder(found).is_none()).count();
    let count = |wanted: PathBuf| {
        let is_there = |found: &&(&PathBuf, Installed)| folder(found).as_ref() == Some(&wanted);
        found.iter().filter(is_there).count()
    };
    let is_own = |(file, _): &&(&PathBuf, Installed)| dialect.user_file().as_ref() == Some(*file);
    let own = found.iter().filter(is_own).count();
    let above = found.iter().filter_map(folder).map(count).max();
    everywhere.max(above.map_or(0, |above| above + own))
}

/// Returns findings about settings that turn hooks off. Unreadable files among `files` are skipped, because they were
/// already reported.
fn switches(dialect: Dialect, files: &[PathBuf], found: &[(&PathBuf, Installed)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, layer) in switch::read_layers(dialect, files) {
        let switches = match layer {
            Ok(switches) => switches,
            Err(_) if files.contains(&file) => continue,
            Err(problem) => {
                let message = format!(
                    "`{}`: {problem}; so it is unknown whether hooks are enabled",
                    file.display()
                );
                findings.push(Finding::problem(dialect.as_str(), message, "correct the file"));
                continue;
            }
        };
        for switch in switches {
            let (file, key) = (&switch.file, &switch.key);
            match switch.reach {
                Reach::All => findings.push(off(dialect, file, key, "any hook")),
                Reach::Environment => {
                    let file = file.display();
                    let message = format!(
                        "`{key}` in `{file}` changes what the hook runs, or which files it uses, and the project sets it"
                    );
                    let hint = format!(
                        "remove `{key}` from `{file}`; set it in your own environment if you need it"
                    );
                    findings.push(Finding::problem(dialect.as_str(), message, hint));
                }
                Reach::Profile(profile) => {
                    let which = format!("any hook when it is started with the profile `{profile}`");
                    findings.push(off(dialect, file, key, &which).into_warning());
                }
                Reach::Named(name) if found.iter().any(|(_, installed)| installed.name == name) => {
                    findings.push(off(dialect, file, key, "it"));
                }
                Reach::Named(name) => {
                    let is_after =
                        |(_, installed): &(&PathBuf, Installed)| installed.names_after.contains(&name);
                    if found.iter().any(is_after) {
                        let which = "the hook after tool calls is missing, so outcomes stay unknown";
                        findings.push(off(dialect, file, key, which).into_warning());
                    }
                }
            }
        }
    }
    findings
}

/// Returns the finding for a setting `key` that keeps the coding agent from running the hook. `which` names the hook
/// in the message.
fn off(dialect: Dialect, file: &Path, key: &str, which: &str) -> Finding {
    let (title, file) = (dialect.title(), file.display());
    let message = format!("disabled: `{key}` in `{file}` keeps {title} from running {which}");
    let hint = format!("remove `{key}` from `{file}`, or set it so that hooks run; then check again");
    Finding::problem(dialect.as_str(), message, hint)
}
