//! What nobody asks for and still has to be done: ending what is due, and running what was released elsewhere.

use std::sync::Arc;
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::state::State;
use countersign::store::{Cursor, Filter, LONGEST_PAGE, StoreError};

use super::node::{BEAT, Node};
use crate::http::App;

/// Expiry is true before anybody writes it down; this only writes it down.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a decision made elsewhere may wait for us.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs until it is aborted.
pub async fn run(app: App, node: Arc<Node>) {
    tokio::join!(sweep(&app), run_released(&app), stay(&app, &node));
}

/// Keeps this node's lease, so that no service with another policy starts beside it.
async fn stay(app: &App, node: &Node) {
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if app.stopping.is_cancelled() {
            return;
        }
        if let Err(error) = node.beat(app.store()).await {
            tracing::warn!("this node could not say that it is alive: {error}");
        }
    }
}

async fn sweep(app: &App) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match app.gate.expire_due().await {
            Ok(swept) => {
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
            Err(error) => tracing::warn!("what is due could not be ended: {error}"),
        }
    }
}

/// A decision made elsewhere, on the command line say, or while this service was down, may release calls whose tools
/// only this service runs.
async fn run_released(app: &App) {
    // The signal first, the place second: nothing that happens in between is missed.
    let mut changes = app.store().hub().changes();
    let mut from = None;
    loop {
        match look_for_released(app, &mut from).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!("what was released could not be looked for: {error}"),
        }
        // Many changes are looked at together; whoever decided here runs it without us.
        tokio::time::sleep(LOOK_EVERY).await;
        if !changes.next().await {
            return;
        }
    }
}

/// Runs what was released behind a place in the feed, or at all when there is none yet. True when there is more.
async fn look_for_released(app: &App, from: &mut Option<Cursor>) -> Result<bool, StoreError> {
    let tenant = &app.settings.tenant;
    let Some(place) = from else {
        let place = app.store().feed_end(tenant).await?;
        let approved = Filter {
            state: Some(State::Approved),
            limit: Some(LONGEST_PAGE),
            ..Filter::default()
        };
        for approval in app.store().list(tenant, &approved).await? {
            run_on(app, approval);
        }
        *from = Some(place);
        return Ok(true);
    };
    let released = app.store().released(tenant, *place).await?;
    for approval in released.approvals {
        run_on(app, approval);
    }
    *place = released.upto;
    Ok(released.is_more)
}

fn run_on(app: &App, approval: SharedApproval) {
    if app.stopping.is_cancelled() || !approval.is_released() {
        return;
    }
    let app = app.clone();
    app.runs.clone().spawn(async move {
        let id = approval.id;
        if let Err(error) = app.gate.run_released(&app.settings.tenant, approval).await {
            tracing::warn!(%id, "released calls could not be run: {error}");
        }
    });
}
