//! `hook install`: adds the hook to a coding agent's settings.

use std::path::{Path, PathBuf};

use super::POLICY;
use crate::backend::LocalBackend;
use crate::cli::{Global, HookInstall};
use crate::failure::{Exit, Failure};
use crate::hook::{self, Dialect, settings, splice};
use crate::output::Output;
use crate::output::foreign::quoted;
use crate::policy::record;
use crate::store::Missing;
use crate::trust::{self, StorePlace, TrustList};
use crate::{backend, policy, private_file, store};

/// File name of the default policy in the person's configuration folder.
const USUAL_POLICY: &str = "coding-agents.toml";

pub async fn run(global: &Global, options: &HookInstall, output: &mut Output) -> Result<Exit, Failure> {
    let dialect = options.dialect;
    backend::check_one_place(global)?;
    let global = &with_store(global, options)?;
    let words = words(global, options)?;
    let groups = dialect.groups(&settings::command(&words), options.run.hold);
    let added = |text: &str| splice::with_groups(text, dialect, &groups);
    if !options.dry_run {
        note_policy(global, options, words_after(&words, "--policy")).await?;
    }
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
    let shown = quoted(&file.display().to_string());
    match after {
        None => output.line(&format!("the hook is in `{shown}` already")),
        Some(after) => {
            let backup = write(&file, before.as_deref(), &after)?;
            output.line(&format!("the hook is in `{shown}` now"));
            if let Some(backup) = backup {
                output.line(&format!(
                    "backup of the old settings: `{}`",
                    quoted(&backup.display().to_string())
                ));
            }
        }
    }
    let named = words_after(&words, "--policy");
    if let Some(policy) = named {
        output.line(&format!("the policy is `{}`", quoted(policy)));
    }
    if let Some(store) = words_after(&words, "--store") {
        let named = Global {
            store: Some(store.to_owned()),
            ..global.clone()
        };
        output.line(&format!(
            "the store is `{}`; decide held calls with `countersign inbox{}`",
            quoted(store),
            quoted(&named.place_words())
        ));
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

/// Chooses the store for hooks that are installed for all projects, if none is named. The usual default is relative to
/// the current folder, so each project would get a store of its own.
fn with_store(global: &Global, options: &HookInstall) -> Result<Global, Failure> {
    let mut global = global.clone();
    if !options.user || global.store.is_some() || global.server.is_some() {
        return Ok(global);
    }
    let folder = hook::user_folder().ok_or_else(|| {
        let message = "neither XDG_STATE_HOME nor HOME says where to keep the store";
        Failure::error("no_home", message).hint("name it with `--store`")
    })?;
    if !options.dry_run {
        let created = private_file::create_folder(&folder);
        created.map_err(|error| bad_settings(&folder, &error.to_string()))?;
    }
    global.store = Some(text(&absolute(&folder.join(store::DEFAULT))?)?);
    Ok(global)
}

/// Records the policy in `file` as the one that hooks of this agent use. Fails if a different policy is recorded,
/// unless `--policy-change` is given. Does nothing with a server or without a file.
async fn note_policy(global: &Global, options: &HookInstall, file: Option<&str>) -> Result<(), Failure> {
    let (None, Some(file)) = (&global.server, file) else {
        return Ok(());
    };
    let with_policy = Global {
        policy: Some(PathBuf::from(file)),
        ..global.clone()
    };
    let backend = match LocalBackend::open(&with_policy, Missing::Refuse).await {
        Err(failure) if failure.code == "no_store" => {
            return match options.policy_change {
                true => Err(no_policy_to_change(global, options.dialect)),
                // The store is created by the first call of the hook, which also records the policy.
                false => Ok(()),
            };
        }
        backend => backend?,
    };
    let key = hook::record_key(options.dialect, &backend.tenant);
    let policy = backend.gate.policy().hash();
    let is_other = match record::read(backend.store(), &key).await? {
        Some(on_record) => on_record != policy.to_string(),
        None => false,
    };
    if is_other && !options.policy_change {
        return Err(hook::another_policy(options.dialect));
    }
    record::put(backend.store(), &backend.tenant, key, policy).await?;
    Ok(())
}

/// Returns the error for `--policy-change` on a store that does not exist. The person most likely meant another store.
fn no_policy_to_change(global: &Global, dialect: Dialect) -> Failure {
    let message = format!(
        "there is no store `{}`, so no policy is on record there that could be changed",
        quoted(global.store())
    );
    let list = TrustList::load().unwrap_or_default();
    let stores = list.hook_stores(Some(dialect.as_str()));
    let used: Vec<String> = stores
        .iter()
        .map(|store| format!("`{}`", quoted(store)))
        .collect();
    Failure::error("no_store", message).hint(match used.is_empty() {
        true => "install without `--policy-change`, or name the store with `--store`".to_owned(),
        false => format!(
            "name the store with `--store`; hooks of {} were installed with {}",
            dialect.title(),
            used.join(", ")
        ),
    })
}

/// Adds the server and the hook's command line to the trust list, by which `hook` and `hook status` recognise them.
fn remember(global: &Global, words: Vec<String>) -> Result<(), Failure> {
    let server = global.server.as_deref().map(trust::normal_server);
    TrustList::change(|list| {
        list.hooks.insert(words);
        list.servers.extend(server.map(str::to_owned));
    })
}

/// Builds the hook's command line from the options of `hook install`, with absolute paths.
fn words(global: &Global, options: &HookInstall) -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::error(
            "no_program",
            format!("cannot find the path of this program: {error}"),
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
                let message = "a token must not be stored in settings that others can read";
                return Err(Failure::usage(message).hint("write it to a file and use `--token-file`"));
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
                    let message = "a database URL may contain a password and must not be stored in settings";
                    return Err(Failure::usage(message).hint("run `countersign serve` and use `--server`"));
                }
                false => text(&StorePlace::find(Path::new(global.store()))?.path)?,
            };
            words.extend(["--store".to_owned(), store]);
            if global.tenant() != "main" {
                words.extend(["--tenant".to_owned(), global.tenant().to_owned()]);
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

/// Returns the path of the default policy for hooks, and writes the file if it does not exist. Fails if an existing
/// file cannot be used.
fn usual_policy(options: &HookInstall) -> Result<PathBuf, Failure> {
    let folder = trust::folder().ok_or_else(|| {
        Failure::error(
            "no_policy",
            "there is no policy, and HOME is not set, so none can be written",
        )
        .hint("name one by its full path with `--policy`; `countersign hook policy` prints one")
    })?;
    let file = folder.join(USUAL_POLICY);
    if !options.dry_run && file.symlink_metadata().is_err() {
        let written = private_file::create_folder(&folder)
            .and_then(|()| private_file::write_new(&file, POLICY.as_bytes()));
        written.map_err(|error| bad_settings(&file, &error.to_string()))?;
    }
    match options.dry_run {
        true => Ok(file),
        // An existing file may be broken or not the person's own.
        false => policy::load(Some(&file)).map(|_| file),
    }
}

/// Returns the word after `name`, which is the value of that option; `None` if the option is absent.
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
        "with a server, the hook needs two tokens: one to propose, and one to start approved calls",
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
        Failure::error("no_home", "HOME is not set, so your settings cannot be found")
            .hint("name the file with `--settings`")
    })?;
    // If the person's settings file is a symlink, its target is written, and the link stays.
    Ok(std::fs::canonicalize(&file).unwrap_or(file))
}

