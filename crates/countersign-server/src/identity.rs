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
    let Some(name) = named.map(str::to_owned).or_else(from_environment) else {
        return Err(Failure::error(
            "no_name",
            "it is not known who you are: neither USER nor LOGNAME is set",
        )
        .hint("say it with `--as NAME`"));
    };
    Person::new(name).map_err(|problem| {
        Failure::error("bad_name", problem.to_string()).hint("choose another name with `--as NAME`")
    })
}

/// That person as one who decides, here.
pub fn decider(person: Person, groups: &[String]) -> Decider {
    let mut groups = groups.to_vec();
    groups.push(LOCAL_GROUP.to_owned());
    Decider {
        person,
        groups,
        surface: Surface::CommandLine,
    }
}
