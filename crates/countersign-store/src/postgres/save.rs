//! Writing a group: a few statements over arrays, however many commands there were.
//!
//! INVARIANT: an approval is updated only from the version it was read at. All statements and the COMMIT are sent at
//! once, so a mismatch cannot be left to us to notice: the statement itself fails, by dividing by zero, and with it
//! the transaction.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::event::Event;
use countersign::id::Actor;
use countersign::store::record::{encode_approval, encode_call};
use countersign::time::Time;
use futures_util::FutureExt as _;
use futures_util::future::join3;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::rows::Entry;

// Large values are sent and written only where they changed.
const UPDATE: &str = "
    WITH changed AS (
        UPDATE approval a
        SET state = u.state, version = u.version, due_at = u.due_at, body = u.body
        FROM unnest($1::text[], $2::bytea[], $3::integer[], $4::smallint[], $5::integer[], $6::bigint[], $7::bytea[])
             AS u(tenant, id, version_before, state, version, due_at, body)
        WHERE a.tenant = u.tenant AND a.id = u.id AND a.version = u.version_before
        RETURNING 1),
    changed_calls AS (
        UPDATE call c
        SET state = u.state, body = u.body,
            arguments = CASE WHEN u.arguments IS NULL THEN c.arguments ELSE u.arguments END,
            original = CASE WHEN u.arguments IS NULL THEN c.original ELSE u.original END,
            result = CASE WHEN u.ended THEN u.result ELSE c.result END,
            sealed = CASE WHEN u.ended THEN u.sealed ELSE c.sealed END
        FROM unnest($8::text[], $9::bytea[], $10::smallint[], $11::smallint[], $12::bytea[], $13::bytea[],
                    $14::bytea[], $15::boolean[], $16::bytea[], $17::bytea[])
             AS u(tenant, approval, position, state, body, arguments, original, ended, result, sealed)
        WHERE c.tenant = u.tenant AND c.approval = u.approval AND c.position = u.position
        RETURNING 1)
    SELECT 1 / ((SELECT count(*) FROM changed) = cardinality($1)
            AND (SELECT count(*) FROM changed_calls) = cardinality($8))::integer";

const INSERT_EVENTS: &str = "
    INSERT INTO event (seq, tenant, approval, number, at, policy, by, what, link)
    SELECT * FROM unnest($1::integer[], $2::text[], $3::bytea[], $4::integer[], $5::bigint[], $6::bytea[], $7::text[],
                         $8::text[], $9::bytea[])";

/// New approvals, their calls, and all events.
const INSERT: &str = "
    WITH new AS (
        INSERT INTO approval (tenant, id, channel, agent, run, state, version, due_at, expires_at, key, undoes, body)
        SELECT * FROM unnest($10::text[], $11::bytea[], $12::text[], $13::text[], $14::text[], $15::smallint[],
                             $16::integer[], $17::bigint[], $18::bigint[], $19::text[], $20::bytea[], $21::bytea[])),
    new_calls AS (
        INSERT INTO call (tenant, approval, position, state, tool, arguments, original, result, sealed, body)
        SELECT * FROM unnest($22::text[], $23::bytea[], $24::smallint[], $25::smallint[], $26::text[], $27::bytea[],
                             $28::bytea[], $29::bytea[], $30::bytea[], $31::bytea[]))";

type Parameters<'a, const COUNT: usize> = [&'a (dyn ToSql + Sync); COUNT];

/// The statements that write, prepared on one connection.
pub(super) struct Writes {
    update: Statement,
    insert: Statement,
    insert_events: Statement,
}

impl Writes {
    pub(super) async fn prepare(client: &Client) -> Result<Writes, Error> {
        Ok(Writes {
            update: client.prepare(UPDATE).await?,
            insert: client.prepare(&format!("{INSERT}{INSERT_EVENTS}")).await?,
            insert_events: client.prepare(INSERT_EVENTS).await?,
        })
    }

