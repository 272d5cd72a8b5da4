//! Who sits at the command line.
//!
//! Whoever can open the store file is trusted to say who they are: the same account is no boundary (X18). An agent
//! that must not decide has to run under another account, without access to the store.

use countersign::decision::{Decider, Surface};
use countersign::id::Person;

use crate::failure::Failure;

/// The group every local person is in.
const LOCAL_GROUP: &str = "approvers";

/// The person from `--as`, or the account's name.
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
            "it is not known who you are: USER and LOGNAME are not set, and `id -un` does not answer",
        )
        .hint("say it with `--as NAME`"));
    };
    Person::new(name).map_err(|problem| {
        Failure::error("bad_name", problem.to_string()).hint("choose another name with `--as NAME`")
    })
}

/// The account's name from the system: containers and services often set neither variable.
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

/// That person as one who decides, here.
pub fn decider(person: Person, groups: &[String]) -> Decider {
    let mut groups = groups.to_vec();
    groups.push(LOCAL_GROUP.to_owned());
    Decider {
        person,
        groups,
        surface: Surface::CommandLine,
        grounds: Vec::new(),
    }
}
