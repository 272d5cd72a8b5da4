//! The catalogue as the operator reads it back: one line per tool.
//!
//! Deliberately absent: anything that rules. This is for `policy check` and for pages.

use super::{Authority, Policy, Tool};
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
    /// Whether it is also held where an argument names a sensitive place.
    pub has_places: bool,
    /// The condition under which it is forbidden.
    pub deny: Option<&'p str>,
    /// Groups and people who may approve; empty: nobody.
    pub approvers: &'p [String],
    /// What approving takes beyond that.
    pub authority: Authority,
    /// The tool that takes it back.
    pub undo: Option<&'p str>,
}

impl Policy {
    /// All listed tools, sorted by name.
    pub fn catalogue(&self) -> Vec<Listed<'_>> {
        let mut listed: Vec<_> = self
            .tools
            .iter()
            .map(|(name, tool)| tool.listed(name, self))
            .collect();
        listed.sort_unstable_by_key(|listed| listed.tool);
        listed
    }
}

impl Tool {
    fn listed<'p>(&'p self, name: &'p str, policy: &Policy) -> Listed<'p> {
        Listed {
            tool: name,
            title: self.title.as_deref(),
            effect: self.effect,
            risk: self.risk,
            hold: self.hold.as_ref().map(|condition| condition.source()),
            has_places: self.places.is_some(),
            deny: self.deny.as_ref().map(|condition| condition.source()),
            approvers: &self.approvers,
            authority: self.asks.authority(self.risk, policy.surfaces),
            undo: self.undo.as_ref().map(|undo| undo.0.tool.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Asked, Definition};

    const POLICY: &str = r#"
[tools.b]
effect = "write"
hold = "args.n > 5"
deny = "args.n > 9"
undo = { tool = "a", arguments = {} }

[tools.a]
effect = "read"
"#;

    #[test]
    fn the_catalogue_reads_back_in_order() {
        let policy = Policy::parse(POLICY).unwrap();
        let listed = policy.catalogue();
        let names: Vec<_> = listed.iter().map(|listed| listed.tool).collect();
        assert_eq!(names, ["a", "b"]);
        let b = &listed[1];
        assert_eq!(
            (b.hold, b.deny, b.undo),
            (Some("args.n > 5"), Some("args.n > 9"), Some("a"))
        );
    }

    #[test]
    fn a17_there_are_terms_even_for_what_would_pass_and_none_for_what_is_forbidden() {
        let policy = Policy::parse(POLICY).unwrap();
        let terms = |tool, arguments: &str| {
            policy.hold(Asked {
                tool,
                arguments: arguments.as_bytes(),
                definition: Definition::Unknown,
                salt: b"",
                before: None,
            })
        };
        assert_eq!(
            terms("b", r#"{"n":1}"#).map(|terms| terms.effect),
            Ok(Effect::Write)
        );
        assert_eq!(terms("a", "{}").map(|terms| terms.effect), Ok(Effect::Read));
        assert_eq!(
            terms("unlisted", "{}").map(|terms| terms.effect),
            Ok(Effect::Destructive)
        );
        assert!(terms("b", r#"{"n":10}"#).is_err());
    }
}
