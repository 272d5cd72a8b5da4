//! Rows to write for approvals, calls and events, each as a composite type of the schema, in that type's field order.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::event::Event;
use countersign::id::Actor;
use countersign::store::record::Bodies;
use countersign::time::Time;

use super::composite::{Composite, RowWriter};

type WriteResult = Result<(), Box<dyn std::error::Error + Sync + Send>>;

/// A new approval, as a row of the type `approval`.
pub(super) struct NewApprovalRow<'a>(pub(super) &'a Approval, pub(super) &'a Bodies);

impl Composite for NewApprovalRow<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult {
        let NewApprovalRow(new, bodies) = self;
        row.put(&new.tenant.as_str())?;
        row.put(&new.id.as_bytes().as_slice())?;
        row.put(&new.channel.as_ref().map(|channel| channel.as_str()))?;
        row.put(&new.agent.as_str())?;
        row.put(&new.run.as_ref().map(|run| run.as_str()))?;
        row.put(&new.state.code())?;
        row.put(&number(new.version))?;
        row.put(&new.due_at().map(Time::as_micros))?;
        row.put(&new.expires_at.as_micros())?;
        row.put(&new.key.as_ref().map(|(key, _)| key.as_str()))?;
        let undoes = new.undoes.as_ref();
        row.put(&undoes.map(|call| call.approval.as_bytes().as_slice()))?;
        row.put(&bodies.approval)
    }
}

/// A changed approval with the version that it replaces, as a row of the type `changed_approval`.
pub(super) struct ChangedApprovalRow<'a> {
    pub(super) before: &'a Approval,
    pub(super) after: &'a Approval,
    pub(super) bodies: &'a Bodies,
}

impl Composite for ChangedApprovalRow<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult {
        let after = self.after;
        row.put(&after.tenant.as_str())?;
        row.put(&after.id.as_bytes().as_slice())?;
        row.put(&number(self.before.version))?;
        row.put(&after.state.code())?;
        row.put(&number(after.version))?;
        row.put(&after.due_at().map(Time::as_micros))?;
        row.put(&self.bodies.approval)
    }
}

/// A call with its position, as a row of the type `call`.
pub(super) struct PositionedCall<'a> {
    approval: &'a Approval,
    position: i16,
    pub(super) call: &'a Call,
    body: &'a Vec<u8>,
}

impl PositionedCall<'_> {
    fn original(&self) -> Option<&[u8]> {
        self.call.original.as_ref().map(|original| original.as_bytes())
    }
}

/// Returns the calls of an approval with their positions, in order.
pub(super) fn positioned_calls<'a>(
    (approval, bodies): (&'a Approval, &'a Bodies),
) -> impl Iterator<Item = PositionedCall<'a>> {
    let calls = approval.numbered().zip(&bodies.calls);
    calls.map(move |((position, call), body)| PositionedCall {
        approval,
        position: position.into(),
        call,
        body,
    })
}

impl Composite for PositionedCall<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult {
        row.put(&self.approval.tenant.as_str())?;
        row.put(&self.approval.id.as_bytes().as_slice())?;
        row.put(&self.position)?;
        row.put(&self.call.state.code())?;
        row.put(&self.call.tool.as_str())?;
        row.put(&self.call.arguments.as_bytes())?;
        row.put(&self.original())?;
        row.put(&self.call.result.as_deref())?;
        row.put(&self.call.sealed.as_deref())?;
        row.put(self.body)
    }
}

/// A changed call, as a row of the type `changed_call`. Arguments, result and sealed credential are null if they have
/// not changed.
pub(super) struct ChangedCallRow<'a> {
    pub(super) before: &'a Call,
    pub(super) after: PositionedCall<'a>,
}

impl Composite for ChangedCallRow<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult {
        let (before, positioned, after) = (self.before, &self.after, self.after.call);
        let ended = before.result != after.result || before.sealed != after.sealed;
        let edited = before.arguments != after.arguments || before.original != after.original;
        row.put(&positioned.approval.tenant.as_str())?;
        row.put(&positioned.approval.id.as_bytes().as_slice())?;
        row.put(&positioned.position)?;
        row.put(&after.state.code())?;
        row.put(positioned.body)?;
        row.put(&edited.then(|| after.arguments.as_bytes()))?;
        row.put(&positioned.original())?;
        row.put(&ended)?;
        row.put(&after.result.as_deref().filter(|_| ended))?;
        row.put(&after.sealed.as_deref().filter(|_| ended))
    }
}

/// A new event, as a row of the type `new_event`.
pub(super) struct NewEventRow<'a> {
    pub(super) seq: i32,
    pub(super) approval: &'a Approval,
    pub(super) event: &'a Event,
}

impl Composite for NewEventRow<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> WriteResult {
        let event = self.event;
        row.put(&self.seq)?;
        row.put(&self.approval.tenant.as_str())?;
        row.put(&self.approval.id.as_bytes().as_slice())?;
        row.put(&number(event.number))?;
        row.put(&event.at.as_micros())?;
        row.put(&event.policy.0.as_slice())?;
        row.put(&Actor::to_string(&event.by))?;
        row.put(&event.text())?;
        row.put(&event.link.0.as_slice())?;
        row.put(&event.content.as_ref().map(|content| content.0.as_slice()))
    }
}

/// Converts a version or event number for an `integer` column. Numbers too large for the column become its maximum.
pub(super) fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