/// Resolves a file of the project. Fails if a symlink, which a repository may contain, points outside of the project.
fn in_project(file: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| bad_settings(file, &error.to_string());
    let project = std::fs::canonicalize(".").map_err(failed)?;
    let named = project.join(file);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    // The deepest existing folder of the path tells where missing folders would be created.
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
                "`{}` is a symbolic link that points outside the project",
                there.display()
            ),
        )
        .hint("check it and remove it; or use `--user`, or give the file with `--settings`")),
    }
}

/// Replaces the settings atomically. Returns the path of the backup of the previous settings, if there were any.
fn write(file: &Path, before: Option<&str>, after: &str) -> Result<Option<PathBuf>, Failure> {
    let failed = |error: std::io::Error| bad_settings(file, &error.to_string());
    if let Some(folder) = file.parent() {
        private_file::create_folder(folder).map_err(failed)?;
    }
    let backup = match before {
        Some(before) => Some(keep(file, before)?),
        None => None,
    };
    private_file::replace(file, after.as_bytes()).map_err(failed)?;
    Ok(backup)
}

/// Saves the previous settings next to the file, under a name that is not in use, and returns the path of that copy.
fn keep(file: &Path, before: &str) -> Result<PathBuf, Failure> {
    let mode = std::fs::metadata(file).map(|metadata| metadata.permissions());
    for number in 1..1000 {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".before-countersign-{number}"));
        let free = PathBuf::from(name);
        let written = private_file::write_new(&free, before.as_bytes());
        // The copy gets the same permissions as the original.
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
