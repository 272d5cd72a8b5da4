//! Startup: which servers there are, and connecting to them.
//!
//! The command line names the servers, or a file that lists them. Each server gets a run name by which a restarted
//! gateway finds its open calls.

use std::collections::HashMap;

use countersign::hash::Hash;
use countersign::id::Run;

use super::child::{self, Child, Launch};
use super::http::HttpTarget;
use super::listen::Servers;
use super::multiplexer::{self, At, Spec};
use super::{bad_name, name};
use crate::cli::Mcp;
use crate::failure::Failure;

/// Name for several servers together.
const SEVERAL: &str = "several";

/// Returns the servers that the command line names.
pub fn specs(options: &Mcp) -> Result<Vec<Spec>, Failure> {
    if let Some(file) = &options.servers {
        return multiplexer::read(file);
    }
    let (words, at) = match &options.url {
        Some(url) => {
            let at = At::Address(url.clone(), options.url_token_env.clone());
            (vec![url.clone()], at)
        }
        None => {
            let words = options.command.clone();
            let launch = Launch {
                words: words.clone(),
                pass_env: options.pass_env.clone(),
                ..Launch::default()
            };
            (words, At::Command(launch))
        }
    };
    let name = name::of(options.server_name.as_deref(), &words)?;
    Ok(vec![Spec {
        name,
        at,
        resume: options.resume,
    }])
}

/// Servers that were started for a client on standard input.
pub enum StartedServers {
    /// One server, started by a command: its name, command and process.
    Command(String, Launch, child::Started),
    /// One server over streamable HTTP: its name and address.
    Address(String, HttpTarget),
    /// Several servers behind the multiplexer.
    Several(multiplexer::Connections),
}

/// Starts or connects to the servers. A single server gets no multiplexer, even if a file names it.
pub fn begin(specs: &[Spec]) -> Result<StartedServers, Failure> {
    match specs {
        [Spec { name, at, .. }] => Ok(match at {
            At::Command(launch) => {
                StartedServers::Command(name.clone(), launch.clone(), Child::start(launch)?)
            }
            At::Address(url, token) => {
                StartedServers::Address(name.clone(), multiplexer::way(url, token.as_deref())?)
            }
        }),
        several => Ok(StartedServers::Several(multiplexer::connect(several)?)),
    }
}

/// Returns the servers behind an HTTP endpoint and the endpoint's name.
pub fn endpoint_servers(specs: Vec<Spec>) -> Result<(String, Servers), Failure> {
    match <[Spec; 1]>::try_from(specs) {
        Ok([Spec { name, at, .. }]) => {
            let behind = match at {
                At::Command(launch) => Servers::Command(launch),
                At::Address(url, token) => Servers::Address(multiplexer::way(&url, token.as_deref())?),
            };
            Ok((name, behind))
        }
        Err(specs) => Ok((SEVERAL.to_owned(), Servers::Several(specs))),
    }
}

/// Returns the run name of a server. It is derived from the server's name, its command and the working directory, so
/// that open calls are taken over only by the same server, started in the same way and the same place.
fn run_name(name: &str, command: &[String]) -> Result<Run, Failure> {
    let place = std::env::current_dir().unwrap_or_default();
    let mut words = place.as_os_str().as_encoded_bytes().to_vec();
    for word in command {
        // A zero byte separates the words: no word of a command line contains one.
        words.push(0);
        words.extend_from_slice(word.as_bytes());
    }
    Run::new(format!("mcp:{name}:{}", Hash::of(&words).short())).map_err(bad_name)
}

/// Returns the run name of each server, which does not depend on the other servers.
pub fn runs(specs: &[Spec]) -> Result<HashMap<String, Run>, Failure> {
    let run = |spec: &Spec| Ok((spec.name.clone(), run_name(&spec.name, &spec.words())?));
    specs.iter().map(run).collect()
}

/// Returns the run name for calls that cannot be assigned to one server.
pub fn run_of_all(specs: &[Spec]) -> Result<Run, Failure> {
    match specs {
        [one] => run_name(&one.name, &one.words()),
        several => {
            let words: Vec<String> = several.iter().flat_map(Spec::words).collect();
            run_name(SEVERAL, &words)
        }
    }
}
