//! Writing a group: one statement over arrays, however many commands there were.
//!
//! INVARIANT: an approval is updated only from the version it was read at. The statement and the COMMIT are sent at
//! once, so a mismatch cannot be left to us to notice: the statement itself fails, by dividing by zero, and with it
//! the transaction.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign::approval::Approval;
use futures_util::FutureExt as _;
use futures_util::future::join4;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::composite::AsRow;
use super::entries::{Changes, EntryStatements};
use super::fields::{ChangedApproval, ChangedCall, NewApproval, NewEvent, placed};
use super::rows::Entry;

const INSERT_EVENTS: &str = "
    INSERT INTO event (seq, tenant, approval, number, at, policy, by, what, link)
    SELECT * FROM unnest($1::new_event[])";

/// New approvals, their calls, and their events.
const INSERT: &str = "
    WITH new AS (INSERT INTO approval SELECT * FROM unnest($2::approval[])),
    new_calls AS (INSERT INTO call SELECT * FROM unnest($3::call[]))";

/// All that a group changed and added. Large values are sent and written only where they changed.
///
/// The old approval of a channel leaves before the new one enters: a new row waits for the check, which waits for all
/// that is changed.
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
pub(super) struct Writes {
    insert: Statement,
    update_and_insert: Statement,
}

impl Writes {
    pub(super) async fn prepare(client: &Client) -> Result<Writes, Error> {
        let insert = format!("{INSERT} {INSERT_EVENTS}");
        let all = format!("{UPDATE_AND_INSERT}, events AS ({INSERT_EVENTS}) SELECT one FROM checked");
        Ok(Writes {
            insert: client.prepare(&insert).await?,
            update_and_insert: client.prepare(&all).await?,
        })
    }

    /// Writes all entries, and those of the registry, and commits, in one exchange, and sends what `behind` sends in the same flight. The error is
    /// the first that happened.
    pub(super) async fn save_and_commit(
        &self,
        client: &Client,
        entries: &[Entry],
        (statements, changes): (&EntryStatements, &Changes),
        behind: impl FnOnce(),
    ) -> Result<(), Error> {
        // The driver sends in the order in which these are first polled, which is the order they stand in.
        let failed = AtomicBool::new(false);
        let (written, removed, kept, committed) = join4(
            noting(&failed, self.write(client, entries)),
            noting(&failed, statements.remove(client, changes)),
            noting(&failed, statements.keep(client, changes)),
            async {
                // A statement that could not even be sent, for its size, aborts nothing at the server.
                if failed.load(Ordering::Relaxed) {
                    return client.batch_execute("ROLLBACK").await;
                }
                let mut commit = pin!(client.batch_execute("COMMIT"));
                // It is on its way when it was polled once; what is sent now is behind it.
                let at_once = commit.as_mut().now_or_never();
                behind();
                match at_once {
                    Some(committed) => committed,
                    None => commit.await,
                }
            },
        )
        .await;
        written.and(removed).and(kept).and(committed)
    }

    async fn write(&self, client: &Client, entries: &[Entry]) -> Result<(), Error> {
        let events = entries
            .iter()
            .flat_map(|entry| entry.events.iter().map(|event| (&*entry.after, event)));
        // The place within the transaction; the transaction itself is the column's default.
        let events = (1i32..).zip(events);
        let events = events.map(|(seq, (approval, event))| AsRow(NewEvent { seq, approval, event }));
        let events: Vec<_> = events.collect();
        let new_calls: Vec<_> = added(entries).flat_map(placed).map(AsRow).collect();
        let new: Vec<_> = added(entries).map(|new| AsRow(NewApproval(new))).collect();
        let pairs = changed(entries).flat_map(|(before, after)| before.calls.iter().zip(placed(after)));
        let calls = pairs.filter(|(before, after)| *before != after.call);
        let calls = calls.map(|(before, after)| AsRow(ChangedCall { before, after }));
        let calls: Vec<_> = calls.collect();
        let changed = changed(entries).map(|(before, after)| AsRow(ChangedApproval { before, after }));
        let changed: Vec<_> = changed.collect();
        if !changed.is_empty() {
            let all: [&(dyn ToSql + Sync); 5] = [&events, &new, &new_calls, &changed, &calls];
            client.query(&self.update_and_insert, &all).await?;
        } else if !new.is_empty() {
            let all: [&(dyn ToSql + Sync); 3] = [&events, &new, &new_calls];
            client.execute(&self.insert, &all).await?;
        }
        Ok(())
    }
}

async fn noting(failed: &AtomicBool, write: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let result = write.await;
    if result.is_err() {
        failed.store(true, Ordering::Relaxed);
    }
    result
}

fn added(entries: &[Entry]) -> impl Iterator<Item = &Approval> {
    let new = entries.iter().filter(|entry| entry.before.is_none());
    new.map(|entry| &*entry.after)
}

fn changed(entries: &[Entry]) -> impl Iterator<Item = (&Approval, &Approval)> {
    let pairs = entries
        .iter()
        .map(|entry| (entry.before.as_deref(), &*entry.after));
    pairs.filter_map(|(before, after)| Some((before?, after)))
}
