//! The coding agents whose hooks are spoken, and in what they differ.

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
    /// All of them.
    pub const ALL: [Dialect; 3] = [Dialect::ClaudeCode, Dialect::Codex, Dialect::Gemini];

    /// The word on the command line, and the agent's name at a store.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::ClaudeCode => "claude-code",
            Dialect::Codex => "codex",
            Dialect::Gemini => "gemini",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Dialect::ClaudeCode => "Claude Code",
            Dialect::Codex => "Codex",
            Dialect::Gemini => "Gemini CLI",
        }
    }

    /// The event before a tool call.
    pub fn before(self) -> &'static str {
        match self {
            Dialect::ClaudeCode | Dialect::Codex => "PreToolUse",
            Dialect::Gemini => "BeforeTool",
        }
    }

    /// The events after one.
    pub fn after(self) -> &'static [&'static str] {
        match self {
            Dialect::ClaudeCode => &["PostToolUse", "PostToolUseFailure"],
            Dialect::Codex => &["PostToolUse"],
            Dialect::Gemini => &["AfterTool"],
        }
    }

    /// All events that the hook is told of.
    pub fn events(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.before()).chain(self.after().iter().copied())
    }

    /// A time-out in the unit its settings count in.
    pub fn timeout(self, limit: Duration) -> u64 {
        match self {
            Dialect::ClaudeCode | Dialect::Codex => limit.as_secs(),
            Dialect::Gemini => u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The time-out that a number in its settings means, or the one in force when there is none.
    pub fn limit(self, number: Option<u64>) -> Duration {
        match (self, number) {
            (Dialect::Gemini, None) => Duration::from_secs(60),
            (Dialect::Gemini, Some(millis)) => Duration::from_millis(millis),
            (_, None) => Duration::from_secs(600),
            (_, Some(seconds)) => Duration::from_secs(seconds),
        }
    }

    /// Whether it can be told that a hook's own failure blocks the call.
    pub fn blocks_on_failure(self) -> bool {
        self == Dialect::ClaudeCode
    }

    /// Whether the arguments in an answer take the place of the proposed ones as a whole. Gemini CLI's documentation says
    /// that they are merged, so a key that a person took out would come back.
    pub fn replaces_arguments(self) -> bool {
        self != Dialect::Gemini
    }
}
