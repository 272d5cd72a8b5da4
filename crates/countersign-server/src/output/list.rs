//! The list of approvals, one line each.

use countersign::approval::{Approval, SharedApproval};
use countersign::display::escape;
use countersign::effect::Effect;
use countersign::policy::Policy;
use countersign::state::State;
use countersign::time::Time;

use super::table::{Cell, render};
use super::{once, style};
use crate::{duration, view};

/// The table. Times are told by the store's clock.
pub fn table(approvals: &[SharedApproval], policy: &Policy, now: Time, width: Option<usize>) -> String {
    let rows = approvals
        .iter()
        .map(|approval| row(approval, policy, now))
        .collect();
    render(["ID", "LEFT", "RISK", "EFFECT", "AGENT", "WHAT"], rows, width)
}

fn row(approval: &Approval, policy: &Policy, now: Time) -> [Cell; 6] {
    let calls = approval.calls.as_slice();
    let risk = calls.iter().map(|call| call.terms.risk).max();
    let effect = calls
        .iter()
        .map(|call| call.terms.effect)
        .max()
        .unwrap_or(Effect::Read);
    let badge = if has_warnings(approval, policy) {
        "⚠ "
    } else {
        ""
    };
    let state = view::state(approval, now);
    let left = match state {
        State::Pending => Cell::new(duration::show(approval.expires_at.since(now))),
        state => Cell::styled(state.as_str(), style::state(state)),
    };
    [
        Cell::styled(approval.id.short(), style::STRONG),
        left,
        risk.map_or_else(
            || Cell::new(""),
            |risk| Cell::styled(risk.as_str(), style::risk(risk)),
        ),
        Cell::new(effect.as_str()),
        Cell::new(super::table::fit(&escape(approval.agent.as_str()), 20)),
        Cell::new(format!("{badge}{}", once(&view::description(approval)))),
    ]
}

/// Something in it the eye may miss: the card says what.
fn has_warnings(approval: &Approval, policy: &Policy) -> bool {
    approval.calls.iter().any(|call| {
        let rows = policy.table(call.tool.as_str(), call.arguments.as_bytes(), &approval.salt);
        rows.iter().any(|row| !row.warnings.is_empty())
    })
}
