//! Arguments of the commands for tokens, people and keys.

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
        /// Scopes: what the token may be used for
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// The agent that gets the token
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// The person that gets the token, or for whom the agent acts
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// Name of the token; by default that of the agent or the person
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How long it lasts, at most 90 days
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30d")]
        expires: Duration,
    },
    /// List the tokens in force
    #[command(after_help = "\
Examples:
  countersign token list
  countersign token list --json | jq -r '.[].id'")]
    List,
    /// Revoke a token: it opens nothing from now on
    #[command(after_help = "\
Examples:
  countersign token revoke 1a2b3c4d")]
    Revoke {
        /// The token's id, as `token list` shows it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Add an account, so that a person can sign in and decide
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
        /// May also manage the service
        #[arg(long)]
        admin: bool,
    },
    /// List all accounts
    #[command(after_help = "\
Examples:
  countersign person list")]
    List,
    /// Set the groups of a person; other groups are taken away
    #[command(after_help = "\
Examples:
  countersign person groups ana approvers finance
  countersign person groups ana                     in no group: may look, and decide nothing")]
    Groups {
        /// Their name
        name: String,
        /// The groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// Set a person's password, read from standard input
    #[command(after_help = "\
Examples:
  countersign person password ana < password.txt")]
    Password {
        /// Their name
        name: String,
    },
    /// Make a link that signs a person in, once, within 15 minutes
    #[command(after_help = "\
Examples:
  countersign person link ana")]
    Link {
        /// Their name
        name: String,
    },
    /// Remove a person's account; their sessions and tokens end with it
    #[command(after_help = "\
Examples:
  countersign person remove ana")]
    Remove {
        /// Their name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new sealing key
    #[command(after_help = "\
Examples:
  (umask 077; countersign key generate > ~/seal.key)    readable by you alone
  countersign serve --seal-key-file ~/seal.key")]
    Generate,
}
