//! Formats answers as text that can be compared between stores.

use crate::approval::{Approval, SharedApproval};
use crate::command::Answer;
use crate::hash::Hash;
use crate::id::CallId;
use crate::store::record::Bodies;

/// Formats an answer so that equal answers give equal text.
pub(super) fn normal(answer: &Answer) -> String {
    let of = |approval: &SharedApproval| describe(approval);
    match answer {
        Answer::Propose(Ok(proposed)) => {
            format!("repeated {}, {}", proposed.repeated, of(&proposed.approval))
        }
        Answer::Propose(Err(refusal)) => format!("{refusal:?}"),
        Answer::Decide(answer) | Answer::Withdraw(answer) => format!(
            "{:?}, started {:?}, {:?}",
            answer.refusal,
            answer.started,
            answer.approval.as_ref().map(of)
        ),
        Answer::Start(Ok(started)) => {
            let call = started.approval.call(started.position);
            let shown = call.and_then(|call| call.before.as_ref().map(|before| before.hash.short()));
            format!(
                "started {} over {shown:?}, {}",
                started.position,
                of(&started.approval)
            )
        }
        Answer::Finish(Ok(finished)) => format!("started {:?}, {}", finished.started, of(&finished.approval)),
        Answer::Reconcile(Ok(approval)) => of(approval),
        Answer::Attempt(approval) => format!("{:?}", approval.as_ref().map(of)),
        Answer::Start(Err(refusal)) | Answer::Finish(Err(refusal)) | Answer::Reconcile(Err(refusal)) => {
            format!("{refusal:?}")
        }
        Answer::Sweep(swept) => format!("{swept:?}"),
        Answer::PutEntry(put) => format!("{put:?}"),
        Answer::Erase(erasure) => format!("{erasure:?}"),
        Answer::Void(voided) => format!("{voided:?}"),
        Answer::TakeEntry(taken) => format!("took {taken:?}"),
    }
}

/// Formats the main fields of an approval, and a hash of everything else.
pub(super) fn describe(approval: &Approval) -> String {
    let calls: Vec<&str> = approval.calls.iter().map(|call| call.state.as_str()).collect();
    let bytes: Vec<_> = approval
        .calls
        .iter()
        .map(|call| {
            let original = call.original.as_ref().map(|original| original.as_bytes());
            let before = call.before.as_ref().map(|before| &before.result);
            (
                call.arguments.as_bytes(),
                original,
                &call.result,
                &call.sealed,
                before,
            )
        })
        .collect();
    let undone: Vec<Option<CallId>> = approval.calls.iter().map(|call| call.undone_by).collect();
    // `Debug` of an approval leaves out some fields; the encoded rows cover them.
    let (channel, run, bodies) = (&approval.channel, &approval.run, Bodies::of(approval));
    let rest = Hash::of(format!("{approval:?} {channel:?} {run:?} {bodies:?} {bytes:?}").as_bytes());
    format!(
        "approval {} {} {calls:?} version {} endorsed by {} undone by {undone:?} rest {}",
        approval.id.short(),
        approval.state,
        approval.version,
        approval.endorsements.len(),
        rest.short()
    )
}
