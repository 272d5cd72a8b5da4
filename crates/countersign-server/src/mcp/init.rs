//! `policy init`: makes a draft policy from the tools that a server lists.
//!
//! The servers are given by a command, an address or a file. The policy names each tool and pins its whole definition.
//! The server's own statements about its tools are untrusted and become comments; only `--trust-annotations` uses them.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::display::{clip, escape};
use countersign::hash::Hash;
use countersign::id::ToolName;
use countersign::path_names;
use countersign::policy::Policy;
use serde_json::value::RawValue;

use super::child::{Launch, Limit};
use super::frame::{Kind, pick};
use super::http::Heard;
use super::multiplexer::{self, At, Connection, Spec};
use super::server::{Lost, Server};
use super::{name, wire};
use crate::cli::PolicyInit;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::{duration, environment};

/// Default time for a server to start and list its tools.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Interval of progress messages on standard error.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of bytes that a server may send until its tools are listed.
const MOST_SENT: u64 = 8 * 1024 * 1024;
/// Maximum length of a copied description, in characters.
const LONGEST_REMARK: usize = 300;
/// Maximum number of arguments per tool that the draft suggests as `places` (paths that the policy compares).
const MOST_PLACES: usize = 20;
/// Parameters of `initialize`. They claim many capabilities, so that servers also list tools that they offer only to
/// capable clients.
const GREETING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"countersign","version":"1"}}"#;
const MODERN: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"countersign","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}"#;

/// Starts the servers, lists their tools and writes the policy.
pub async fn run(options: PolicyInit, output: &mut Output) -> Result<Exit, Failure> {
    let specs = match &options.servers {
        Some(file) => multiplexer::read(file)?,
        None => vec![the_one(&options)?],
    };
    let limit = options.timeout.unwrap_or(ANSWERS_WITHIN);
    let asked = specs.iter().map(|spec| tools_of(spec, specs.len() > 1, limit));
    // Every server is ended before an error is returned, so none is left running.
    let tools = futures_util::future::join_all(asked).await;
    let tools = tools.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let lists: Vec<List<'_>> = specs.iter().map(|spec| spec.name.as_str()).zip(tools).collect();
    let text = catalogue(&lists, options.trust_annotations);
    Policy::parse(&text).map_err(|problems| {
        let message = format!("no policy can be made of what the server lists: {problems}");
        Failure::error("bad_list", message).hint("tell whoever wrote the server, or write the policy by hand")
    })?;
    match &options.output {
        None => output.text(&text),
        Some(file) => {
            write(file, &text)?;
            let held = match options.trust_annotations {
                true => "effects as the server states them",
                false => "every call is held until you say otherwise",
            };
            let count: usize = lists.iter().map(|(_, tools)| tools.len()).sum();
            let message = format!(
                "{count} tools in `{}`; {held}: read it, and change it",
                file.display()
            );
            output.notice("written", &message);
        }
    }
    Ok(Exit::Done)
}

/// Returns the server that the command line names, by its URL or its command.
fn the_one(options: &PolicyInit) -> Result<Spec, Failure> {
    let (words, at) = match &options.url {
        Some(url) => {
            let at = At::Address(url.clone(), options.url_token_env.clone());
            (vec![url.clone()], at)
        }
        None => {
            let at = At::Command(Launch {
                words: options.command.clone(),
                pass_env: options.pass_env.clone(),
                ..Launch::default()
            });
            (options.command.clone(), at)
        }
    };
    Ok(Spec {
        name: name::of(options.server_name.as_deref(), &words)?,
        at,
        resume: false,
    })
}

/// The name of a server, and the definitions of its tools.
type List<'n> = (&'n str, Vec<Box<RawValue>>);

