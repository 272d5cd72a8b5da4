//! An event as streams tell it: with enough beside it to know whose it is.

use countersign::approval::Approval;
use countersign::event::Event;
use countersign::id::ApprovalId;
use countersign::state::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Moment;

/// One event of the feed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// The approval it happened to.
    pub approval: ApprovalId,
    /// Its place in the approval's history.
    pub number: u32,
    /// When.
    pub at: Moment,
    /// By whom.
    pub by: String,
    /// The approval's agent.
    pub agent_name: String,
    /// The approval's conversation.
    pub channel: Option<String>,
    /// The approval's state when the event was read, which may be later.
    pub status: State,
    /// What happened.
    pub event: Box<RawValue>,
}

impl Happening {
    /// An event of an approval.
    pub fn new(approval: &Approval, event: &Event) -> Option<Happening> {
        Some(Happening {
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
