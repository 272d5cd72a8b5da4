//! `hook install`: the hook gets into a coding agent's settings.

use std::path::{Path, PathBuf};

use super::POLICY;
use crate::cli::{Global, HookInstall};
use crate::failure::{Exit, Failure};
use crate::hook::{Dialect, settings, splice};
use crate::output::{Output, once};
use crate::trust::{self, StorePlace, TrustList};
use crate::{policy, private};

/// What the policy is called in the person's own settings.
const USUAL_POLICY: &str = "coding-agents.toml";

pub fn run(global: &Global, options: &HookInstall, output: &mut Output) -> Result<Exit, Failure> {
    let dialect = options.dialect;
    let words = words(global, options)?;
    let groups = dialect.groups(&settings::command(&words), options.run.hold);
    let added = |text: &str| splice::with_groups(text, dialect, &groups);
    if options.print {
        remember(global, words)?;
        output.raw(added("")?.unwrap_or_default().as_bytes())?;
        return Ok(Exit::Done);
    }
    let file = file(options)?;
    let before = settings::read(&file)?;
    let after = added(before.as_deref().unwrap_or_default())?;
    if options.dry_run {
        let text = after.or(before).unwrap_or_default();
        output.raw(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    remember(global, words.clone())?;
    let shown = once(&file.display().to_string());
    match after {
        None => output.line(&format!("the hook is in `{shown}` already")),
        Some(after) => {
            let backup = write(&file, before.as_deref(), &after)?;
            output.line(&format!("the hook is in `{shown}` now"));
            if let Some(backup) = backup {
                output.line(&format!(
                    "as it was before: `{}`",
                    once(&backup.display().to_string())
                ));
            }
        }
    }
    let named = words_after(&words, "--policy");
    if let Some(policy) = named {
        output.line(&format!("what passes and what waits is in `{}`", once(policy)));
    }
    if dialect == Dialect::Codex {
        output.notice(
            "not_trusted",
            "Codex skips it until you trust it: start Codex and look at `/hooks`",
        );
    }
    output.line(&format!(
        "now try it: `countersign hook status {}`",
        dialect.as_str()
    ));
    Ok(Exit::Done)
}

/// The person names this server and this command line: `hook` and `hook status` know them by that.
fn remember(global: &Global, words: Vec<String>) -> Result<(), Failure> {
    let server = global.server.as_deref().map(trust::normal_server);
    TrustList::change(|list| {
        list.hooks.insert(words);
        list.servers.extend(server.map(str::to_owned));
    })
}

/// The words of the hook's command line, with everything this one was told, as paths that do not depend on a folder.
fn words(global: &Global, options: &HookInstall) -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::error(
            "no_program",
            format!("cannot tell where this program is: {error}"),
        )
    })?;
    let mut words = vec![
        text(&own)?,
        "hook".to_owned(),
        options.dialect.as_str().to_owned(),
    ];
    words.extend(["--hold".to_owned(), hold(options)]);
    if options.run.defer {
        words.push("--defer".to_owned());
    }
    if let Some(folder) = &options.run.state {
        words.extend(["--state".to_owned(), text(&absolute(folder)?)?]);
    }
    match &global.server {
        Some(url) => {
            words.extend(["--server".to_owned(), url.clone()]);
            if global.token.is_some() && global.token_file.is_none() {
                let message = "a token does not belong into settings that others read";
                return Err(
                    Failure::usage(message).hint("put it into a file, and name that with `--token-file`")
                );
            }
            let agents = ("--token-file", &global.token_file);
            let runners = ("--execute-token-file", &options.run.execute_token_file);
            for (name, file) in [agents, runners] {
                let file = file.as_deref().ok_or_else(|| no_token(name))?;
                words.extend([name.to_owned(), text(&absolute(file)?)?]);
            }
        }
        None => {
            let store = match crate::store::is_postgres(global.store()) {
                true => {
                    let message =
                        "a database's address may hold a password, and does not belong into settings";
                    return Err(
                        Failure::usage(message).hint("run `countersign serve`, and name it with `--server`")
                    );
                }
                false => text(&StorePlace::find(Path::new(global.store()))?.path)?,
            };
            words.extend(["--store".to_owned(), store]);
            if global.tenant != "main" {
                words.extend(["--tenant".to_owned(), global.tenant.clone()]);
            }
            let policy = match policy::load(global.policy.as_deref())?.file {
                Some(file) => file,
                None => usual_policy(options)?,
            };
            words.extend(["--policy".to_owned(), text(&policy)?]);
        }
    }
    Ok(words)
}

