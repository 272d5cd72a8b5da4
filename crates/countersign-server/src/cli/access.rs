//! Who may do what: tokens, people, keys.

use std::time::Duration;

use clap::Subcommand;

use crate::access::Scope;
use crate::duration;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token; it is shown once
    #[command(after_help = "\
Scopes of one token come from one line:
  propose, wait          an agent
  read, decide, chat     a person's program
  read, execute          a host that runs tools
  read, reply            an adapter of a chat
  read, admin            a program that looks after the service

Examples:
  countersign token create --agent crm --scope propose,wait
  countersign token create --person ana --scope read,decide --expires 8h
  countersign token create --name crm-host --scope execute")]
    Create {
        /// What it may be used for
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// The agent it is for
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// The person it is for, or for whom the agent acts
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// What it is called; the agent or the person if you do not say
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How long it lasts, at most 90 days
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30d")]
        expires: Duration,
    },
    /// List the tokens in force
    List,
    /// End a token at once
    Revoke {
        /// As `token list` shows it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Let somebody sign in
    #[command(after_help = "\
Examples:
  countersign person add ana --in approvers --in finance
  countersign person link ana                       a link to sign in with, once
  countersign person password ana < password.txt")]
    Add {
        /// Their name
        name: String,
        /// A group they are in; may be given several times
        #[arg(long = "in", value_name = "GROUP", default_value = "approvers")]
        groups: Vec<String>,
        /// May look after the service
        #[arg(long)]
        admin: bool,
    },
    /// List everybody
    List,
    /// Put somebody into these groups, and no others
    Groups {
        /// Their name
        name: String,
        /// The groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// Read a password for somebody from standard input
    Password {
        /// Their name
        name: String,
    },
    /// Make a link that signs somebody in, once, within 15 minutes
    Link {
        /// Their name
        name: String,
    },
    /// Take somebody's account away; their sessions and tokens end with it
    Remove {
        /// Their name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new sealing key
    #[command(after_help = "Example:\n  (umask 077; countersign key generate > seal.key)")]
    Generate,
}
