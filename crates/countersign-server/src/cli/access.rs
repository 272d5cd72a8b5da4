//! Arguments of the commands for tokens, people and keys.

use std::time::Duration;

use clap::Subcommand;

use crate::access::Scope;
use crate::duration;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token; it is printed only once
    #[command(after_help = "\
All scopes of a token must come from the same line:
  propose, wait, agent   an agent; `agent` alone is enough, and also runs the agent's own approved calls
  read, decide, chat     a program that acts for a person
  read, execute          a host that runs tools
  read, reply            a chat adapter
  read, admin            a program that manages the service

Examples:
  countersign token create --agent crm --scope propose,wait
  countersign token create --agent crm --scope agent
  countersign token create --person ana --scope read,decide --expires 8h
  countersign token create --name crm-host --scope execute")]
    Create {
        /// Scopes of the token, separated by commas
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// Agent that will use the token
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Person who will use the token, or on whose behalf the agent acts
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// Name of the token [default: the agent's or person's name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Lifetime, at most 90d
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30d")]
        expires: Duration,
    },
    /// List valid tokens
    #[command(after_help = "\
Examples:
  countersign token list
  countersign token list --json | jq -r '.[].id'")]
    List,
    /// Revoke a token at once
    #[command(after_help = "\
Examples:
  countersign token revoke 1a2b3c4d")]
    Revoke {
        /// Id of the token, from `token list`
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Add an account for a person
    #[command(after_help = "\
Examples:
  countersign person add ana --in approvers --in finance
  countersign person link ana                       a link to sign in with, once
  countersign person password ana < password.txt")]
    Add {
        /// Name of the account
        name: String,
        /// Group of the person (repeatable)
        #[arg(long = "in", value_name = "GROUP", default_value = "approvers")]
        groups: Vec<String>,
        /// Let this person manage the service, too
        #[arg(long)]
        admin: bool,
    },
    /// List all accounts
    #[command(after_help = "\
Examples:
  countersign person list")]
    List,
    /// Replace the groups of a person
    #[command(after_help = "\
Examples:
  countersign person groups ana approvers finance
  countersign person groups ana                     no group: can look, but decide nothing")]
    Groups {
        /// Name of the account
        name: String,
        /// New groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// Set a person's password; reads it from standard input
    #[command(after_help = "\
Examples:
  countersign person password ana < password.txt")]
    Password {
        /// Name of the account
        name: String,
    },
    /// Create a sign-in link that works once, within 15 minutes
    #[command(after_help = "\
Examples:
  countersign person link ana")]
    Link {
        /// Name of the account
        name: String,
    },
    /// Remove an account, with its sessions and tokens
    #[command(after_help = "\
Examples:
  countersign person remove ana")]
    Remove {
        /// Name of the account
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new key
    #[command(after_help = "\
Examples:
  (umask 077; countersign key generate > ~/seal.key)    readable by you alone
  countersign serve --seal-key-file ~/seal.key")]
    Generate,
}