/// Lists the tools of one server. Fails if two tools have the same name, if a tool has the name of a built-in one, or
/// if a tool of one of several servers has no readable name (X42, X102).
async fn tools_of(
    spec: &Spec,
    is_one_of_several: bool,
    limit: Duration,
) -> Result<Vec<Box<RawValue>>, Failure> {
    let sent = Limit::bytes(MOST_SENT);
    let Connection {
        upstream,
        mut source,
        child,
    } = spec.connect_limited(&sent)?;
    let server = Arc::new(Server::new(spec.name.clone(), upstream));
    let heard = server.clone();
    let hearing = tokio::spawn(async move {
        while let Some(said) = source.next().await {
            match said {
                Heard::Message(Ok(frame)) => {
                    let other = heard.take_own(frame);
                    // Refuse requests from the server: nobody is there to answer them.
                    if let Some(Kind::Request { id, .. }) = other.map(|frame| frame.kind) {
                        let nobody = "there is nobody to ask while a policy is made";
                        let refusal = wire::error(Some(id.as_json()), wire::METHOD_NOT_FOUND, nobody);
                        let _ = heard.send(refusal).await;
                    }
                }
                Heard::Message(Err(bad)) => {
                    let why = format!("the server's answer could not be read: {}", bad.problem());
                    heard.lost_in(&bad, &why);
                }
                Heard::Lost(id, why) => heard.lost(&id, why),
            }
        }
        heard.gone();
    });
    let asked = tokio::select! {
        asked = tokio::time::timeout(limit, ask(&server)) => asked,
        never = report_waiting(&spec.name, limit) => match never {},
    };
    if let Some(child) = child {
        let _ = child.end().await;
    }
    hearing.abort();
    let failed = |code: &'static str, why: String| match is_one_of_several {
        true => Failure::error(code, format!("`{}`: {why}", spec.name)),
        false => Failure::error(code, why),
    };
    let hint = match &spec.at {
        At::Command(_) => format!(
            "try whether the command starts an MCP server by itself; {}",
            environment::HINT
        ),
        At::Address(..) => "check the address and, if the server wants one, the token".to_owned(),
    };
    let tools = match asked {
        Ok(Ok(tools)) => tools,
        _ if sent.is_exceeded() => {
            let why = format!("the server sent more than {MOST_SENT} bytes and did not list its tools");
            return Err(failed("no_tools", why).hint(hint));
        }
        Ok(Err(lost)) => return Err(failed("no_tools", lost.why()).hint(hint)),
        Err(_) => {
            let why = format!(
                "the server did not list its tools within {}",
                duration::show(limit)
            );
            let hint = "if it installs itself first, give it longer with `--timeout 5m`";
            return Err(failed("no_tools", why).hint(hint));
        }
    };
    match multiplexer::collision(&tools).filter(|collision| is_one_of_several || collision.is_about_names()) {
        Some(why) => Err(failed("collision", why.to_string())
            .hint("leave this server out, or have it renamed by who wrote it")),
        None => Ok(tools),
    }
}

/// Prints at intervals which server is being waited for. Never returns.
async fn report_waiting(server: &str, limit: Duration) -> Infallible {
    let began = Instant::now();
    loop {
        tokio::time::sleep(PROGRESS_EVERY).await;
        let (waited, limit) = (duration::show(began.elapsed()), duration::show(limit));
        output::print_to_stderr(&format!(
            "countersign: waiting for `{server}` to list its tools ({waited} of {limit})"
        ));
    }
}

async fn ask(server: &Server) -> Result<Vec<Box<RawValue>>, Lost> {
    let greeted = server.request("initialize", GREETING).await?;
    match greeted.result {
        Some(_) => {
            let welcome = wire::notification("notifications/initialized", "{}");
            let gone = |_| Lost::Unknown("the server is gone".to_owned());
            server.send(welcome).await.map_err(gone)?;
        }
        // A server without `initialize` speaks protocol version 2026-07-28 or later.
        None => server.speaks(MODERN.into()),
    }
    server.all_tools().await
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    // Never overwrite a policy that a person may have edited.
    let written = crate::private_file::write_new(file, text.as_bytes());
    written.map_err(|error| {
        Failure::error(
            "not_written",
            format!("cannot write `{}`: {error}", file.display()),
        )
        .hint("name a new file, and compare the two")
    })
}

