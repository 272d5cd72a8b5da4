//! Three example worlds for agents to act in, each with its own data, policy and tools.
//!
//! `crm` (English) creates records, `cms` (English) deletes and publishes, `ranch` (Spanish) deletes thirteen paddocks
//! at once. A [`World`] is an [`Executor`](countersign::executor::Executor): behind a gate with [`World::policy`],
//! nothing in it changes before a person has approved the change. Models and conversations are not part of a world;
//! agents propose calls from outside.

pub mod cms;
pub mod command;
pub mod crm;
mod once;
pub mod ranch;
mod tool;
mod world;

pub use world::{Closed, OpenError, Setup, World};

/// All example worlds.
pub static WORLDS: [&Setup; 3] = [&crm::SETUP, &cms::SETUP, &ranch::SETUP];

/// Returns the world with this name; `None` if there is none.
pub fn named(name: &str) -> Option<&'static Setup> {
    WORLDS.into_iter().find(|setup| setup.name == name)
}

/// Compiles and runs the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;

/// A policy for a small CRM that uses most settings.
pub const POLICY: &str = include_str!("policy.toml");

/// Compiles and runs the Rust example in the README of the project.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ProjectReadme;

#[cfg(test)]
mod tests {
    use countersign::effect::Effect;
    use countersign::policy::Policy;

    use super::WORLDS;
    use crate::tool::Act;

    /// Tools that pass without a person run as reads, whose changes are rolled back.
    #[test]
    fn a1_what_the_policy_takes_for_a_read_is_run_as_one() {
        for setup in WORLDS {
            let policy = Policy::parse(setup.policy).unwrap_or_else(|problems| panic!("{problems}"));
            for listed in policy.catalogue() {
                let (_, act) = setup.tools.iter().find(|(name, _)| *name == listed.tool).unwrap();
                let effect = match act {
                    Act::Read(_) => listed.effect == Effect::Read,
                    Act::Write(_) => matches!(listed.effect, Effect::Write | Effect::Destructive),
                    Act::Send(_) => listed.effect == Effect::External,
                };
                assert!(effect, "`{}`", listed.tool);
            }
        }
    }
}
