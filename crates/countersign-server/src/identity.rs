//! Identity of the person at the command line.
//!
//! A person who can open the store file is trusted to say who they are: within one account of the operating system
//! there is no boundary (X18). An agent that must not decide has to run under another account, without access to the
//! store.

use countersign::decision::{Decider, Surface};
use countersign::id::Person;

use crate::failure::Failure;

/// Group that every local person belongs to.
const LOCAL_GROUP: &str = "approvers";

/// Returns the person from `--as`, or else the name of the operating system account.
pub fn person(named: Option<&str>) -> Result<Person, Failure> {
    let from_environment = || {
        ["USER", "LOGNAME"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|name| !name.is_empty())
    };
    let name = named
        .map(str::to_owned)
        .or_else(from_environment)
        .or_else(account);
    let Some(name) = name else {
        return Err(Failure::error(
            "no_name",
            "cannot find your account name: USER and LOGNAME are not set, and `id -un` failed",
        )
        .hint("give it with `--as NAME`"));
    };
    Person::new(name).map_err(|problem| {
        Failure::error("bad_name", problem.to_string()).hint("choose another name with `--as NAME`")
    })
}

/// Returns the name that `id -un` prints, or `None` if that fails. Containers and services often set neither `USER`
/// nor `LOGNAME`.
fn account() -> Option<String> {
    let told = std::process::Command::new("id")
        .arg("-un")
        .env_clear()
        .envs(crate::environment::inherited(&[]))
        .output()
        .ok()?;
    let name = String::from_utf8(told.stdout).ok()?.trim().to_owned();
    (told.status.success() && !name.is_empty()).then_some(name)
}

/// Returns the person as a decider on the command line, in `groups` and in the group of all local people.
pub fn decider(person: Person, groups: &[String]) -> Decider {
    let mut groups = groups.to_vec();
    groups.push(LOCAL_GROUP.to_owned());
    Decider {
        person,
        groups,
        surface: Surface::CommandLine,
        authority_bases: Vec::new(),
    }
}
