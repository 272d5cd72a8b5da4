//! Authority: the rules on who may decide what.
//!
//! A decision is checked against the locked approval, and refused if a rule is violated. Authentication is done before:
//! the decider's identity comes from the credential.

use super::decide::{Decide, approves, choices};
use crate::approval::Approval;
use crate::decision::{Choice, Refusal};
use crate::id::Person;
use crate::policy::{Authority, Terms};

/// Returns the reason why the decider may not decide; `None` if the decider may. Checked before anything else, so that
/// a person without authority learns nothing else about the approval.
pub(super) fn check_authority(decide: &Decide, approval: &Approval) -> Option<Refusal> {
    let (id, decider) = (approval.id, &decide.decision.decider);
    let choices = choices(&decide.decision.verdict, approval.calls.len());
    let among = |terms: &Terms| decider.is_among(&terms.approvers);
    let not_allowed = Refusal::NotAllowed {
        id,
        person: decider.person.clone(),
    };
    // A person may deny if they are an approver of any of the calls.
    if !approves(&choices) {
        let may = approval.calls.iter().any(|call| among(&call.terms));
        return (!may).then_some(not_allowed);
    }
    // A person may approve if they are an approver of every granted call, under the terms as held and as edited.
    let granted = granted(decide, approval, &choices);
    if !granted.iter().all(|terms| among(terms)) {
        return Some(not_allowed);
    }
    let authority = strictest(granted.into_iter());
    if authority.four_eyes && asked_for_it(decide, approval) {
        let person = decider.person.clone();
        return Some(Refusal::FourEyes { id, person });
    }
    if decider.surface.assurance() < authority.assurance {
        let (on, least) = (decider.surface, authority.assurance);
        return Some(Refusal::SurfaceTooWeak { id, on, least });
    }
    None
}

/// Returns the reason why the arguments may not be edited; `None` if they may. An edit lets arguments run that no other
/// person has approved. That violates four eyes, and with a quorum the others would have approved something else.
pub(super) fn check_edit(decide: &Decide, approval: &Approval) -> Option<Refusal> {
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

/// Refuses a second approval by the same person. Returns `None` if the decider has not approved before, or denies.
pub(super) fn check_not_endorsed(decide: &Decide, approval: &Approval) -> Option<Refusal> {
    let person = &decide.decision.decider.person;
    let choices = choices(&decide.decision.verdict, approval.calls.len());
    let again = approval.in_force().any(|earlier| earlier.by.is_same(person));
    (again && approves(&choices)).then(|| Refusal::AlreadyEndorsed {
        id: approval.id,
        person: person.clone(),
        missing: approval.missing(),
    })
}

/// Returns the terms of all granted calls, as held and as edited.
fn granted<'a>(decide: &'a Decide, approval: &'a Approval, choices: &[&Choice]) -> Vec<&'a Terms> {
    let calls = approval.calls.iter().zip(choices);
    let held = calls.filter(|(_, choice)| ***choice != Choice::Deny);
    let held = held.map(|(call, _)| &*call.terms);
    let edited = decide.revisions.iter().map(|revision| &*revision.terms);
    held.chain(edited).collect()
}

/// Combines the terms into the strictest authority that any of them demands.
fn strictest<'a>(terms: impl Iterator<Item = &'a Terms>) -> Authority {
    terms.fold(Authority::default(), |strictest, terms| Authority {
        four_eyes: strictest.four_eyes || terms.authority().four_eyes,
        quorum: strictest.quorum.max(terms.authority().quorum),
        assurance: strictest.assurance.max(terms.authority().assurance),
    })
}

/// Returns true if the decider proposed the calls or is the person for whom the agent acts, even with another
/// credential.
fn asked_for_it(decide: &Decide, approval: &Approval) -> bool {
    let person = &decide.decision.decider.person;
    let is_theirs = |name: &Person| name.is_same(person);
    is_theirs(&approval.requester) || approval.on_behalf_of.as_ref().is_some_and(is_theirs)
}
