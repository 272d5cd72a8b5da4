//! Table of approvals, one line each.

use countersign::effect::Effect;
use countersign::state::State;

use super::foreign::Foreign;
use super::style;
use super::table::{Cell, render};
use crate::duration;
use crate::view::{ApprovalView, Outcome};

/// Maximum width of the agent column.
const AGENT_WIDTH: usize = 20;

/// Renders the table for a screen of `width` columns, if a width is given. Times are relative to the store's clock.
pub fn table(approvals: &[ApprovalView], width: Option<usize>) -> String {
    let is_pending = approvals.iter().all(|approval| approval.status == State::Pending);
    let state = if is_pending { "LEFT" } else { "STATE" };
    let rows = approvals.iter().map(row).collect();
    render(["ID", state, "RISK", "EFFECT", "AGENT", "WHAT"], rows, width)
}

fn row(approval: &ApprovalView) -> [Cell; 6] {
    let left = match approval.status {
        State::Pending => Cell::new(duration::show(approval.expires_at.0.since(approval.now.0))),
        state => {
            let outcome = Outcome::of_view(approval);
            Cell::styled(outcome.label(), style::outcome(state, &outcome))
        }
    };
    [
        Cell::styled(approval.id.short(), style::STRONG),
        left,
        Cell::styled(approval.risk_level.as_str(), style::risk(approval.risk_level)),
        Cell::new(effect(approval).as_str()),
        Cell::foreign(Foreign::new(&approval.agent_name).fit(AGENT_WIDTH)),
        Cell::foreign(what(approval)),
    ]
}

/// Returns the gravest effect among the calls.
pub fn effect(approval: &ApprovalView) -> Effect {
    let effects = approval.calls.iter().map(|call| call.effect);
    effects.max().unwrap_or(Effect::Read)
}

/// Returns the description, with a badge in front if a call has warnings. The warnings themselves are on the card.
pub fn what(approval: &ApprovalView) -> Foreign {
    let has_warnings = approval.calls.iter().any(|call| !call.warnings.is_empty());
    let badge = if has_warnings { "⚠ " } else { "" };
    Foreign::once(&format!("{badge}{}", approval.description))
}
