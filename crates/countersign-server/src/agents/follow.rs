//! Resumes the talk of a card that was decided anywhere.
//!
//! Enters: the feed of events, and at the start cards that ended while the service was down. Leaves: resumed talks.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::event::EventKind;
use countersign::state::State;
use countersign::store::{Filter, LONGEST_PAGE, StoreError};
use tokio::sync::broadcast::error::RecvError;

use crate::http::App;

/// Maximum bytes of arguments and results that the look back reads.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Delay before resuming after a reply or a button, which the node that heard it continues. If that node has crashed,
/// another one takes over after this time.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// Pause after a failure of the store.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows events until the service stops.
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

/// Follows the feed until it is lost or the service stops. The caller then starts over with a look back.
async fn follow_once(app: &App) -> Result<(), StoreError> {
    // Subscribe before looking back, so that no event is missed.
    let mut live = app.feeds.listen(app, &app.settings.tenant).await?;
    look_back(app).await?;
    loop {
        let happened = tokio::select! {
            happened = live.recv() => happened,
            () = app.stopping.cancelled() => return Ok(()),
        };
        match happened {
            // A passed call was answered within its turn.
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

/// Resumes talks whose cards ended while nobody followed. A session that has settled the card already does nothing.
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

fn is_end(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::Approved { .. }
            | EventKind::Denied { .. }
            | EventKind::Expired
            | EventKind::Withdrawn { .. }
            | EventKind::Succeeded { .. }
            | EventKind::Failed { .. }
            | EventKind::Lost { .. }
    )
}

fn delay(what: &EventKind, approval: &Approval) -> Duration {
    let surface = approval.decision.as_ref().map(|decided| decided.surface.as_str());
    match (what, surface) {
        (EventKind::Withdrawn { .. }, _) | (_, Some("text" | "button")) => HEARD_WITHIN,
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
