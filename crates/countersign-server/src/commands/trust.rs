//! `trust`: lets a person trust files, stores and servers that this program would otherwise refuse.
//!
//! A file is read once: the text or summary that is shown and the hash that becomes trusted come from the same bytes.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use countersign::policy::Policy;
use serde_json::json;

use crate::cli::Trust;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::foreign::{Foreign, quoted};
use crate::regular;
use crate::trust::{self, FileIdentity, TrustList, TrustedContent};

/// Files in the current folder that are trusted if none is named.
const USUAL: [&str; 3] = [
    crate::policy::DEFAULT_FILE,
    crate::serve::CONFIG_FILE,
    crate::store::DEFAULT,
];
/// Names of the files in an agent's folder.
const OF_AGENT: [&str; 4] = ["agent.toml", "tools.json", "script.toml", "policy.toml"];
/// First bytes of every SQLite database.
const DATABASE: &[u8] = b"SQLite format 3\0";
/// Largest file that is shown, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// File (with its text), store or server to trust.
enum Subject {
    File(PathBuf, String),
    Store(PathBuf, FileIdentity),
    Server(String),
}

pub fn run(options: &Trust, output: &mut Output) -> Result<Exit, Failure> {
    if options.list {
        return list(output);
    }
    if options.remove {
        return remove(&options.paths, output);
    }
    let mut subjects = Vec::new();
    for path in paths(&options.paths)? {
        subjects.extend(read_subjects(&path)?);
    }
    if subjects.is_empty() {
        return Err(
            Failure::usage("there is nothing here to trust").hint("name a file, a folder or a server")
        );
    }
    let text: String = subjects.iter().map(Subject::shown).collect();
    if !output.is_json {
        output.text(&text);
    }
    if !options.yes {
        ask(output)?;
    }
    let count = subjects.len();
    TrustList::change(|list| subjects.into_iter().for_each(|subject| subject.put(list)))?;
    match output.is_json {
        true => output.json(&json!({ "trusted": count }))?,
        false => output.line("trusted; if a file changes, it is refused until you trust it again"),
    }
    Ok(Exit::Done)
}

fn paths(given: &[String]) -> Result<Vec<String>, Failure> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let here = USUAL
        .iter()
        .filter(|name| Path::new(name).symlink_metadata().is_ok());
    Ok(here.map(|name| (*name).to_owned()).collect())
}

/// Resolves an argument to what is to be trusted: a server, a store, a file, or the files of an agent's folder. Fails
/// for files that others can write.
fn read_subjects(given: &str) -> Result<Vec<Subject>, Failure> {
    if given.starts_with("http://") || given.starts_with("https://") {
        crate::backend::check_address(given)?;
        return Ok(vec![Subject::Server(trust::normal_server(given).to_owned())]);
    }
    let path = trust::absolute(Path::new(given))?;
    let failed = |error: std::io::Error| {
        Failure::error(
            "not_trusted",
            format!("cannot read `{}`: {error}", path.display()),
        )
        .hint("give a file that exists")
    };
    let found = path.metadata().map_err(failed)?;
    if found.is_dir() {
        let files = OF_AGENT.iter().map(|name| path.join(name));
        let files: Vec<_> = files.filter(|file| file.symlink_metadata().is_ok()).collect();
        let subjects: Result<Vec<_>, Failure> = files.iter().map(|file| look_at_file(file)).collect();
        return subjects;
    }
    if !found.is_file() || found.len() > LARGEST && !is_database(&path) {
        let message = format!("`{}` is not a file that can be trusted", path.display());
        return Err(Failure::error("not_trusted", message).hint("name a policy, a configuration or a store"));
    }
    Ok(vec![look_at_file(&path)?])
}

fn look_at_file(path: &Path) -> Result<Subject, Failure> {
    if is_database(path) {
        trust::check_others(path, trust::Folder::Own)?;
        let identity = FileIdentity::of(path).ok_or_else(|| {
            let message = format!("the disk does not say when `{}` was made", path.display());
            Failure::error("not_trusted", message)
                .hint("name the store by its full path with `--store` instead")
        })?;
        return Ok(Subject::Store(path.to_owned(), identity));
    }
    trust::check_others(path, trust::Folder::Shared)?;
    let text = regular::read_text(path, LARGEST).map_err(|error| {
        Failure::error(
            "not_trusted",
            format!("cannot read `{}`: {error}", path.display()),
        )
        .hint("name a policy, a configuration or a store")
    })?;
    Ok(Subject::File(path.to_owned(), text))
}

