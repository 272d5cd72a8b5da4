//! Which servers there are, and beginning to talk to them.
//!
//! Enters: the command line, or the file it names. Leaves: one server as if there were no others, or several; and for
//! each the name under which it finds again what it left open.

use std::collections::HashMap;

use countersign::hash::Hash;
use countersign::id::Run;

use super::child::{self, Child, Launch};
use super::http::Way;
use super::listen::Behind;
use super::several::{self, At, Spec};
use super::{bad_name, name};
use crate::cli::Mcp;
use crate::failure::Failure;

/// What several servers are called together.
const SEVERAL: &str = "several";

/// The servers the command line names.
pub fn specs(options: &Mcp) -> Result<Vec<Spec>, Failure> {
    if let Some(file) = &options.servers {
        return several::read(file);
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

/// Servers that were started, for a client on standard input.
pub enum Begun {
    /// One, by its command.
    Command(String, Launch, child::Started),
    /// One, at an address.
    Address(String, Way),
    /// Several.
    Several(several::Connections),
}

/// One server is alone, whether the command line or a file names it.
pub fn begin(specs: &[Spec]) -> Result<Begun, Failure> {
    match specs {
        [Spec { name, at, .. }] => Ok(match at {
            At::Command(launch) => Begun::Command(name.clone(), launch.clone(), Child::start(launch)?),
            At::Address(url, token) => Begun::Address(name.clone(), several::way(url, token.as_deref())?),
        }),
        several => Ok(Begun::Several(several::connect(several)?)),
    }
}

/// What stands behind an endpoint, and what it is called.
pub fn behind(specs: Vec<Spec>) -> Result<(String, Behind), Failure> {
    match <[Spec; 1]>::try_from(specs) {
        Ok([Spec { name, at, .. }]) => {
            let behind = match at {
                At::Command(launch) => Behind::Command(launch),
                At::Address(url, token) => Behind::Address(several::way(&url, token.as_deref())?),
            };
            Ok((name, behind))
        }
        Err(specs) => Ok((SEVERAL.to_owned(), Behind::Several(specs))),
    }
}

/// The same server, started the same way at the same place, is the same: it goes on with what it left open, and no
/// other one does, whatever its tools are called.
fn run_name(name: &str, command: &[String]) -> Result<Run, Failure> {
    let place = std::env::current_dir().unwrap_or_default();
    let mut words = place.as_os_str().as_encoded_bytes().to_vec();
    for word in command {
        // No word of a command line holds a zero.
        words.push(0);
        words.extend_from_slice(word.as_bytes());
    }
    Run::new(format!("mcp:{name}:{}", Hash::of(&words).short())).map_err(bad_name)
}

/// Each of several servers goes on with its own, whoever stands beside it.
pub fn runs(specs: &[Spec]) -> Result<HashMap<String, Run>, Failure> {
    let run = |spec: &Spec| Ok((spec.name.clone(), run_name(&spec.name, &spec.words())?));
    specs.iter().map(run).collect()
}

/// What belongs to none of them belongs to all.
pub fn run_of_all(specs: &[Spec]) -> Result<Run, Failure> {
    match specs {
        [one] => run_name(&one.name, &one.words()),
        several => {
            let words: Vec<String> = several.iter().flat_map(Spec::words).collect();
            run_name(SEVERAL, &words)
        }
    }
}
