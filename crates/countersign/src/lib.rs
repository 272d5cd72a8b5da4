//! Countersign: a person's signature between an agent's wish and the world.

pub mod effect;
pub mod hash;
