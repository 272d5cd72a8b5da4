//! Listing of the policy's tools, for `policy check` and for pages.
//!
//! The listing is for display only: no ruling depends on it.

use super::{Authority, Policy, Tool};
use crate::effect::{Effect, Risk};

/// A tool's entry in the policy, without anything that depends on a call's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolListing<'p> {
    /// Tool name.
    pub tool: &'p str,
    /// Title given in the policy, if any.
    pub title: Option<&'p str>,
    /// Kind of change that the tool makes.
    pub effect: Effect,
    /// Degree of harm that a wrong call can do.
    pub risk: Risk,
    /// Condition under which a call is held. If absent, every call is held unless the tool's effect is `read`.
    pub hold: Option<&'p str>,
    /// True if a call is also held when an argument names a sensitive file or folder.
    pub has_places: bool,
    /// Condition under which a call is forbidden; `None` if there is none.
    pub deny: Option<&'p str>,
    /// Groups and people who may approve; if empty, nobody can.
    pub approvers: &'p [String],
    /// Further requirements for approving.
    pub authority: Authority,
    /// Tool that undoes a call; `None` if the policy declares no undo.
    pub undo: Option<&'p str>,
}

impl Policy {
    /// Lists all tools, sorted by name.
    pub fn catalogue(&self) -> Vec<ToolListing<'_>> {
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
    fn listed<'p>(&'p self, name: &'p str, policy: &Policy) -> ToolListing<'p> {
        ToolListing {
            tool: name,
            title: self.title.as_deref(),
            effect: self.effect,
            risk: self.risk,
            hold: self.hold.as_ref().map(|condition| condition.source()),
            has_places: self.places.is_some(),
            deny: self.deny.as_ref().map(|condition| condition.source()),
            approvers: &self.approvers,
            authority: self.overrides.authority(self.risk, policy.surfaces),
            undo: self.undo.as_ref().map(|undo| undo.0.tool.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{CallRequest, Definition};

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
            policy.hold(CallRequest {
                tool,
                arguments: arguments.as_bytes(),
                definition: Definition::Unknown,
                salt: b"",
                before: None,
                working_folder: None,
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
