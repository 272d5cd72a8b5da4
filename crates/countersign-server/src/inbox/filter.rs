//! Filters of the list.
//!
//! Input: a query string. Output: a predicate on approvals, and the same query string for links.

use countersign::approval::Approval;
use countersign::decision::Decider;
use countersign::display::clip;
use countersign::effect::Risk;
use serde::{Deserialize, Serialize};

use super::card::{ViewerPermissions, risk};
use super::page::url_part;

/// Selected filters. An empty field, as an HTML form sends it, means no filter.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Wanted {
    /// Only approvals of this agent.
    #[serde(default)]
    pub agent: String,
    /// Only approvals with a call of this tool.
    #[serde(default)]
    pub tool: String,
    /// Only approvals of this risk: `low`, `medium`, `high` or `critical`.
    #[serde(default)]
    pub risk: String,
    /// `all` to include approvals that only other people can approve.
    #[serde(default)]
    pub view: String,
    /// `1` if cards of the chosen tool can be selected, to decide several of them together.
    #[serde(default)]
    pub select: String,
}

impl Wanted {
    /// Returns true if no filter is set.
    pub fn is_everything(&self) -> bool {
        self.agent.is_empty() && self.tool.is_empty() && self.risk.is_empty()
    }

    /// Returns true if the viewer wants to see this approval.
    pub fn includes(&self, approval: &Approval, decider: Option<&Decider>) -> bool {
        self.is_of_kind(approval) && (self.view == "all" || is_for(approval, decider))
    }

    /// Returns true if the approval passes the filters by agent, tool and risk; the filter by viewer is not applied.
    pub fn is_of_kind(&self, approval: &Approval) -> bool {
        (self.agent.is_empty() || approval.agent.as_str() == self.agent)
            && (self.tool.is_empty() || approval.calls.iter().any(|call| call.tool.as_str() == self.tool))
            && (self.risk.is_empty() || risk(approval).as_str() == self.risk)
    }

    /// Returns true if cards can be selected. They are those of one tool.
    pub fn is_selecting(&self) -> bool {
        !self.select.is_empty() && !self.tool.is_empty()
    }

    /// Returns the filters as a query string, without the question mark.
    pub fn query(&self) -> String {
        let pairs = [
            ("agent", &self.agent),
            ("tool", &self.tool),
            ("risk", &self.risk),
            ("view", &self.view),
            ("select", &self.select),
        ];
        let named = pairs.iter().filter(|(_, value)| !value.is_empty());
        let parts: Vec<String> = named
            .map(|(name, value)| format!("{name}={}", url_part(value)))
            .collect();
        parts.join("&")
    }
}

/// Returns true if the viewer may approve at least one call. For a viewer who may approve nothing at all, such as an
/// auditor, it is always true.
pub fn is_for(approval: &Approval, decider: Option<&Decider>) -> bool {
    decider.is_none() || ViewerPermissions::new(approval, decider).approve_some
}

/// Options that the filter form offers.
#[derive(Debug, Default, Serialize)]
pub struct Choices {
    agents: Vec<Choice>,
    tools: Vec<Choice>,
    risks: Vec<&'static str>,
}

/// One option: its value and its label.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Choice {
    value: String,
    text: String,
}

impl Choice {
    fn new(name: &str) -> Choice {
        Choice {
            value: name.to_owned(),
            text: clip(name, 60).to_string(),
        }
    }
}

impl Choices {
    /// Collects the options from the pending approvals. The selected filters are always included, so that an option
    /// does not vanish with its last card.
    pub fn new<'a>(approvals: impl Iterator<Item = &'a Approval>, wanted: &Wanted) -> Choices {
        let mut choices = Choices {
            risks: Risk::ALL.iter().rev().map(|risk| risk.as_str()).collect(),
            ..Choices::default()
        };
        choices.agents.extend(non_empty(&wanted.agent));
        choices.tools.extend(non_empty(&wanted.tool));
        for approval in approvals {
            choices.agents.push(Choice::new(approval.agent.as_str()));
            let tools = approval.calls.iter().map(|call| Choice::new(call.tool.as_str()));
            choices.tools.extend(tools);
        }
        for names in [&mut choices.agents, &mut choices.tools] {
            names.sort_unstable();
            names.dedup();
        }
        choices
    }
}

fn non_empty(text: &str) -> Option<Choice> {
    (!text.is_empty()).then(|| Choice::new(text))
}
