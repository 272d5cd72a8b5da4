//! What nobody asks for and still has to be done: ending what is due, and running what was released elsewhere.

use std::time::Duration;

use countersign::event::What;
use countersign::state::CallState;
use tokio::sync::broadcast::error::RecvError;

use crate::http::App;

/// Expiry is true before anybody writes it down; this only writes it down.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Runs until it is aborted.
pub async fn run(app: App) {
    tokio::join!(sweep(&app), run_released(&app));
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

/// A decision made elsewhere, on the command line say, may release calls whose tools only this service runs.
async fn run_released(app: &App) {
    let tenant = &app.settings.tenant;
    loop {
        let Ok(mut live) = app.feeds.listen(app, tenant).await else {
            tokio::time::sleep(SWEEP_EVERY).await;
            continue;
        };
        loop {
            match live.recv().await {
                Ok(happened) => {
                    let is_release = matches!(happened.event.what, What::Approved { .. });
                    let released = |approval: &countersign::approval::Approval| {
                        approval
                            .calls
                            .iter()
                            .any(|call| call.state == CallState::Released)
                    };
                    if is_release && released(&happened.approval) && !app.stopping.is_cancelled() {
                        let (app, approval) = (app.clone(), happened.approval.clone());
                        app.runs.clone().spawn(async move {
                            let id = approval.id;
                            if let Err(error) = app.gate.run_released(&app.settings.tenant, approval).await {
                                tracing::warn!(%id, "released calls could not be run: {error}");
                            }
                        });
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            }
        }
    }
}
