//! Event of the feed as JSON, with the approval's agent, channel and state.

use countersign::approval::Approval;
use countersign::event::Event;
use countersign::id::ApprovalId;
use countersign::state::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Moment;

/// Event of the feed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedEventView {
    /// Approval of the event.
    pub approval: ApprovalId,
    /// Number of the event in the approval's history.
    pub number: u32,
    pub at: Moment,
    /// Actor that caused the event.
    pub by: String,
    /// The approval's agent.
    pub agent_name: String,
    /// The approval's channel.
    pub channel: Option<String>,
    /// The approval's state when the event was read. May be newer than the event.
    pub status: State,
    /// The event as JSON.
    pub event: Box<RawValue>,
}

impl FeedEventView {
    /// Creates the view of an event. `None` if its stored text is not JSON.
    pub fn new(approval: &Approval, event: &Event) -> Option<FeedEventView> {
        Some(FeedEventView {
            approval: approval.id,
            number: event.number,
            at: event.at.into(),
            by: event.by.to_string(),
            agent_name: approval.agent.to_string(),
            channel: approval.channel.as_ref().map(ToString::to_string),
            status: approval.state,
            event: RawValue::from_string(event.text().to_owned()).ok()?,
        })
    }
}
