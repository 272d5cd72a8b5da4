//! Effect and risk: what kind of change a tool makes, and how much harm a wrong call can do.

use serde::{Deserialize, Serialize};

/// The kind of change a tool makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Creates or changes something that can be changed back.
    Write,
    /// Removes or overwrites something.
    Destructive,
    /// Reaches outside this system: mail, payments, requests to third parties.
    External,
}

/// Degree of harm that a wrong call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// An annoyance at most.
    Low,
    /// Damage that takes work to repair.
    Medium,
    /// Loss of something that can be replaced.
    High,
    /// Loss that cannot be repaired.
    Critical,
}

impl Effect {
    /// All effects.
    pub const ALL: [Effect; 4] = [Effect::Read, Effect::Write, Effect::Destructive, Effect::External];

    /// Returns the word used in policies, JSON and on cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::Destructive => "destructive",
            Effect::External => "external",
        }
    }
}

impl Risk {
    /// All degrees, lowest first.
    pub const ALL: [Risk; 4] = [Risk::Low, Risk::Medium, Risk::High, Risk::Critical];

    /// Returns the word used in policies, JSON and on cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
            Risk::Critical => "critical",
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