fn catalogue(lists: &[List<'_>], trusts: bool) -> String {
    let names: Vec<String> = lists.iter().map(|(server, _)| format!("`{server}`")).collect();
    let (names, who) = match names.as_slice() {
        [one] => (one.clone(), "it lists"),
        several => (several.join(", "), "they list"),
    };
    let mut text = format!(
        "# The tools of {names}, as {who} them. Read each one and decide what it may do:\n\
         #   read         runs at once\n\
         #   write        a person is asked; at low or medium risk also in the agent's own client\n\
         #   external     a person is asked, and not in the agent's own client: something leaves the house\n\
         #   destructive  a person is asked, and not in the agent's own client\n\
         # `places` names arguments that seem to be paths: a read of a sensitive place (`.env`, keys) is held. Correct it.\n\
         # A tool that is not listed, or whose definition is no longer the one pinned here, is held as destructive.\n"
    );
    for (server, tools) in lists {
        for tool in tools {
            text.push('\n');
            text.push_str(&entry(server, tool.get(), trusts));
        }
    }
    text
}

fn entry(server: &str, tool: &str, trusts: bool) -> String {
    let picked = pick(
        tool.as_bytes(),
        ["name", "description", "annotations", "inputSchema"],
    );
    let Ok([name, description, annotations, input]) = picked else {
        return "# A tool whose definition cannot be read: it is held.\n".to_owned();
    };
    let string = |raw: Option<&RawValue>| serde_json::from_str::<String>(raw?.get()).ok();
    let name = string(name).unwrap_or_default();
    let mut text = string(description).map(|text| remark(&text)).unwrap_or_default();
    let qualified = format!("{server}/{name}");
    if ToolName::new(qualified.as_str()).is_err() {
        return format!(
            "{text}# `{}` cannot be a tool's name: calls of it are refused.\n",
            escape(&name)
        );
    }
    let claimed = Claimed::read(annotations);
    let (effect, other) = match trusts {
        true => (claimed.effect(), None),
        false => ("destructive", Some(claimed.effect())),
    };
    text.push_str(&format!("[tools.\"{qualified}\"]\neffect = \"{effect}\"\n"));
    if let Some(other) = other.filter(|other| *other != effect) {
        text.push_str(&format!(
            "# effect = \"{other}\"   # says the server; if you agree, take this line instead\n"
        ));
    }
    let places: Vec<String> = places(input).iter().map(|name| format!("\"{name}?\"")).collect();
    if !places.is_empty() {
        text.push_str(&format!("places = [{}]\n", places.join(", ")));
    }
    text.push_str(&format!("definition = \"{}\"\n", Hash::of(tool.as_bytes())));
    text
}

/// Returns the names of the arguments that may be paths, judging by their names. Suggesting one too many is safe,
/// because it only makes the policy hold more calls.
fn places(input: Option<&RawValue>) -> Vec<String> {
    let schema = input.and_then(|input| serde_json::from_str::<serde_json::Value>(input.get()).ok());
    let properties = schema
        .as_ref()
        .and_then(|schema| schema.get("properties")?.as_object());
    let names = properties.into_iter().flat_map(|properties| properties.keys());
    let is_path = |name: &&String| {
        let lower = name.to_lowercase();
        let words = ["path", "file", "dir", "folder", "uri"];
        path_names::is_argument_name(name)
            && (path_names::is_base(name) || words.iter().any(|word| lower.contains(word)))
    };
    names.filter(is_path).take(MOST_PLACES).cloned().collect()
}

/// Returns the server's text as TOML comment lines. Control characters are escaped, so that the text cannot end the
/// comment.
fn remark(text: &str) -> String {
    let shown = clip(text.trim(), LONGEST_REMARK).to_string();
    let lines = shown.lines().map(|line| format!("# {}\n", escape(line)));
    lines.collect()
}

/// The server's own claims about a tool, from its annotations.
#[derive(Debug, Default)]
struct Claimed {
    reads_only: bool,
    destroys: bool,
}

impl Claimed {
    fn read(annotations: Option<&RawValue>) -> Claimed {
        let hints =
            annotations.and_then(|raw| pick(raw.get().as_bytes(), ["readOnlyHint", "destructiveHint"]).ok());
        let [reads_only, destroys] = hints.unwrap_or([None, None]);
        let is = |hint: Option<&RawValue>, word: &str| hint.is_some_and(|hint| hint.get() == word);
        Claimed {
            reads_only: is(reads_only, "true"),
            destroys: !is(destroys, "false"),
        }
    }

    fn effect(&self) -> &'static str {
        match (self.reads_only, self.destroys) {
            (true, _) => "read",
            (false, false) => "write",
            (false, true) => "destructive",
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign::policy::{CallRequest, Definition, Ruling};

    use super::*;

    const TOOLS: &str = r##"[
        {"name":"open","inputSchema":{"properties":{"filePath":{},"root":{},"limit":{},"\"]\nx path":{}}},"annotations":{"readOnlyHint":true}},
        {"name":"look","description":"Looks.\n[tools.\"x\"]\neffect = \"read\"\u001b[31m","annotations":{"readOnlyHint":true}},
        {"name":"add","annotations":{"destructiveHint":false}},
        {"name":"drop"},
        {"name":"naïve name"},
        17
    ]"##;

    fn written(trusts: bool) -> (String, Policy) {
        let tools: Vec<Box<RawValue>> = serde_json::from_str(TOOLS).unwrap();
        let text = catalogue(&[("files", tools)], trusts);
        let policy = Policy::parse(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        (text, policy)
    }

    #[track_caller]
    fn check(policy: &Policy, tool: &str, definition: Option<Hash>, passes: bool) {
        let asked = CallRequest {
            tool,
            arguments: b"{}",
            definition: Definition::read(definition),
            salt: b"",
            before: None,
            working_folder: None,
        };
        let ruling = policy.rule(asked);
        assert_eq!(matches!(ruling, Ruling::Pass(_)), passes, "{tool}: {ruling:?}");
    }

    #[test]
    fn x28_annotations_permit_nothing_by_themselves() {
        let (text, policy) = written(false);
        assert_eq!(
            policy.tools(),
            ["files/add", "files/drop", "files/look", "files/open"]
        );
        let tools: Vec<Box<RawValue>> = serde_json::from_str(TOOLS).unwrap();
        let look = Some(Hash::of(tools[1].get().as_bytes()));
        check(&policy, "files/look", look, false);
        assert!(text.contains("# effect = \"read\"   # says the server"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn x30_what_is_trusted_is_pinned_to_its_definition() {
        let (_, policy) = written(true);
        let tools: Vec<Box<RawValue>> = serde_json::from_str(TOOLS).unwrap();
        let look = Some(Hash::of(tools[1].get().as_bytes()));
        check(&policy, "files/look", look, true);
        check(&policy, "files/look", Some(Hash::of(b"another")), false);
        check(&policy, "files/look", None, false);
        check(
            &policy,
            "files/add",
            Some(Hash::of(tools[2].get().as_bytes())),
            false,
        );
        check(
            &policy,
            "files/drop",
            Some(Hash::of(tools[3].get().as_bytes())),
            false,
        );
    }

    #[test]
    fn x81_arguments_that_may_be_paths_are_places() {
        let (text, policy) = written(true);
        assert!(text.contains("places = [\"filePath?\", \"root?\"]\n"), "{text}");
        assert!(policy.compares_places("files/open") && !policy.compares_places("files/look"));
    }
}
