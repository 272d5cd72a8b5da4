//! The file of servers, and how to connect to each.
//!
//! The file is TOML. It is rejected if the names of two servers could be mistaken for one another (X42).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use tokio::sync::mpsc;

use super::connection::{Connection, Source};
use crate::environment;
use crate::failure::Failure;
use crate::mcp::child::{Child, Launch, Limit};
use crate::mcp::http::{HttpTarget, HttpUpstream};
use crate::mcp::{lines, name};

/// Maximum number of servers behind one gateway.
const MOST: usize = 32;
/// Reserved prefix of server names: a server with such a name could be mistaken for the gateway.
const OURS: &str = "countersign";

/// A server's entry: its name and how to connect.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub at: At,
    /// Whether the server is stateless, so that a later process of it may run calls that were proposed to an earlier
    /// one.
    pub resume: bool,
}

/// How to connect to a server.
#[derive(Clone, Debug)]
pub enum At {
    /// Start this command.
    Command(Launch),
    /// Connect to this URL. The second value names the environment variable with the server's token, if it wants one.
    Address(String, Option<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    servers: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    pass_env: Vec<String>,
    url: Option<String>,
    token_env: Option<String>,
    #[serde(default)]
    resume: bool,
}

/// Reads a file of servers.
pub fn read(file: &Path) -> Result<Vec<Spec>, Failure> {
    let text = crate::trust::read(file, |error| {
        let message = format!("cannot read the servers `{}`: {error}", file.display());
        Failure::error("servers_unreadable", message).hint("name the file with `--servers FILE`")
    })?;
    parse(&text).map_err(|problem| {
        let message = format!("the servers `{}` are not good: {problem}", file.display());
        Failure::error("bad_servers", message).hint("see docs/mcp.md, \"Several servers\"")
    })
}

fn parse(text: &str) -> Result<Vec<Spec>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let count = file.servers.len();
    if count == 0 || count > MOST {
        return Err(format!("there are {count} of them, and 1 to {MOST} can be"));
    }
    let tokens: Vec<(String, String)> = file
        .servers
        .iter()
        .filter_map(|(name, entry)| Some((entry.token_env.clone()?, name.clone())))
        .collect();
    let mut known: HashMap<String, String> = HashMap::new();
    let mut specs = Vec::new();
    for (name, entry) in file.servers {
        check(&name)?;
        if let Some(other) = known.insert(normal(&name), name.clone()) {
            return Err(format!("`{other}` and `{name}` could be taken for one another"));
        }
        if let Some((token, owner)) = tokens.iter().find(|(token, _)| entry.pass_env.contains(token)) {
            return Err(format!(
                "`{name}`: `pass_env` names `{token}`, which is the token of `{owner}`"
            ));
        }
        let resume = entry.resume;
        let at = entry.at().map_err(|problem| format!("`{name}`: {problem}"))?;
        specs.push(Spec { name, at, resume });
    }
    Ok(specs)
}

/// Checks a server's name. Its end must be clear in `NAME__TOOL`, so it has no `_` at its ends; model APIs do not allow
/// a dot.
fn check(server: &str) -> Result<(), String> {
    name::of(Some(server), &[]).map_err(|failure| {
        let hint = failure.hint.unwrap_or_default();
        format!("{}: {hint}", failure.message)
    })?;
    if server.contains('.') || server.starts_with('_') || server.ends_with('_') {
        return Err(format!(
            "`{server}` cannot be one of several: a name has no `.`, and no `_` at its ends"
        ));
    }
    if normal(server).starts_with(OURS) {
        return Err(format!(
            "`{server}` cannot be a server's name: `{OURS}` is the gateway's own"
        ));
    }
    Ok(())
}

/// Normalizes a name, so that names a person would mistake for one another are equal.
fn normal(name: &str) -> String {
    name.replace(['-', '.'], "_").to_ascii_lowercase()
}

impl Entry {
    fn at(self) -> Result<At, String> {
        for name in &self.pass_env {
            environment::name(name)?;
        }
        match (self.command, self.url) {
            (Some(words), None) if self.token_env.is_none() => match words.is_empty() {
                true => Err("its command is empty".to_owned()),
                false => Ok(At::Command(Launch {
                    words,
                    env: self.env.into_iter().collect(),
                    pass_env: self.pass_env,
                    ..Launch::default()
                })),
            },
            (None, Some(url)) if self.env.is_empty() && self.pass_env.is_empty() => {
                Ok(At::Address(url, self.token_env))
            }
            (Some(_), None) => Err("`token_env` is for a server with a `url`".to_owned()),
            (None, Some(_)) => Err("`env` and `pass_env` are for a server with a `command`".to_owned()),
            (Some(_), Some(_)) => Err("it has a `command` and a `url`; give one".to_owned()),
            (None, None) => Err("it has neither a `command` nor a `url`".to_owned()),
        }
    }
}

