//! Commands on rows that were tampered with.

use super::*;
use crate::call::Arguments;
use crate::store::memory::MemoryStore;
use crate::store::suite::{Fixture, sample};

/// A store of one approval that accepts no writes.
struct OnlyRow(Approval);

impl Rows for OnlyRow {
    fn approval(&mut self, _: &Tenant, _: ApprovalId) -> Result<Option<Approval>, StoreError> {
        Ok(Some(self.0.clone()))
    }
    fn pending_in(&mut self, _: &Tenant, _: &Channel) -> Result<Option<Approval>, StoreError> {
        Ok(None)
    }
    fn by_key(&mut self, _: &Tenant, _: &Agent, _: &Key) -> Result<Option<Approval>, StoreError> {
        Ok(None)
    }
    fn due(&mut self, _: Time, _: usize) -> Result<Vec<Approval>, StoreError> {
        Ok(Vec::new())
    }
    fn pending_of(&mut self, _: &Tenant, _: &Agent, _: usize) -> Result<Vec<Approval>, StoreError> {
        Ok(Vec::new())
    }
    fn save(&mut self, _: SavedApproval) -> Result<(), StoreError> {
        Ok(())
    }
    fn entry(&mut self, _: Kind, _: &str) -> Result<Option<Entry>, StoreError> {
        Ok(None)
    }
    fn due_entries(&mut self, _: Time, _: usize) -> Result<Vec<(Kind, String)>, StoreError> {
        Ok(Vec::new())
    }
    fn keep_entry(&mut self, _: Entry) -> Result<(), StoreError> {
        Ok(())
    }
    fn remove_entry(&mut self, _: Kind, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
    fn remove_kind(&mut self, _: Kind) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn i7_bytes_that_were_changed_in_the_store_are_neither_approved_nor_started() {
    let clock = Fixture::clock();
    let store = MemoryStore::with_clock(clock.clone());
    let fixture = Fixture::new(Arc::new(store), clock);
    let pending = fixture.propose(sample::batch(1, 2)).await;
    let released = fixture.accept(sample::approve(&pending)).await;
    let approve = Command::Decide(Box::new(sample::approve(&pending)));
    let start = Command::Start(sample::start(&released, 1, 1));
    let approve_and_start = Command::Decide(Box::new(Decide {
        start: Some(sample::permit(1)),
        ..sample::approve(&pending)
    }));
    type Change = fn(&mut Approval);
    let changes: [(&str, Change); 4] = [
        ("bytes", |approval| {
            approval.calls[0].arguments = Arguments::stored(&b"{}"[..])
        }),
        ("expiry", |approval| {
            approval.expires_at = approval.expires_at.plus(sample::TTL)
        }),
        ("requester", |approval| approval.requester = sample::person("x")),
        ("tool", |approval| {
            approval.calls[0].tool = crate::id::ToolName::new("delete_everything").unwrap();
        }),
    ];
    for (approval, command) in [
        (&pending, &approve),
        (&pending, &approve_and_start),
        (&released, &start),
    ] {
        let mut row = OnlyRow(Approval::clone(approval));
        assert!(command.apply(&mut row, sample::BEGINNING).is_ok());
        for (what, change) in changes {
            let mut row = OnlyRow(Approval::clone(approval));
            change(&mut row.0);
            let answer = command.apply(&mut row, sample::BEGINNING);
            assert!(matches!(answer, Err(StoreError::Impossible(_))), "{what}");
        }
    }
    // Arguments changed together with the call's digest do not match the approval's digest.
    let mut forged = Approval::clone(&pending);
    forged.calls[1].arguments = Arguments::stored(&b"{}"[..]);
    forged.calls[1].digest = forged.calls[1].digest_in(&forged, 2);
    let answer = approve.apply(&mut OnlyRow(forged), sample::BEGINNING);
    assert!(matches!(answer, Err(StoreError::Impossible(_))));
}
