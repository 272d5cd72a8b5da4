//! Continues a conversation with a served agent when its card is decided, whatever the surface.
//!
//! Input: the feed of events, and at startup the cards that ended while the service was down. Output: continued
//! conversations.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::event::EventKind;
use countersign::state::State;
use countersign::store::{Filter, LONGEST_PAGE, StoreError};
use tokio::sync::broadcast::error::RecvError;

use crate::service::Service;

/// Maximum number of bytes of arguments and results that are read to find cards that ended earlier.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Delay before a conversation is continued after a reply or a pressed button. Normally the node that received the
/// reply has continued the conversation by then, and nothing is left to do; if that node has crashed, another one takes
/// over.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// Pause before the feed is followed again after it was lost.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows events until the service stops. Starts over if the feed is lost.
pub async fn follow(service: Service) {
    if service.agents.iter().next().is_none() {
        return;
    }
    while !service.stopping.is_cancelled() {
        if let Err(error) = follow_once(&service).await {
            tracing::warn!("served agents could not follow what is decided: {error}");
        }
        tokio::select! {
            () = service.stopping.cancelled() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Follows the feed until it is lost or the service stops. The caller then calls this function again, unless the
/// service stops.
async fn follow_once(service: &Service) -> Result<(), StoreError> {
    // Subscribe before looking back, so that no event is missed.
    let mut live = service.feeds.listen(service, &service.settings.tenant).await?;
    look_back(service).await?;
    loop {
        let happened = tokio::select! {
            happened = live.recv() => happened,
            () = service.stopping.cancelled() => return Ok(()),
        };
        match happened {
            // The model got the result of a passed call within the same turn.
            Ok(happened) if happened.approval.state == State::Passed => {}
            Ok(happened) if is_end(&happened.event.what) => {
                resume(
                    service,
                    &happened.approval,
                    delay(&happened.event.what, &happened.approval),
                );
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_) | RecvError::Closed) => return Ok(()),
        }
    }
}

/// Continues conversations whose cards ended while no events were followed. Has no effect on sessions that have handled
/// the card already.
async fn look_back(service: &Service) -> Result<(), StoreError> {
    for (_, served) in service.agents.iter() {
        let newest = Filter {
            asked: true,
            agent: Some(served.agent.name().clone()),
            limit: Some(LONGEST_PAGE),
            most_bytes: Some(MOST_BYTES),
            ..Filter::default()
        };
        let approvals = service.store().list(&service.settings.tenant, &newest).await?;
        let mut channels = BTreeSet::new();
        for approval in approvals {
            if approval.state != State::Pending && channels.insert(approval.channel.clone()) {
                resume(service, &approval, Duration::ZERO);
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

fn resume(service: &Service, approval: &SharedApproval, delay: Duration) {
    if approval.agent.served_name().is_none() || service.stopping.is_cancelled() {
        return;
    }
    let (approval, service) = (approval.clone(), service.clone());
    let stopping = service.stopping.clone();
    service.clone().runs.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stopping.cancelled() => return,
        }
        let id = approval.id;
        match service.agents.find_talk_of(service.store(), &approval).await {
            Ok(None) => {}
            Ok(Some(talk)) => {
                if talk.resume(&service).await.is_err() {
                    tracing::warn!(approval = %id, "a talk did not go on: another turn takes too long");
                }
            }
            Err(error) => tracing::warn!(approval = %id, "a talk did not go on: {error}"),
        }
    });
}
