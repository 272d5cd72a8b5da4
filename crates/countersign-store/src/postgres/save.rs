//! Writes the approvals of a group with one statement, whose parameters are arrays, however many commands there were.
//!
//! INVARIANT: an approval is updated only from the version it was read at. The COMMIT is sent together with the
//! statement, so on a mismatch the statement itself has to abort the transaction: it divides by zero.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign::approval::Approval;
use countersign::store::record::Bodies;
use futures_util::FutureExt as _;
use futures_util::future::join4;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::composite::AsRow;
use super::composite_rows::{
    ChangedApprovalRow, ChangedCallRow, NewApprovalRow, NewEventRow, positioned_calls,
};
use super::entries::{EntryChanges, EntryStatements};
use super::rows::WorkingApproval;

const INSERT_EVENTS: &str = "
    INSERT INTO event (seq, tenant, approval, number, at, policy, by, what, link, content)
    SELECT * FROM unnest($1::new_event[])";

/// Writes everything that a group changed and added. Large values are sent and written only if they changed.
///
/// The old approval of a channel is updated before the new one is inserted, as the unique index requires: the insert
/// depends on `checked`, which depends on all updates.
const UPDATE_AND_INSERT: &str = "
    WITH changed AS (
        UPDATE approval a
        SET state = u.state, version = u.version, due_at = u.due_at, body = u.body
        FROM unnest($4::changed_approval[]) u
        WHERE a.tenant = u.tenant AND a.id = u.id AND a.version = u.version_before
        RETURNING 1),
    changed_calls AS (
        UPDATE call c
        SET state = u.state, body = u.body,
            arguments = CASE WHEN u.arguments IS NULL THEN c.arguments ELSE u.arguments END,
            original = CASE WHEN u.arguments IS NULL THEN c.original ELSE u.original END,
            result = CASE WHEN u.ended THEN u.result ELSE c.result END,
            sealed = CASE WHEN u.ended THEN u.sealed ELSE c.sealed END
        FROM unnest($5::changed_call[]) u
        WHERE c.tenant = u.tenant AND c.approval = u.approval AND c.position = u.position
        RETURNING 1),
    checked AS (
        SELECT 1 / ((SELECT count(*) FROM changed) = cardinality($4)
                AND (SELECT count(*) FROM changed_calls) = cardinality($5))::integer AS one),
    new AS (INSERT INTO approval SELECT * FROM unnest($2::approval[]) WHERE (SELECT one FROM checked) = 1),
    new_calls AS (INSERT INTO call SELECT * FROM unnest($3::call[]))";

/// The statements that write, prepared on one connection.
pub(super) struct WriteStatements {
    update_and_insert: Statement,
}

impl WriteStatements {
    pub(super) async fn prepare(client: &Client) -> Result<WriteStatements, Error> {
        let all = format!("{UPDATE_AND_INSERT}, events AS ({INSERT_EVENTS}) SELECT one FROM checked");
        Ok(WriteStatements {
            update_and_insert: client.prepare(&all).await?,
        })
    }

    /// Writes approvals and registry entries and runs `commit`, all in one round trip. Calls `after_commit` once the
    /// commit has been sent, so that statements it sends follow right behind. Returns the first error.
    pub(super) async fn save_and_commit(
        &self,
        client: &Client,
        entries: &[WorkingApproval],
        (statements, changes): (&EntryStatements, &EntryChanges),
        commit: &str,
        after_commit: impl FnOnce(),
    ) -> Result<(), Error> {
        // The driver sends statements in the order in which they are first polled, which is the order of these
        // arguments.
        let failed = AtomicBool::new(false);
        let (written, removed, upserted, committed) = join4(
            record_failure(&failed, self.write(client, entries)),
            record_failure(&failed, statements.remove(client, changes)),
            record_failure(&failed, statements.upsert(client, changes)),
            async {
                // A statement that is too large is never sent, so it does not abort the transaction at the server.
                if failed.load(Ordering::Relaxed) {
                    return client.batch_execute("ROLLBACK").await;
                }
                let mut commit = pin!(client.batch_execute(commit));
                // The first poll sends the COMMIT, so statements that are sent from here on come after it.
                let early_answer = commit.as_mut().now_or_never();
                after_commit();
                match early_answer {
                    Some(committed) => committed,
                    None => commit.await,
                }
            },
        )
        .await;
        written.and(removed).and(upserted).and(committed)
    }

    async fn write(&self, client: &Client, entries: &[WorkingApproval]) -> Result<(), Error> {
        let events = entries
            .iter()
            .flat_map(|entry| entry.events.iter().map(|event| (&*entry.after, event)));
        // An event's number within the transaction. The database fills in the transaction id.
        let events = (1i32..).zip(events);
        let events = events.map(|(seq, (approval, event))| AsRow(NewEventRow { seq, approval, event }));
        let events: Vec<_> = events.collect();
        let new_calls: Vec<_> = new_approvals(entries)
            .flat_map(positioned_calls)
            .map(AsRow)
            .collect();
        let new: Vec<_> = new_approvals(entries)
            .map(|(new, bodies)| AsRow(NewApprovalRow(new, bodies)))
            .collect();
        let pairs = changed_approvals(entries)
            .flat_map(|(before, after, bodies)| before.calls.iter().zip(positioned_calls((after, bodies))));
        let calls = pairs.filter(|(before, after)| *before != after.call);
        let calls = calls.map(|(before, after)| AsRow(ChangedCallRow { before, after }));
        let calls: Vec<_> = calls.collect();
        let changed = changed_approvals(entries).map(|(before, after, bodies)| {
            AsRow(ChangedApprovalRow {
                before,
                after,
                bodies,
            })
        });
        let changed: Vec<_> = changed.collect();
        if !changed.is_empty() || !new.is_empty() {
            let all: [&(dyn ToSql + Sync); 5] = [&events, &new, &new_calls, &changed, &calls];
            client.query(&self.update_and_insert, &all).await?;
        }
        Ok(())
    }
}

async fn record_failure(
    failed: &AtomicBool,
    write: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let result = write.await;
    if result.is_err() {
        failed.store(true, Ordering::Relaxed);
    }
    result
}

fn new_approvals(entries: &[WorkingApproval]) -> impl Iterator<Item = (&Approval, &Bodies)> {
    let new = entries.iter().filter(|entry| entry.before.is_none());
    new.filter_map(|entry| Some((&*entry.after, entry.bodies.as_ref()?)))
}

fn changed_approvals(entries: &[WorkingApproval]) -> impl Iterator<Item = (&Approval, &Approval, &Bodies)> {
    entries
        .iter()
        .filter_map(|entry| Some((entry.before.as_deref()?, &*entry.after, entry.bodies.as_ref()?)))
}
