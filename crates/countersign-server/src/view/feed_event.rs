//! Event of the feed as JSON, with the approval's agent, channel and state.

use countersign::approval::Approval;
use countersign::event::Event;
use countersign::id::ApprovalId;
use countersign::state::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Moment;

/// One event of the feed, as `watch` prints it and the API streams it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedEventView {
    /// Approval whose history contains the event.
    pub approval: ApprovalId,
    /// Number of the event in the approval's history.
    pub number: u32,
    pub at: Moment,
    /// Actor that caused the event, such as `agent:crm` or `person:alice`.
    pub by: String,
    /// Agent that proposed the approval.
    pub agent_name: String,
    /// Channel in which the approval was proposed, if any.
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
