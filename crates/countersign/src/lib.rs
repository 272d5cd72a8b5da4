//! Countersign: a person's signature between an agent's wish and the world.

pub mod display;
pub mod effect;
pub mod hash;
pub mod json;
pub mod policy;
pub mod summary;
