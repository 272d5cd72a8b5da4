//! What is written of an approval, a call and an event: each as a row of a type in the schema, in that type's order.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::event::Event;
use countersign::id::Actor;
use countersign::store::record::{encode_approval, encode_call};
use countersign::time::Time;

use super::composite::{Composite, RowWriter};

type Written = Result<(), Box<dyn std::error::Error + Sync + Send>>;

/// A row of `approval`.
pub(super) struct NewApproval<'a>(pub(super) &'a Approval);

impl Composite for NewApproval<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> Written {
        let NewApproval(new) = self;
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
        row.put(&encode_approval(new))
    }
}

/// A row of `changed_approval`.
pub(super) struct ChangedApproval<'a> {
    pub(super) before: &'a Approval,
    pub(super) after: &'a Approval,
}

impl Composite for ChangedApproval<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> Written {
        let after = self.after;
        row.put(&after.tenant.as_str())?;
        row.put(&after.id.as_bytes().as_slice())?;
        row.put(&number(self.before.version))?;
        row.put(&after.state.code())?;
        row.put(&number(after.version))?;
        row.put(&after.due_at().map(Time::as_micros))?;
        row.put(&encode_approval(after))
    }
}

/// A call in its place: a row of `call`.
pub(super) struct Placed<'a> {
    approval: &'a Approval,
    position: i16,
    pub(super) call: &'a Call,
}

impl Placed<'_> {
    fn original(&self) -> Option<&[u8]> {
        self.call.original.as_ref().map(|original| original.as_bytes())
    }
}

/// The calls of an approval, in order.
pub(super) fn placed(approval: &Approval) -> impl Iterator<Item = Placed<'_>> {
    approval.numbered().map(move |(position, call)| Placed {
        approval,
        position: position.into(),
        call,
    })
}

impl Composite for Placed<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> Written {
        row.put(&self.approval.tenant.as_str())?;
        row.put(&self.approval.id.as_bytes().as_slice())?;
        row.put(&self.position)?;
        row.put(&self.call.state.code())?;
        row.put(&self.call.tool.as_str())?;
        row.put(&self.call.arguments.as_bytes())?;
        row.put(&self.original())?;
        row.put(&self.call.result.as_deref())?;
        row.put(&self.call.sealed.as_deref())?;
        row.put(&encode_call(self.call))
    }
}

/// A row of `changed_call`.
pub(super) struct ChangedCall<'a> {
    pub(super) before: &'a Call,
    pub(super) after: Placed<'a>,
}

impl Composite for ChangedCall<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> Written {
        let (before, placed, after) = (self.before, &self.after, self.after.call);
        let ended = before.result != after.result || before.sealed != after.sealed;
        let edited = before.arguments != after.arguments || before.original != after.original;
        row.put(&placed.approval.tenant.as_str())?;
        row.put(&placed.approval.id.as_bytes().as_slice())?;
        row.put(&placed.position)?;
        row.put(&after.state.code())?;
        row.put(&encode_call(after))?;
        row.put(&edited.then(|| after.arguments.as_bytes()))?;
        row.put(&placed.original())?;
        row.put(&ended)?;
        row.put(&after.result.as_deref().filter(|_| ended))?;
        row.put(&after.sealed.as_deref().filter(|_| ended))
    }
}

/// A row of `new_event`.
pub(super) struct NewEvent<'a> {
    pub(super) seq: i32,
    pub(super) approval: &'a Approval,
    pub(super) event: &'a Event,
}

impl Composite for NewEvent<'_> {
    fn write(&self, row: &mut RowWriter<'_>) -> Written {
        let event = self.event;
        row.put(&self.seq)?;
        row.put(&self.approval.tenant.as_str())?;
        row.put(&self.approval.id.as_bytes().as_slice())?;
        row.put(&number(event.number))?;
        row.put(&event.at.as_micros())?;
        row.put(&event.policy.0.as_slice())?;
        row.put(&Actor::to_string(&event.by))?;
        row.put(&event.text())?;
        row.put(&event.link.0.as_slice())
    }
}

/// A version or number, for a column.
pub(super) fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
