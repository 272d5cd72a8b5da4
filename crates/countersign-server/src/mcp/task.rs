//! Held calls as tasks, for clients that say they take them: the best of all ways to wait, for as long as it takes.
//!
//! Enters: a held call, and later questions about it. Leaves: a task whose id names the approval. Everything about it
//! is in the store, so a task outlives us. A server's own tasks pass by.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign::approval::Approval;
use countersign::gate::Until;
use countersign::id::{Actor, ApprovalId};
use countersign::state::State;

use super::answer::Form;
use super::frame::{Frame, pick, quote};
use super::relay::{Back, Relay};
use super::wire;

/// Ids of our tasks begin so.
const PREFIX: &str = "countersign:";
/// The extension's name.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// How often a client should look.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// Whether a client takes tasks.
pub fn takes_tasks(capabilities: &[u8]) -> bool {
    let extensions = pick(capabilities, ["extensions"])
        .ok()
        .and_then(|[extensions]| extensions);
    let tasks = extensions.and_then(|extensions| pick(extensions.get().as_bytes(), [EXTENSION]).ok());
    tasks.is_some_and(|[tasks]| tasks.is_some_and(|tasks| tasks.get() != "null"))
}

impl Form {
    /// The call has become a task.
    pub fn task(&self, approval: &Approval) -> Bytes {
        let summary = approval.calls.first().map(|call| call.terms.summary.as_str());
        let message = format!("waiting for a person to decide: {}", summary.unwrap_or_default());
        let task = described(approval, "working", Some(&message));
        wire::result(&self.id, &format!("{{\"resultType\":\"task\",{task}}}"))
    }
}

/// A task's members.
fn described(approval: &Approval, status: &str, message: Option<&str>) -> String {
    let lasts = approval.expires_at.since(approval.created_at).as_millis();
    let message = message.map(|message| format!(",\"statusMessage\":{}", quote(message)));
    format!(
        "\"taskId\":\"{PREFIX}{}\",\"status\":\"{status}\",\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\
         \"ttlMs\":{lasts},\"pollIntervalMs\":{}{}",
        approval.id,
        approval.created_at,
        approval.changed_at,
        POLL_EVERY.as_millis(),
        message.unwrap_or_default()
    )
}

impl Relay {
    /// Answers a question about a task of ours; false when it is not ours.
    pub(super) fn about_task(self: &Arc<Self>, frame: &Frame, method: &str, back: &Back) -> bool {
        let params = frame.part(&frame.params).unwrap_or_default();
        let named = pick(params, ["taskId"]).ok().and_then(|[id]| id);
        let named = named.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        let Some(id) = named.as_deref().and_then(|id| id.strip_prefix(PREFIX)) else {
            return false;
        };
        let raw_id = frame
            .part(&frame.id)
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        let (relay, back) = (self.clone(), back.clone());
        let (raw_id, id, method) = (raw_id.into_owned(), id.parse::<ApprovalId>(), method.to_owned());
        tokio::spawn(async move {
            let answer = match id {
                Ok(id) => relay.task(&raw_id, id, &method).await,
                Err(_) => None,
            };
            let unknown = || wire::error(Some(&raw_id), wire::INVALID_PARAMS, "there is no such task");
            let _ = back.send(answer.unwrap_or_else(unknown)).await;
        });
        true
    }

    async fn task(&self, raw_id: &str, id: ApprovalId, method: &str) -> Option<Bytes> {
        let approval = self.own_approval(id).await?;
        match method {
            "tasks/get" => Some(self.task_now(raw_id, &approval).await),
            "tasks/cancel" => {
                let by = Actor::Agent(approval.agent.clone());
                let reason = Some("the client cancelled the task".to_owned());
                // What was decided meanwhile stands.
                let _ = self
                    .gateway
                    .gate
                    .withdraw(&self.gateway.tenant, id, by, reason)
                    .await;
                Some(wire::result(raw_id, "{\"resultType\":\"complete\"}"))
            }
            // Nothing is asked through a task of ours.
            _ => Some(wire::result(raw_id, "{\"resultType\":\"complete\"}")),
        }
    }

    async fn task_now(&self, raw_id: &str, approval: &Approval) -> Bytes {
        let complete = "\"resultType\":\"complete\"";
        if !approval.is_finished() {
            let message = match approval.state {
                State::Pending => "waiting for a person to decide",
                _ => "approved, and running",
            };
            let task = described(approval, "working", Some(message));
            return wire::result(raw_id, &format!("{{{complete},{task}}}"));
        }
        if approval.state == State::Withdrawn {
            let task = described(approval, "cancelled", None);
            return wire::result(raw_id, &format!("{{{complete},{task}}}"));
        }
        let form = Form {
            id: "0".to_owned(),
            is_modern: true,
            has_schema: false,
        };
        let waited = self
            .gateway
            .gate
            .wait(&self.gateway.tenant, approval.id, Until::Finished, Duration::ZERO)
            .await;
        // What was denied is a result like any other: the call is over, and says so.
        let answer = self.waited(&form, waited).await;
        let frame = Frame::read(answer);
        let (status, member, value) = match &frame {
            Ok(frame) => match (frame.part(&frame.result), frame.part(&frame.error)) {
                (Some(result), _) => ("completed", "result", result),
                (None, error) => ("failed", "error", error.unwrap_or(b"{}")),
            },
            Err(_) => ("failed", "error", b"{}".as_slice()),
        };
        let value = String::from_utf8_lossy(value);
        let task = described(approval, status, None);
        wire::result(raw_id, &format!("{{{complete},{task},\"{member}\":{value}}}"))
    }
}