/// The policy of all hooks that were not given another one. It is written when there is none yet.
fn usual_policy(options: &HookInstall) -> Result<PathBuf, Failure> {
    let folder = trust::folder().ok_or_else(|| {
        Failure::error("no_policy", "there is no policy, and no home to write one to")
            .hint("name one by its full path with `--policy`; `countersign hook policy` prints one")
    })?;
    let file = folder.join(USUAL_POLICY);
    if !options.dry_run && file.symlink_metadata().is_err() {
        let written =
            private::create_folder(&folder).and_then(|()| private::write_new(&file, POLICY.as_bytes()));
        written.map_err(|error| bad_settings(&file, &error.to_string()))?;
    }
    match options.dry_run {
        true => Ok(file),
        // One that was there may be broken, or somebody else's.
        false => policy::load(Some(&file)).map(|_| file),
    }
}

/// The word behind another one.
fn words_after<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    let mut words = words.iter().skip_while(|word| *word != name).skip(1);
    words.next().map(String::as_str)
}

fn no_token(name: &str) -> Failure {
    let scopes = match name {
        "--token-file" => "--agent NAME --scope propose,wait",
        _ => "--name NAME --scope execute",
    };
    Failure::usage(
        "the hook needs two tokens for a server: one that asks, and one that starts what was approved",
    )
    .hint(format!(
        "make it with `countersign token create {scopes}`, and name its file with `{name}`"
    ))
}

fn hold(options: &HookInstall) -> String {
    let hold = options.run.hold;
    match hold.subsec_millis() {
        0 => format!("{}s", hold.as_secs()),
        _ => format!("{}ms", hold.as_millis()),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::error("bad_path", format!("`{}`: {error}", path.display())))
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::error("bad_path", format!("`{}` is not UTF-8", path.display())))
}

fn file(options: &HookInstall) -> Result<PathBuf, Failure> {
    let named = match (&options.settings, options.user) {
        (Some(file), _) => Some(file.clone()),
        (None, true) => options.dialect.user_file(),
        (None, false) => {
            let file = options.dialect.project_files().into_iter().next();
            return in_project(&file.unwrap_or_default());
        }
    };
    let file = named.ok_or_else(|| {
        Failure::error(
            "no_home",
            "HOME is not set, so it is not known where your settings are",
        )
        .hint("name the file with `--settings`")
    })?;
    // A link of the person's own stays a link.
    Ok(std::fs::canonicalize(&file).unwrap_or(file))
}

/// Where a file of the project really is. A repository can bring links along, to files that are not its own.
fn in_project(file: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| bad_settings(file, &error.to_string());
    let project = std::fs::canonicalize(".").map_err(failed)?;
    let named = project.join(file);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    // The last part that is there says where the rest would be made.
    let there = named.ancestors().find(|path| is_there(path)).unwrap_or(&project);
    let rest = named.strip_prefix(there).unwrap_or(Path::new(""));
    let found = std::fs::canonicalize(there)
        .ok()
        .filter(|found| found.starts_with(&project));
    match found {
        Some(found) if rest.as_os_str().is_empty() => Ok(found),
        Some(found) => Ok(found.join(rest)),
        None => Err(Failure::error(
            "bad_settings",
            format!(
                "`{}` is a link that leads outside of the project",
                there.display()
            ),
        )
        .hint("look at it, and take it away; or use `--user`, or name the file with `--settings`")),
    }
}

/// Writes the settings in one step. Gives the file that holds them as they were.
fn write(file: &Path, before: Option<&str>, after: &str) -> Result<Option<PathBuf>, Failure> {
    let failed = |error: std::io::Error| bad_settings(file, &error.to_string());
    if let Some(folder) = file.parent() {
        private::create_folder(folder).map_err(failed)?;
    }
    let backup = match before {
        Some(before) => Some(keep(file, before)?),
        None => None,
    };
    private::replace(file, after.as_bytes()).map_err(failed)?;
    Ok(backup)
}

/// Keeps the settings as they were, under a name that is free.
fn keep(file: &Path, before: &str) -> Result<PathBuf, Failure> {
    let mode = std::fs::metadata(file).map(|metadata| metadata.permissions());
    for number in 1..1000 {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".before-countersign-{number}"));
        let free = PathBuf::from(name);
        let written = private::write_new(&free, before.as_bytes());
        // Who may read it stays as it was.
        let written = written.and_then(|()| match &mode {
            Ok(mode) => std::fs::set_permissions(&free, mode.clone()),
            Err(_) => Ok(()),
        });
        match written {
            Ok(()) => return Ok(free),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(bad_settings(&free, &error.to_string())),
        }
    }
    Err(Failure::error(
        "bad_settings",
        "there are too many backups of the settings",
    ))
}

fn bad_settings(file: &Path, problem: &str) -> Failure {
    Failure::error(
        "bad_settings",
        format!("cannot write `{}`: {problem}", file.display()),
    )
    .hint("nothing was changed")
}
