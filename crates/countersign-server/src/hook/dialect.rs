//! The supported coding agents and how their hooks differ.

use std::time::Duration;

/// A coding agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::ClaudeCode, Dialect::Codex, Dialect::Gemini];

    /// Returns the name used on the command line and as the agent's name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::ClaudeCode => "claude-code",
            Dialect::Codex => "codex",
            Dialect::Gemini => "gemini",
        }
    }

    /// Returns the product name for messages.
    pub fn title(self) -> &'static str {
        match self {
            Dialect::ClaudeCode => "Claude Code",
            Dialect::Codex => "Codex",
            Dialect::Gemini => "Gemini CLI",
        }
    }

    /// Name of the event before a tool call.
    pub fn before(self) -> &'static str {
        match self {
            Dialect::ClaudeCode | Dialect::Codex => "PreToolUse",
            Dialect::Gemini => "BeforeTool",
        }
    }

    /// Names of the events after a tool call.
    pub fn after(self) -> &'static [&'static str] {
        match self {
            Dialect::ClaudeCode => &["PostToolUse", "PostToolUseFailure"],
            Dialect::Codex => &["PostToolUse"],
            Dialect::Gemini => &["AfterTool"],
        }
    }

    /// Names of all events that the hook subscribes to.
    pub fn events(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.before()).chain(self.after().iter().copied())
    }

    /// Converts a timeout to the unit of the agent's settings: milliseconds for Gemini CLI, seconds for the others.
    pub fn timeout(self, limit: Duration) -> u64 {
        match self {
            Dialect::ClaudeCode | Dialect::Codex => limit.as_secs(),
            Dialect::Gemini => u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Converts a timeout from the agent's settings; without one, returns the agent's default.
    pub fn limit(self, number: Option<u64>) -> Duration {
        match (self, number) {
            (Dialect::Gemini, None) => Duration::from_secs(60),
            (Dialect::Gemini, Some(millis)) => Duration::from_millis(millis),
            (_, None) => Duration::from_secs(600),
            (_, Some(seconds)) => Duration::from_secs(seconds),
        }
    }

    /// Returns true if the agent has a setting that makes a failed hook block the call.
    pub fn blocks_on_failure(self) -> bool {
        self == Dialect::ClaudeCode
    }

    /// Returns true if the arguments in an answer replace the proposed ones completely. Gemini CLI merges them,
    /// according to its documentation, so a key that a person removed would come back.
    pub fn replaces_arguments(self) -> bool {
        self != Dialect::Gemini
    }
}