    /// Writes all entries and commits, in one exchange, and sends what `behind` sends in the same flight. The error is
    /// the first that happened.
    pub(super) async fn save_and_commit(
        &self,
        client: &Client,
        entries: &[Entry],
        behind: impl FnOnce(),
    ) -> Result<(), Error> {
        // The driver sends in the order in which these are first polled, which is the order they stand in.
        let failed = AtomicBool::new(false);
        let (changed, new, committed) = join3(
            // The old approval of a channel leaves before the new one enters.
            noting(&failed, self.update(client, entries)),
            noting(&failed, self.insert(client, entries)),
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
        changed.and(new).and(committed)
    }

    async fn update(&self, client: &Client, entries: &[Entry]) -> Result<(), Error> {
        let changed: Vec<(&Approval, &Approval)> = changed(entries).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let body: Vec<Vec<u8>> = changed.iter().map(|(_, after)| encode_approval(after)).collect();
        let pairs = changed
            .iter()
            .flat_map(|(before, after)| before.calls.iter().zip(placed(after)));
        let calls: Vec<(&Call, Placed<'_>)> = pairs.filter(|(before, after)| *before != after.call).collect();
        let call_body: Vec<Vec<u8>> = calls.iter().map(|(_, after)| encode_call(after.call)).collect();
        let ended = |(before, after): &(&Call, Placed<'_>)| {
            before.result != after.call.result || before.sealed != after.call.sealed
        };
        let edited = |(before, after): &(&Call, Placed<'_>)| {
            before.arguments != after.call.arguments || before.original != after.call.original
        };
        let parameters: Parameters<'_, 17> = [
            &column(&changed, |(_, after)| after.tenant.as_str()),
            &column(&changed, |(_, after)| after.id.as_bytes().as_slice()),
            &column(&changed, |(before, _)| number(before.version)),
            &column(&changed, |(_, after)| after.state.code()),
            &column(&changed, |(_, after)| number(after.version)),
            &column(&changed, |(_, after)| after.due_at().map(Time::as_micros)),
            &body,
            &column(&calls, |(_, placed)| placed.approval.tenant.as_str()),
            &column(&calls, |(_, placed)| placed.approval.id.as_bytes().as_slice()),
            &column(&calls, |(_, placed)| placed.position),
            &column(&calls, |(_, placed)| placed.call.state.code()),
            &call_body,
            &column(&calls, |pair| {
                edited(pair).then(|| pair.1.call.arguments.as_bytes())
            }),
            &column(&calls, |(_, placed)| placed.original()),
            &column(&calls, ended),
            &column(&calls, |pair| {
                pair.1.call.result.as_deref().filter(|_| ended(pair))
            }),
            &column(&calls, |pair| {
                pair.1.call.sealed.as_deref().filter(|_| ended(pair))
            }),
        ];
        client.query(&self.update, &parameters).await.map(|_| ())
    }

    async fn insert(&self, client: &Client, entries: &[Entry]) -> Result<(), Error> {
        let events = entries
            .iter()
            .flat_map(|entry| entry.events.iter().map(|event| (&*entry.after, event)));
        let events: Vec<(&Approval, &Event)> = events.collect();
        let by: Vec<String> = events
            .iter()
            .map(|(_, event)| Actor::to_string(&event.by))
            .collect();
        // The place within the transaction; the transaction itself is the column's default.
        let seq: Vec<i32> = (1i32..).take(events.len()).collect();
        let of_events: Parameters<'_, 9> = [
            &seq,
            &column(&events, |(approval, _)| approval.tenant.as_str()),
            &column(&events, |(approval, _)| approval.id.as_bytes().as_slice()),
            &column(&events, |(_, event)| number(event.number)),
            &column(&events, |(_, event)| event.at.as_micros()),
            &column(&events, |(_, event)| event.policy.0.as_slice()),
            &by,
            &column(&events, |(_, event)| event.text()),
            &column(&events, |(_, event)| event.link.0.as_slice()),
        ];
        let new: Vec<&Approval> = added(entries).collect();
        if new.is_empty() {
            if events.is_empty() {
                return Ok(());
            }
            return client.execute(&self.insert_events, &of_events).await.map(|_| ());
        }
        let body: Vec<Vec<u8>> = new.iter().map(|new| encode_approval(new)).collect();
        let calls: Vec<Placed<'_>> = new.iter().copied().flat_map(placed).collect();
        let call_body: Vec<Vec<u8>> = calls.iter().map(|placed| encode_call(placed.call)).collect();
        let of_new: Parameters<'_, 22> = [
            &column(&new, |new| new.tenant.as_str()),
            &column(&new, |new| new.id.as_bytes().as_slice()),
            &column(&new, |new| new.channel.as_ref().map(|channel| channel.as_str())),
            &column(&new, |new| new.agent.as_str()),
            &column(&new, |new| new.run.as_ref().map(|run| run.as_str())),
            &column(&new, |new| new.state.code()),
            &column(&new, |new| number(new.version)),
            &column(&new, |new| new.due_at().map(Time::as_micros)),
            &column(&new, |new| new.expires_at.as_micros()),
            &column(&new, |new| new.key.as_ref().map(|(key, _)| key.as_str())),
            &column(&new, |new| {
                new.undoes
                    .as_ref()
                    .map(|call| call.approval.as_bytes().as_slice())
            }),
            &body,
            &column(&calls, |placed| placed.approval.tenant.as_str()),
            &column(&calls, |placed| placed.approval.id.as_bytes().as_slice()),
            &column(&calls, |placed| placed.position),
            &column(&calls, |placed| placed.call.state.code()),
            &column(&calls, |placed| placed.call.tool.as_str()),
            &column(&calls, |placed| placed.call.arguments.as_bytes()),
            &column(&calls, Placed::original),
            &column(&calls, |placed| placed.call.result.as_deref()),
            &column(&calls, |placed| placed.call.sealed.as_deref()),
            &call_body,
        ];
        let all: Vec<&(dyn ToSql + Sync)> = of_events.into_iter().chain(of_new).collect();
        client.execute(&self.insert, &all).await.map(|_| ())
    }
}

async fn noting(failed: &AtomicBool, write: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let result = write.await;
    if result.is_err() {
        failed.store(true, Ordering::Relaxed);
    }
    result
}

/// A call in its place.
struct Placed<'a> {
    approval: &'a Approval,
    position: i16,
    call: &'a Call,
}

impl Placed<'_> {
    fn original(&self) -> Option<&[u8]> {
        self.call.original.as_ref().map(|original| original.as_bytes())
    }
}

fn placed(approval: &Approval) -> impl Iterator<Item = Placed<'_>> {
    approval.numbered().map(move |(position, call)| Placed {
        approval,
        position: position.into(),
        call,
    })
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

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