impl Spec {
    /// Returns the words that identify the server across restarts: its command or its URL.
    pub fn words(&self) -> Vec<String> {
        match &self.at {
            At::Command(launch) => launch.words.clone(),
            At::Address(url, _) => vec![url.clone()],
        }
    }

    /// Starts or connects to the server.
    pub fn connect(&self) -> Result<Connection, Failure> {
        self.connect_limited(&Limit::default())
    }

    /// Starts or connects to the server, with a limit on the bytes that it may send.
    pub fn connect_limited(&self, limit: &Limit) -> Result<Connection, Failure> {
        match &self.at {
            At::Command(launch) => {
                let launch = Launch {
                    limit: limit.clone(),
                    ..launch.clone()
                };
                let (child, upstream, lines) = Child::start(&launch)?;
                Ok(Connection {
                    upstream,
                    source: Source::Lines(lines),
                    child: Some(child),
                })
            }
            At::Address(url, token_env) => {
                let way = way(url, token_env.as_deref())?.with_limit(limit.clone());
                let (heard, messages) = mpsc::channel(lines::QUEUE);
                let upstream = HttpUpstream::new(way, heard, std::sync::Arc::default());
                Ok(Connection {
                    upstream: Box::new(upstream),
                    source: Source::Heard(messages),
                    child: None,
                })
            }
        }
    }
}

/// Returns the HTTP target for a URL, with the token from the environment variable `token_env`. Fails if the variable
/// is not set or the URL is not acceptable.
pub fn way(url: &str, token_env: Option<&str>) -> Result<HttpTarget, Failure> {
    let token = token_env.map(|variable| {
        std::env::var(variable).map_err(|_| {
            let message = format!("the environment variable `{variable}` is not set");
            Failure::error("no_token", message).hint("export the server's token in it")
        })
    });
    HttpTarget::new(url, token.transpose()?.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let problem = parse(text).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }

    #[test]
    fn servers_are_read() {
        let text = "[servers.notes]\nurl = \"http://127.0.0.1:1/mcp\"\ntoken_env = \"T\"\n\
                    [servers.files]\ncommand = [\"npx\", \"x\"]\nenv = { A = \"1\" }\n";
        let specs = parse(text).unwrap();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["files", "notes"]);
        assert_eq!(specs[0].words(), ["npx", "x"]);
        assert!(
            matches!(&specs[0].at, At::Command(launch) if launch.env == [("A".to_owned(), "1".to_owned())])
        );
        assert!(matches!(&specs[1].at, At::Address(_, Some(token)) if token == "T"));
    }

    #[test]
    fn the_example_in_the_docs_is_good() {
        let docs = include_str!("../../../../../docs/mcp.md");
        let text = docs
            .split("```toml\n")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        let specs = parse(text).unwrap();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["crm", "files"]);
    }

    #[test]
    fn x42_names_that_could_be_taken_for_one_another_are_refused() {
        let two = |one: &str, other: &str| {
            format!("[servers.{one}]\ncommand = [\"a\"]\n[servers.{other}]\ncommand = [\"b\"]\n")
        };
        refused(&two("files", "files"), "duplicate key");
        refused(&two("files", "Files"), "taken for one another");
        refused(&two("my-files", "my_files"), "taken for one another");
        for bad in [
            "a__b", "_a", "a_", "\"a.b\"", "\"a/b\"", "\"a:b\"", "\"\"", "\"ü\"",
        ] {
            refused(&two("x", bad), "name");
        }
        for ours in ["countersign", "Countersign-2", "countersign_wait"] {
            refused(&two("x", ours), "the gateway's own");
        }
    }

    #[test]
    fn x78_no_server_is_passed_our_settings_or_the_token_of_another() {
        refused(
            "[servers.a]\ncommand = [\"x\"]\npass_env = [\"COUNTERSIGN_TOKEN\"]\n",
            "Countersign's own",
        );
        refused(
            "[servers.a]\ncommand = [\"x\"]\npass_env = [\"T\"]\n[servers.b]\nurl = \"y\"\ntoken_env = \"T\"\n",
            "the token of `b`",
        );
        refused(
            "[servers.a]\ncommand = [\"x\"]\npass_env = [\"A=1\"]\n",
            "not the name",
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        refused("", "servers");
        refused("[servers]\n", "there are 0");
        refused("[servers.a]\n", "neither");
        refused("[servers.a]\ncommand = []\n", "empty");
        refused("[servers.a]\ncommand = [\"x\"]\nurl = \"y\"\n", "give one");
        refused("[servers.a]\ncommand = [\"x\"]\ntoken_env = \"T\"\n", "token_env");
        refused("[servers.a]\nurl = \"x\"\nenv = { A = \"1\" }\n", "env");
        refused("[servers.a]\nurl = \"x\"\npass_env = [\"A\"]\n", "pass_env");
        refused("[servers.a]\ncommand = [\"x\"]\ncwd = \"/\"\n", "cwd");
        refused("[server.a]\ncommand = [\"x\"]\n", "server");
    }
}