fn is_database(path: &Path) -> bool {
    regular::read_start(path, DATABASE.len() as u64).is_ok_and(|start| start == DATABASE)
}

impl Subject {
    fn shown(&self) -> String {
        match self {
            Subject::Server(url) => format!(
                "server  {}\n  hooks show it the tokens they are told to\n\n",
                quoted(url)
            ),
            Subject::Store(path, _) => format!(
                "store  {}\n  whoever has a token or an account in it can decide\n\n",
                quoted(&path.display().to_string())
            ),
            Subject::File(path, text) => {
                let path = quoted(&path.display().to_string());
                match Policy::parse(text) {
                    Ok(policy) => format!("policy  {path}\n{}\n", passes(&policy)),
                    Err(_) => format!("file  {path}\n{}\n\n", Foreign::lines(text.trim_end()).mark()),
                }
            }
        }
    }

    fn put(self, list: &mut TrustList) {
        match self {
            Subject::Server(url) => {
                list.servers.insert(url);
            }
            Subject::Store(path, identity) => {
                list.stores.insert(path, identity);
            }
            Subject::File(path, text) => {
                list.trust_file(path, TrustedContent::of(&text));
            }
        }
    }
}

/// Describes which tools a policy lets pass without asking anybody.
fn passes(policy: &Policy) -> String {
    let listed = policy.catalogue();
    let rulings = listed.iter().map(|listed| (listed.tool, trust::ruling(listed)));
    let passing: Vec<String> = rulings
        .filter(|(_, ruling)| ruling.starts_with("passes"))
        .map(|(tool, ruling)| format!("  {}\n", Foreign::new(&format!("{tool} {ruling}")).mark()))
        .collect();
    let rest = listed.len() - passing.len();
    let rest = format!("  {rest} others are held or forbidden, and so is every tool that is not listed\n");
    match passing.is_empty() {
        true => format!("  nothing runs without an approval\n{rest}"),
        false => format!("{}{rest}", passing.concat()),
    }
}

fn ask(output: &mut Output) -> Result<(), Failure> {
    if output.is_json || !output.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(
            Failure::usage("`trust` asks for confirmation and needs a terminal")
                .hint("in a script, read the files first and then add `--yes`"),
        );
    }
    output.text("  Trust this? Type `yes`: ");
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::error("no_answer", error.to_string()))?;
    match line.trim() {
        "yes" | "y" => Ok(()),
        _ => {
            Err(Failure::error("not_trusted", "nothing was trusted").hint("read it first; it stays refused"))
        }
    }
}

fn list(output: &mut Output) -> Result<Exit, Failure> {
    let list = TrustList::load()?;
    if output.is_json {
        output.json(&list)?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for path in list.files.keys() {
        text.push_str(&format!("file    {}\n", quoted(&path.display().to_string())));
    }
    for path in list.stores.keys() {
        text.push_str(&format!("store   {}\n", quoted(&path.display().to_string())));
    }
    for url in &list.servers {
        text.push_str(&format!("server  {}\n", quoted(url)));
    }
    for words in &list.hooks {
        text.push_str(&format!("hook    {}\n", quoted(&words.join(" "))));
    }
    match text.is_empty() {
        true => output.line("Nothing is trusted."),
        false => output.text(&text),
    }
    Ok(Exit::Done)
}

fn remove(given: &[String], output: &mut Output) -> Result<Exit, Failure> {
    if given.is_empty() {
        return Err(Failure::usage("name what to stop trusting").hint("see `countersign trust --list`"));
    }
    let mut missing = None;
    TrustList::change(|list| {
        for one in given {
            let path = std::path::absolute(one).unwrap_or_else(|_| PathBuf::from(one));
            let found = trust::absolute(Path::new(one)).unwrap_or_else(|_| path.clone());
            let paths = [&path, &found];
            let count = list.files.len() + list.stores.len() + list.servers.len();
            list.files.retain(|path, _| !paths.contains(&path));
            list.stores.retain(|path, _| !paths.contains(&path));
            list.servers.remove(trust::normal_server(one));
            if count == list.files.len() + list.stores.len() + list.servers.len() {
                missing = Some(one.clone());
            }
        }
    })?;
    if let Some(one) = missing {
        let message = format!("`{one}` was not trusted");
        return Err(Failure::error("not_found", message).hint("see `countersign trust --list`"));
    }
    output.line("not trusted any more");
    Ok(Exit::Done)
}
