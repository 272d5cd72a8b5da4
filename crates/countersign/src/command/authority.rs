//! Who may decide what. Enters: a decision and the approval it is about, locked. Leaves: why not, if so.
//!
//! Deliberately absent: who somebody is. That comes from the credential, before anything here is asked.

use super::decide::{Decide, approves, choices};
use crate::approval::Approval;
use crate::decision::{Choice, Refusal};
use crate::id::Person;
use crate::policy::{Authority, Terms};

/// Why whoever decides may not. Asked before anything else, so that who may not decide learns nothing more.
pub(super) fn why_not(decide: &Decide, approval: &Approval) -> Option<Refusal> {
    let (id, decider) = (approval.id, &decide.decision.decider);
    let choices = choices(&decide.decision.verdict, approval.calls.len());
    let among = |terms: &Terms| decider.is_among(&terms.approvers);
    let not_allowed = Refusal::NotAllowed {
        id,
        person: decider.person.clone(),
    };
    // To deny, one must be an approver of any call, and that is all.
    if !approves(&choices) {
        let may = approval.calls.iter().any(|call| among(&call.terms));
        return (!may).then_some(not_allowed);
    }
    // To approve, of each call one approves, also as edited.
    let granted = granted(decide, approval, &choices);
    if !granted.iter().all(|terms| among(terms)) {
        return Some(not_allowed);
    }
    let authority = strictest(granted.into_iter());
    if authority.four_eyes && asked_for_it(decide, approval) {
        let person = decider.person.clone();
        return Some(Refusal::FourEyes { id, person });
    }
    if decider.surface < authority.surface {
        let (on, least) = (decider.surface, authority.surface);
        return Some(Refusal::SurfaceTooWeak { id, on, least });
    }
    None
}

/// Why arguments may not be edited: whoever edits would be alone with what runs. Under four eyes that is one pair too
/// few, and with several approvers all others would have approved something else.
pub(super) fn why_no_edit(decide: &Decide, approval: &Approval) -> Option<Refusal> {
    let choices = choices(&decide.decision.verdict, approval.calls.len());
    let mut edits = (1u8..)
        .zip(&choices)
        .filter(|(_, choice)| matches!(choice, Choice::Edit(_)));
    let (call, _) = edits.next()?;
    let authority = strictest(granted(decide, approval, &choices).into_iter());
    let is_alone = authority.four_eyes || authority.quorum > 1 || approval.quorum() > 1;
    let id = approval.id;
    is_alone.then_some(Refusal::EditNotAlone { id, call })
}

/// Why somebody's approval adds nothing: they gave it before.
pub(super) fn why_not_again(decide: &Decide, approval: &Approval) -> Option<Refusal> {
    let person = &decide.decision.decider.person;
    let choices = choices(&decide.decision.verdict, approval.calls.len());
    let again = approval.in_force().any(|earlier| earlier.by.is_same(person));
    (again && approves(&choices)).then(|| Refusal::AlreadyEndorsed {
        id: approval.id,
        person: person.clone(),
        missing: approval.missing(),
    })
}

/// The terms of all calls that are approved, as they were held and as they were edited.
fn granted<'a>(decide: &'a Decide, approval: &'a Approval, choices: &[&Choice]) -> Vec<&'a Terms> {
    let calls = approval.calls.iter().zip(choices);
    let held = calls.filter(|(_, choice)| ***choice != Choice::Deny);
    let held = held.map(|(call, _)| &*call.terms);
    let edited = decide.revisions.iter().map(|revision| &*revision.terms);
    held.chain(edited).collect()
}

/// All that any of them asks for.
fn strictest<'a>(terms: impl Iterator<Item = &'a Terms>) -> Authority {
    terms.fold(Authority::default(), |strictest, terms| Authority {
        four_eyes: strictest.four_eyes || terms.authority().four_eyes,
        quorum: strictest.quorum.max(terms.authority().quorum),
        surface: strictest.surface.max(terms.authority().surface),
    })
}

/// True when the decider proposed it, or is whom the agent acts for: the person counts, not the credential.
fn asked_for_it(decide: &Decide, approval: &Approval) -> bool {
    let person = &decide.decision.decider.person;
    let is_theirs = |name: &Person| name.is_same(person);
    is_theirs(&approval.requester) || approval.on_behalf_of.as_ref().is_some_and(is_theirs)
}
