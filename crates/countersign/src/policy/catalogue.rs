//! The catalogue as the operator reads it back: one line per tool.
//!
//! Deliberately absent: anything that rules. This is for `policy check` and for pages.

use super::{Policy, Tool};
use crate::effect::{Effect, Risk};

/// What the policy says about one tool, before any arguments are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<'p> {
    /// Its name.
    pub tool: &'p str,
    /// What the operator calls it.
    pub title: Option<&'p str>,
    /// The kind of change.
    pub effect: Effect,
    /// The degree of harm.
    pub risk: Risk,
    /// The condition under which it is held; absent: always, unless it only reads.
    pub hold: Option<&'p str>,
    /// The condition under which it is forbidden.
    pub deny: Option<&'p str>,
    /// Groups and people who may approve; empty: nobody.
    pub approvers: &'p [String],
    /// The tool that takes it back.
    pub undo: Option<&'p str>,
}

impl Policy {
    /// All listed tools, sorted by name.
    pub fn catalogue(&self) -> Vec<Listed<'_>> {
        let mut listed: Vec<_> = self.tools.iter().map(|(name, tool)| tool.listed(name)).collect();
        listed.sort_unstable_by_key(|listed| listed.tool);
        listed
    }
}

impl Tool {
    fn listed<'p>(&'p self, name: &'p str) -> Listed<'p> {
        Listed {
            tool: name,
            title: self.title.as_deref(),
            effect: self.effect,
            risk: self.risk,
            hold: self.hold.as_ref().map(|condition| condition.source()),
            deny: self.deny.as_ref().map(|condition| condition.source()),
            approvers: &self.approvers,
            undo: self.undo.as_ref().map(|undo| undo.tool.as_str()),
        }
    }
}
