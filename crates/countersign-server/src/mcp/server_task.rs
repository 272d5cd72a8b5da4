//! Follows the task with which a server answered an approved call, and returns the task's outcome.
//!
//! The call itself was sent once. Polling a task has no effect, so failed polls are retried before the outcome counts
//! as unknown. In protocol versions before 2026-07-28, a single `tasks/result` request is sent instead, which the
//! server answers when the task ends.

use std::sync::Arc;
use std::time::Duration;

use countersign::executor::Outcome;
use serde_json::value::RawValue;

use super::call::Says;
use super::frame::{Frame, pick, quote};
use super::server::{Lost, Server};
use super::upstreams::{ERROR, Origin, outcome, outcome_of};

/// Outcome of a call whose task was cancelled.
pub const CANCELLED: &str = "the server's task was cancelled";
/// Lower and upper limit of the polling interval, whatever the server suggests.
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(10);
/// Number of failed polls, in total, after which the outcome is unknown.
const MOST_FAILURES: u32 = 5;

/// Task that a server created for an approved call.
#[derive(Clone)]
pub struct ServerTask {
    server: Arc<Server>,
    id: String,
    /// Protocol members of `_meta` for requests about the task; `None` in protocol versions before 2026-07-28.
    meta: Option<Arc<str>>,
}

impl ServerTask {
    /// Reads the task from an answer; `None` if the answer is not a task.
    pub fn read(frame: &Frame, origin: &Origin) -> Option<ServerTask> {
        let result = frame.part(&frame.result)?;
        let [kind, task, task_id, content] =
            pick(result, ["resultType", "task", "taskId", "content"]).ok()?;
        let is_modern = kind.is_some_and(|kind| kind.get() == "\"task\"");
        let id = match is_modern {
            true => task_id?,
            false if content.is_none() => pick(task?.get().as_bytes(), ["taskId"])
                .ok()?
                .first()
                .copied()??,
            false => return None,
        };
        let said = origin.params.as_ref().and_then(|params| Says::read(params).meta);
        Some(ServerTask {
            server: origin.server.clone(),
            id: serde_json::from_str(id.get()).ok()?,
            meta: said.or_else(|| origin.server.meta()).filter(|_| is_modern),
        })
    }

    /// Waits for the task's outcome, without a time limit.
    pub async fn end(&self) -> Outcome {
        match self.meta {
            Some(_) => self.watch().await,
            // `tasks/result` is answered when the task has ended.
            None => match self.ask("tasks/result", "").await {
                Ok(frame) => outcome(&frame),
                Err(lost) => Outcome::Unknown(lost.why()),
            },
        }
    }

    async fn watch(&self) -> Outcome {
        let mut failures = 0;
        loop {
            let frame = match self.ask("tasks/get", "").await {
                Ok(frame) => frame,
                Err(lost) => {
                    failures += 1;
                    if failures >= MOST_FAILURES {
                        return Outcome::Unknown(lost.why());
                    }
                    tokio::time::sleep(SOONEST * 2_u32.pow(failures)).await;
                    continue;
                }
            };
            let names = ["status", "result", "error", "pollIntervalMs"];
            let Ok([Some(status), result, error, every]) =
                pick(frame.part(&frame.result).unwrap_or_default(), names)
            else {
                return Outcome::Unknown("the server no longer knows its task".to_owned());
            };
            let written = |part: Option<&RawValue>| part.map_or("{}", RawValue::get).to_owned();
            match status.get() {
                "\"completed\"" => return outcome_of(written(result).as_bytes()),
                "\"failed\"" => return Outcome::failed(format!("{{\"{ERROR}\":{}}}", written(error))),
                "\"cancelled\"" => return Outcome::failed(CANCELLED),
                _ => {}
            }
            let every = every.and_then(|every| every.get().parse().ok());
            let every = every.map_or(LATEST, Duration::from_millis);
            tokio::time::sleep(every.clamp(SOONEST, LATEST)).await;
        }
    }

    /// Returns the questions that the task asks the client now, as JSON; `None` if it asks none or they cannot be read.
    pub async fn asks(&self) -> Option<String> {
        self.meta.as_ref()?;
        let frame = self.ask("tasks/get", "").await.ok()?;
        let [status, asks] = pick(frame.part(&frame.result)?, ["status", "inputRequests"]).ok()?;
        let is_asking = status.is_some_and(|status| status.get() == "\"input_required\"");
        asks.filter(|_| is_asking).map(|asks| asks.get().to_owned())
    }

    /// Sends the client's answers to the questions of the task. `answers` is JSON.
    pub async fn tell(&self, answers: &str) -> Result<Frame, Lost> {
        self.ask("tasks/update", &format!(",\"inputResponses\":{answers}"))
            .await
    }

    /// Asks the server to cancel the task.
    pub async fn cancel(&self) {
        // Ignore the answer: the follower of the task sees its outcome.
        let _ = self.ask("tasks/cancel", "").await;
    }

    async fn ask(&self, method: &str, more: &str) -> Result<Frame, Lost> {
        let meta = self.meta.as_ref().map(|meta| format!(",\"_meta\":{{{meta}}}"));
        let meta = meta.unwrap_or_default();
        let params = format!("{{\"taskId\":{}{more}{meta}}}", quote(&self.id));
        self.server.request(method, &params).await
    }
}
