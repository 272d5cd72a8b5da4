//! `clock`: compares the store's time with the system clock; accepts the system clock or resets the store's time.

use std::path::Path;
use std::sync::Arc;

use countersign::command::{Answer, Command, Void, Voided};
use countersign::id::Tenant;
use countersign::registry::{Entry, Kind, Put};
use countersign::store::Store;
use countersign::time::{Clock as _, ClockTrouble, SystemClock, Time};
use countersign_store::sqlite::{CLOCK_RESET, SqliteOptions, is_unused};

use crate::cli::{Clock, Global};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{Missing, Watch};
use crate::trust::StorePlace;
use crate::{duration, policy, store};

pub async fn run(global: &Global, options: &Clock, output: &mut Output) -> Result<Exit, Failure> {
    if global.server.is_some() {
        return Err(
            Failure::usage("`clock` needs direct access to the store and cannot use a server")
                .hint("leave out `--server` and COUNTERSIGN_SERVER"),
        );
    }
    if options.reset {
        let voided = reset(global).await?;
        report_reset(voided, output)?;
        if output.is_json {
            return Ok(Exit::Done);
        }
    }
    if options.accept {
        accept(global).await?;
    }
    let opened = store::open(global.store(), Missing::Refuse, Watch::Nobody).await?;
    let now = opened.now().await?;
    show(now, SystemClock::default().now(), opened.clock_trouble(), output)
}

fn show(
    store: Time,
    machine: Time,
    trouble: Option<ClockTrouble>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (ahead, behind) = (store.since(machine), machine.since(store));
    if output.is_json {
        let seconds = ahead.as_secs_f64() - behind.as_secs_f64();
        let (store, machine) = (store.to_string(), machine.to_string());
        let trouble = trouble.map(|trouble| trouble.to_string());
        let shown = serde_json::json!({
            "store": store, "machine": machine, "aheadSeconds": seconds, "trouble": trouble
        });
        output.json(&shown)?;
        return Ok(Exit::Done);
    }
    output.line(&format!("store    {store}"));
    output.line(&format!("machine  {machine}"));
    let apart = ahead.max(behind);
    output.line(&match (apart.as_secs() > 5, ahead > behind) {
        (false, _) => "they agree".to_owned(),
        (true, true) => format!("the store is {} ahead of this machine", duration::show(apart)),
        (true, false) => format!("the store is {} behind this machine", duration::show(apart)),
    });
    if let Some(trouble) = trouble {
        output.line(&format!("{trouble}\nhint: {}", trouble.hint()));
    }
    Ok(Exit::Done)
}

fn report_reset(voided: Voided, output: &mut Output) -> Result<(), Failure> {
    let (pending, released, running) = (voided.pending, voided.released, voided.running);
    match output.is_json {
        true => output
            .json(&serde_json::json!({ "pending": pending, "released": released, "running": running }))?,
        false => output.line(&format!(
            "reset; ended, because their time has not come yet: {pending} pending, {released} approved and not started, \
             {running} running"
        )),
    }
    Ok(())
}

/// Sets the store's clock to the system clock at once, without waiting until the jump is confirmed. Running processes
/// follow within ten minutes.
async fn accept(global: &Global) -> Result<(), Failure> {
    let found = file(global)?;
    let machine = SystemClock::default();
    let known = store::open_sqlite(&found.path, SqliteOptions::default())?;
    if let Some(ClockTrouble::StoreIsAhead(ahead)) = known.clock_trouble() {
        let ahead = duration::show(ahead);
        let message = format!(
            "the store's clock is {ahead} ahead of this machine's clock and does not go back by itself"
        );
        return Err(Failure::error("store_ahead", message)
            .hint("set this machine's clock; if it is right, stop every service and run `countersign clock --reset`"));
    }
    known.close().await;
    let options = SqliteOptions {
        clock: Some(Arc::new(machine)),
        other_processes: false,
    };
    let store = store::open_sqlite(&found.path, options)?;
    // A write also saves the clock's time if that differs from the saved one. Taking an entry that does not exist is
    // such a write.
    store.take_entry(Kind::Setting, "clock/accept").await?;
    store.close().await;
    Ok(())
}

/// Returns the SQLite file of the store. Fails if it does not exist, or if the store is in PostgreSQL.
fn file(global: &Global) -> Result<StorePlace, Failure> {
    let place = global.store();
    if store::is_postgres(place) {
        return Err(Failure::usage(
            "with PostgreSQL the server's clock counts, so there is nothing to reset",
        )
        .hint("set the clock of the machine that PostgreSQL runs on"));
    }
    if matches!(Path::new(place).try_exists(), Ok(false)) {
        let message = format!("there is no store at `{place}`");
        return Err(Failure::error("no_store", message).hint("name another store with `--store`"));
    }
    StorePlace::find(Path::new(place))
}

/// Sets the store's clock back to the system clock. Ends open approvals that were last changed after the new time.
/// Fails if another process uses the store.
async fn reset(global: &Global) -> Result<Voided, Failure> {
    let found = file(global)?;
    let policy = policy::load(global.policy.as_deref())?.policy.hash();
    if !is_unused(&found.path).map_err(|error| store::unusable(&found.path, &error))? {
        let message = format!("`{}` is in use, by a service or a gateway", found.path.display());
        return Err(Failure::error("store_in_use", message)
            .hint("first stop every service, gateway and agent that uses it: they would keep the old time"));
    }
    let machine = SystemClock::default();
    let now = machine.now();
    let options = SqliteOptions {
        clock: Some(Arc::new(machine)),
        other_processes: false,
    };
    let store = store::open_sqlite(&found.path, options)?;
    let void = Void {
        limit: usize::try_from(i32::MAX).unwrap_or_default(),
        policy,
        changed_after: Some(now),
    };
    let Answer::Void(voided) = store.write(Command::Void(void)).await? else {
        return Err(Failure::error(
            "store",
            "internal error: the store returned an unexpected answer",
        ));
    };
    forget_times(&store).await?;
    store.close().await;
    Ok(voided)
}

/// Records the sequence number of the last event. From then on, the store's clock ignores the times of events up to
/// this number; without the record, it never goes back before the time of the last event.
async fn forget_times(store: &dyn Store) -> Result<(), Failure> {
    let tenant = Tenant::single();
    let last = store.feed_end(&tenant).await?.sequence;
    let before = store.entry(Kind::Setting, CLOCK_RESET).await?;
    let entry = Entry {
        kind: Kind::Setting,
        key: CLOCK_RESET.to_owned(),
        tenant,
        body: last.to_string().into_bytes().into(),
        version: before.map_or(0, |before| before.version),
        expires_at: None,
    };
    match store.put_entry(entry).await? {
        Put::Written(_) => Ok(()),
        Put::Conflict => {
            Err(Failure::error("changed", "somebody else is resetting the clock").hint("try again"))
        }
    }
}
