//! The list of approvals, one line each.

use countersign::approval::{Approval, SharedApproval};
use countersign::display::escape;
use countersign::effect::Effect;
use countersign::state::State;
use countersign::time::Time;

use super::table::{Cell, render};
use super::{once, style};
use crate::{duration, view};

/// The table. Times are told by the store's clock.
pub fn table(approvals: &[SharedApproval], now: Time, width: Option<usize>) -> String {
    let rows = approvals.iter().map(|approval| row(approval, now)).collect();
    render(["ID", "LEFT", "RISK", "EFFECT", "AGENT", "WHAT"], rows, width)
}

fn row(approval: &Approval, now: Time) -> [Cell; 6] {
    let calls = approval.calls.as_slice();
    let risk = calls.iter().map(|call| call.terms.risk).max();
    let effect = calls
        .iter()
        .map(|call| call.terms.effect)
        .max()
        .unwrap_or(Effect::Read);
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
        Cell::new(once(&view::description(approval))),
    ]
}
