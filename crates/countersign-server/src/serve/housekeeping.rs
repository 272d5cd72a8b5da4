//! Background tasks: sweeping due approvals, running calls released elsewhere, renewing the node's lease, and watching
//! for outcomes that are not recorded yet.

use std::sync::Arc;
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::gate::ReleasedCursor;
use countersign::store::StoreError;
use tokio::sync::Semaphore;

use super::node::{BEAT, Node};
use super::outcomes::OutcomeFile;
use crate::web::App;

/// Interval of the sweep. An approval counts as expired from its deadline on; the sweep only records that.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Time for which changes are collected before released calls are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Interval between checks of the number of unrecorded outcomes.
const COUNT_OUTCOMES_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of calls released elsewhere that run on this node at the same time. Further ones wait.
const MOST_AT_ONCE: usize = 1_000;

/// Runs all background tasks until aborted. `outcomes` is the outcome file of an earlier service, if one is configured.
pub async fn run(app: App, node: Arc<Node>, outcomes: Option<Arc<OutcomeFile>>) {
    tokio::join!(
        sweep(&app),
        run_released(&app),
        stay(&app, &node),
        clear_outcomes(&app, outcomes)
    );
}

/// Logs when the store cannot record outcomes, and when all of them are recorded again. Removes the outcome file of an
/// earlier service once everything in it is recorded.
async fn clear_outcomes(app: &App, mut file: Option<Arc<OutcomeFile>>) {
    let mut ticks = tokio::time::interval(COUNT_OUTCOMES_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut before = 0;
    loop {
        ticks.tick().await;
        let unrecorded = app.gate.unrecorded();
        if unrecorded > 0 && before == 0 {
            tracing::error!(
                "the store cannot record the outcomes of {unrecorded} calls; trying again until it can"
            );
        }
        if unrecorded == 0 && before > 0 {
            tracing::info!("all outcomes are recorded again");
        }
        before = unrecorded;
        if unrecorded == 0
            && let Some(file) = file.take()
        {
            file.remove();
        }
    }
}

/// Renews this node's lease periodically, so that no service with another policy starts while this one runs.
async fn stay(app: &App, node: &Node) {
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if app.stopping.is_cancelled() {
            return;
        }
        let beat = node.beat(app.store()).await;
        if let Err(error) = &beat {
            tracing::warn!("this node could not renew its lease: {error}");
        }
        // The heartbeat writes regularly, even without requests. So its result shows whether this node can write.
        app.writable.note(beat);
    }
}

async fn sweep(app: &App) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut trouble_before = false;
    let mut broken = 0;
    loop {
        ticks.tick().await;
        let trouble = app.store().clock_trouble();
        if let Some(trouble) = trouble.filter(|_| !trouble_before) {
            tracing::error!("{trouble}; {}", trouble.hint());
        }
        trouble_before = trouble.is_some();
        match app.gate.expire_due().await {
            Ok(swept) => {
                // Log only when the number grows, not at every sweep.
                if swept.broken > broken {
                    tracing::error!(
                        approvals = swept.broken,
                        "approvals were changed by something other than this program and are skipped; run `countersign verify`"
                    );
                }
                broken = swept.broken;
                let total = swept.expired + swept.stale + swept.unknown;
                if total > 0 {
                    app.metrics.expired(swept.expired as u64);
                    tracing::info!(
                        expired = swept.expired,
                        stale = swept.stale,
                        unknown = swept.unknown,
                        "ended what was due"
                    );
                }
            }
            Err(error) => tracing::warn!("overdue approvals could not be expired: {error}"),
        }
    }
}

/// Runs calls whose tools run only on this node and that were released elsewhere, for example by a decision on the
/// command line or while this service was down.
async fn run_released(app: &App) {
    let room = Arc::new(Semaphore::new(MOST_AT_ONCE));
    // Subscribe before reading the cursor, so that no change in between is missed.
    let mut changes = app.store().hub().changes();
    let mut cursor = ReleasedCursor::default();
    loop {
        match look_for_released(app, &room, &mut cursor).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!("approved calls could not be listed: {error}"),
        }
        // Several changes are handled together. Calls released by decisions made on this node do not wait for this
        // task.
        tokio::time::sleep(LOOK_EVERY).await;
        if !changes.next().await {
            return;
        }
    }
}

/// Runs the released calls of one page of approvals. Returns true if there are more pages.
async fn look_for_released(
    app: &App,
    room: &Arc<Semaphore>,
    cursor: &mut ReleasedCursor,
) -> Result<bool, StoreError> {
    let (approvals, is_more) = app.gate.next_released(&app.settings.tenant, cursor).await?;
    for approval in approvals {
        run_on(app, room, approval).await;
    }
    Ok(is_more)
}

async fn run_on(app: &App, room: &Arc<Semaphore>, approval: SharedApproval) {
    if app.stopping.is_cancelled() || !approval.is_released() {
        return;
    }
    let app = app.clone();
    let place = room.clone().acquire_owned().await;
    app.runs.clone().spawn(async move {
        let _place = place;
        let id = approval.id;
        if let Err(error) = app.gate.run_released(&app.settings.tenant, approval).await {
            tracing::warn!(%id, "released calls could not be run: {error}");
        }
    });
}
