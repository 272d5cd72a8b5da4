//! Event of the feed as JSON, with the approval's agent, channel and state.

use countersign::approval::Approval;
use countersign::event::Event;
use countersign::id::{ApprovalId, CallId};
use countersign::state::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Moment, words};

/// One event of the feed, as `watch` prints it and the API streams it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedEventView {
    /// Approval whose history contains the event.
    #[schema(value_type = String)]
    pub approval: ApprovalId,
    /// Number of the event in the approval's history.
    pub number: u32,
    #[schema(value_type = String)]
    pub at: Moment,
    /// Actor that caused the event, such as `agent:crm` or `person:alice`.
    pub by: String,
    /// Agent that proposed the approval.
    pub agent_name: String,
    /// Run of the agent, if it named one.
    #[serde(default)]
    #[schema(required = true)]
    pub run_id: Option<String>,
    /// Call that the event is about; null if it is about the whole approval.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub call: Option<CallId>,
    /// Channel in which the approval was proposed, if any.
    pub channel: Option<String>,
    /// The approval's state when the event was read. May be newer than the event.
    #[schema(value_type = words::ApprovalStatus)]
    pub status: State,
    /// The event as JSON.
    #[schema(value_type = Object)]
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
            run_id: approval.run.as_ref().map(ToString::to_string),
            call: event.what.call().map(|position| CallId {
                approval: approval.id,
                position,
            }),
            channel: approval.channel.as_ref().map(ToString::to_string),
            status: approval.state,
            event: RawValue::from_string(event.text().to_owned()).ok()?,
        })
    }
}
