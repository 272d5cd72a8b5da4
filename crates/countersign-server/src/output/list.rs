//! The list of approvals, one line each.

use countersign::effect::Effect;
use countersign::state::State;

use super::foreign::Foreign;
use super::style;
use super::table::{Cell, render};
use crate::duration;
use crate::view::ApprovalView;

/// The widest agent's name.
const AGENT_WIDTH: usize = 20;

/// The table. Times are told by the store's clock.
pub fn table(approvals: &[ApprovalView], width: Option<usize>) -> String {
    let rows = approvals.iter().map(row).collect();
    render(["ID", "LEFT", "RISK", "EFFECT", "AGENT", "WHAT"], rows, width)
}

fn row(approval: &ApprovalView) -> [Cell; 6] {
    let left = match approval.status {
        State::Pending => Cell::new(duration::show(approval.expires_at.0.since(approval.now.0))),
        state => Cell::styled(state.as_str(), style::state(state)),
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

/// The gravest effect of its calls.
pub fn effect(approval: &ApprovalView) -> Effect {
    let effects = approval.calls.iter().map(|call| call.effect);
    effects.max().unwrap_or(Effect::Read)
}

/// What it would do, with a badge when there is something in it the eye may miss: the card says what.
pub fn what(approval: &ApprovalView) -> Foreign {
    let has_warnings = approval.calls.iter().any(|call| !call.warnings.is_empty());
    let badge = if has_warnings { "⚠ " } else { "" };
    Foreign::once(&format!("{badge}{}", approval.description))
}
