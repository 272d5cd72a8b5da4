//! Countersign: a person's signature between an agent's wish and the world.
//!
//! A call enters, is ruled on, summarised, held, shown, decided, run and recorded. The modules are laid out in that
//! order; [`gate`] alone knows it. Nothing here knows SQL, HTTP or the environment.

pub mod approval;
pub mod call;
pub mod card;
pub mod command;
pub mod concern;
pub mod conversation;
pub mod decision;
pub mod display;
pub mod effect;
pub mod event;
pub mod executor;
pub mod gate;
pub mod hash;
pub mod id;
pub mod json;
pub mod name;
pub mod policy;
pub mod prompt;
pub mod provenance;
pub mod recent;
pub mod registry;
pub mod reply;
pub mod seal;
pub mod secrecy;
pub mod sentence;
pub mod snapshot;
pub mod state;
pub mod stopwatch;
pub mod store;
pub mod summary;
pub mod time;
pub mod transcript;
pub mod undoes;
pub mod wake;

/// The README's own example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
