//! Predicts whether the viewer may approve a card, so that the page can hide buttons that would be refused. The rule
//! itself is enforced by the gate, inside the transaction that records the decision.

use countersign::approval::{Approval, Endorsement};
use countersign::call::Call;
use countersign::decision::{Assurance, Decider};
use serde::Serialize;

use super::shown;

/// Permissions of the viewer on a card.
#[derive(Debug, Serialize)]
pub struct ViewerPermissions {
    /// True if the viewer may approve all calls.
    pub approve: bool,
    /// True if the viewer may approve at least one call.
    pub approve_some: bool,
    pub deny: bool,
    /// True if the viewer may edit arguments while approving.
    pub edit: bool,
    /// Why the viewer may not approve all calls; `None` if `approve` is true.
    pub why_not: Option<String>,
    /// Number of different people who have to approve.
    pub quorum: u8,
}

impl ViewerPermissions {
    pub fn new(approval: &Approval, decider: Option<&Decider>) -> ViewerPermissions {
        let why_not = approval
            .calls
            .iter()
            .find_map(|call| why_not(approval, call, decider));
        let is_open = |call: &Call| why_not_at_all(call, decider).is_none();
        let authorities = || approval.calls.iter().map(|call| call.terms.authority());
        let quorum = authorities().map(|authority| authority.quorum).max().unwrap_or(1);
        ViewerPermissions {
            approve: why_not.is_none(),
            approve_some: approval
                .calls
                .iter()
                .any(|call| self::why_not(approval, call, decider).is_none()),
            deny: approval.calls.iter().any(is_open),
            // Editing is not allowed if a second person has to agree, because nobody else would review the edited
            // arguments.
            edit: why_not.is_none() && quorum == 1 && !authorities().any(|authority| authority.four_eyes),
            why_not,
            quorum,
        }
    }
}

fn why_not_at_all(call: &Call, decider: Option<&Decider>) -> Option<String> {
    let approvers = &call.terms.approvers;
    if decider.is_some_and(|decider| decider.is_among(approvers)) {
        return None;
    }
    let names: Vec<String> = approvers.iter().map(|name| shown(name)).collect();
    Some(match names.is_empty() {
        true => "Nobody can approve this: the policy lists no approvers for it.".to_owned(),
        false => format!("Only {} may approve this.", names.join(" or ")),
    })
}

/// Returns why the viewer may not approve a call, or `None` if the viewer may approve it.
pub(super) fn why_not(approval: &Approval, call: &Call, decider: Option<&Decider>) -> Option<String> {
    let decider = match (why_not_at_all(call, decider), decider) {
        (Some(reason), _) => return Some(reason),
        (None, decider) => decider?,
    };
    let authority = call.terms.authority();
    let asked_for_it =
        decider.person == approval.requester || approval.on_behalf_of.as_ref() == Some(&decider.person);
    if authority.four_eyes && asked_for_it {
        return Some("You asked for this, so another person has to approve it.".to_owned());
    }
    let is_theirs = |endorsed: &Endorsement| endorsed.by == decider.person;
    if approval.endorsements.iter().any(is_theirs) {
        return Some("You have approved this; another person has to approve it, too.".to_owned());
    }
    if authority.assurance > decider.surface.assurance() {
        return Some(match authority.assurance {
            Assurance::Passkey => "This takes a passkey to approve.".to_owned(),
            least => format!("This cannot be approved here: it takes {}.", least.as_str()),
        });
    }
    None
}
