//! Following what is decided: a card that ended anywhere lets its talk go on.
//!
//! Enters: the feed of events, and at the start what ended while the service was down. Leaves: resumed talks.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::event::What;
use countersign::state::State;
use countersign::store::{Filter, LONGEST_PAGE, StoreError};
use tokio::sync::broadcast::error::RecvError;

use crate::http::App;

/// Looks back over so many bytes of arguments and results at most.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// What was decided by words or by a button is gone on with where it was heard. Should that node have ended in the middle,
/// another one goes on after so long.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// After a failure of the store.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until the service stops.
pub async fn follow(app: App) {
    if app.agents.iter().next().is_none() {
        return;
    }
    while !app.stopping.is_cancelled() {
        if let Err(error) = follow_once(&app).await {
            tracing::warn!("served agents could not follow what is decided: {error}");
        }
        tokio::select! {
            () = app.stopping.cancelled() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Follows until it lost its place; then everything is looked at again.
async fn follow_once(app: &App) -> Result<(), StoreError> {
    // Listen first, look back second: nothing falls in between.
    let mut live = app.feeds.listen(app, &app.settings.tenant).await?;
    look_back(app).await?;
    loop {
        let happened = tokio::select! {
            happened = live.recv() => happened,
            () = app.stopping.cancelled() => return Ok(()),
        };
        match happened {
            // A call that passed was answered within its turn.
            Ok(happened) if happened.approval.state == State::Passed => {}
            Ok(happened) if is_end(&happened.event.what) => {
                resume(
                    app,
                    &happened.approval,
                    delay(&happened.event.what, &happened.approval),
                );
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_) | RecvError::Closed) => return Ok(()),
        }
    }
}

/// Cards that ended while nobody followed. A session that knows of it already does nothing.
async fn look_back(app: &App) -> Result<(), StoreError> {
    for (_, served) in app.agents.iter() {
        let newest = Filter {
            asked: true,
            agent: Some(served.agent.name().clone()),
            limit: Some(LONGEST_PAGE),
            most_bytes: Some(MOST_BYTES),
            ..Filter::default()
        };
        let approvals = app.store().list(&app.settings.tenant, &newest).await?;
        let mut channels = BTreeSet::new();
        for approval in approvals {
            if approval.state != State::Pending && channels.insert(approval.channel.clone()) {
                resume(app, &approval, Duration::ZERO);
            }
        }
    }
    Ok(())
}

fn is_end(what: &What) -> bool {
    matches!(
        what,
        What::Approved { .. }
            | What::Denied { .. }
            | What::Expired
            | What::Withdrawn { .. }
            | What::Succeeded { .. }
            | What::Failed { .. }
            | What::Lost { .. }
    )
}

fn delay(what: &What, approval: &Approval) -> Duration {
    let surface = approval.decision.as_ref().map(|decided| decided.surface.as_str());
    match (what, surface) {
        (What::Withdrawn { .. }, _) | (_, Some("text" | "button")) => HEARD_WITHIN,
        _ => Duration::ZERO,
    }
}

fn resume(app: &App, approval: &SharedApproval, delay: Duration) {
    if approval.agent.served_name().is_none() || app.stopping.is_cancelled() {
        return;
    }
    let (approval, app) = (approval.clone(), app.clone());
    let stopping = app.stopping.clone();
    app.clone().runs.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stopping.cancelled() => return,
        }
        let id = approval.id;
        match app.agents.find_talk_of(app.store(), &approval).await {
            Ok(None) => {}
            Ok(Some(talk)) => {
                if talk.resume(&app).await.is_err() {
                    tracing::warn!(approval = %id, "a talk did not go on: another turn takes too long");
                }
            }
            Err(error) => tracing::warn!(approval = %id, "a talk did not go on: {error}"),
        }
    });
}
