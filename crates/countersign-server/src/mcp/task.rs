//! Held calls as MCP tasks, which let clients that support them wait without a time limit.
//!
//! The id of such a task names the approval. Its whole state is in the store, so a task survives a restart. Requests
//! about a server's own tasks are forwarded. If a server answers an approved call with a task, requests about the
//! gateway's task are passed to the server's task.

mod list;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign::approval::{Approval, SharedApproval};
use countersign::gate::{Until, Waited};
use countersign::id::{Actor, ApprovalId};
use countersign::state::State;
use serde_json::value::RawValue;

use super::answer::Form;
use super::call::Says;
use super::frame::{Frame, pick, quote, span, splice};
use super::one_line::OneLine;
use super::relay::{Back, Relay};
use super::server_task::CANCELLED;
use super::upstreams::ERROR;
use super::wire;

/// Prefix of the ids of the gateway's tasks.
const PREFIX: &str = "countersign:";
/// Name of the tasks extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Key in `_meta` under which a result names its task.
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// Polling interval suggested to clients.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Interval of keepalives while waiting for a task's end.
const SIGN_EVERY: Duration = Duration::from_secs(10);
/// How long to wait for the end of a cancelled task.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Returns true if a client's capabilities include tasks.
pub fn takes_tasks(capabilities: &[u8]) -> bool {
    let extensions = pick(capabilities, ["extensions"])
        .ok()
        .and_then(|[extensions]| extensions);
    extensions.is_some_and(has_tasks)
}

fn has_tasks(extensions: &RawValue) -> bool {
    let tasks = pick(extensions.get().as_bytes(), [EXTENSION]);
    tasks.is_ok_and(|[tasks]| tasks.is_some_and(|tasks| tasks.get() != "null"))
}

/// Adds the tasks extension to a server's capabilities if the server has none. Returns the message, and true if the
/// extension was added.
pub fn with_tasks(frame: &Frame) -> (OneLine, bool) {
    let as_it_came = (frame.line.clone(), false);
    let result = frame.part(&frame.result).unwrap_or_default();
    let Ok([Some(capabilities)]) = pick(result, ["capabilities"]) else {
        return as_it_came;
    };
    let Ok([extensions]) = pick(capabilities.get().as_bytes(), ["extensions"]) else {
        return as_it_came;
    };
    let tasks = format!("{}:{{}}", quote(EXTENSION));
    let (object, ours) = match extensions {
        Some(extensions) if has_tasks(extensions) => return as_it_came,
        Some(extensions) => (extensions, tasks),
        None => (capabilities, format!("\"extensions\":{{{tasks}}}")),
    };
    let ours = match object.get().trim_matches(['{', '}', ' ', '\n', '\t', '\r']) {
        "" => ours,
        _ => format!("{ours},"),
    };
    let at = span(&frame.line, object.get()).start + 1;
    (frame.line.splice(at..at, ours.as_bytes()), true)
}

impl Form {
    /// Returns the answer that tells the client that its call has become a task.
    pub fn task(&self, approval: &Approval) -> OneLine {
        let summary = approval.calls.first().map(|call| call.terms.summary.as_str());
        let message = format!("waiting for a person to decide: {}", summary.unwrap_or_default());
        let task = described(approval, "working", Some(&message), self.is_modern);
        let result = match self.is_modern {
            true => format!("{{\"resultType\":\"task\",{task}}}"),
            false => format!("{{\"task\":{{{task}}}}}"),
        };
        wire::result(&self.id, &result)
    }
}

/// Returns the members of a task object, as JSON without braces.
fn described(approval: &Approval, status: &str, message: Option<&str>, is_modern: bool) -> String {
    let lasts = approval.expires_at.since(approval.created_at).as_millis();
    let message = message.map(|message| format!(",\"statusMessage\":{}", quote(message)));
    let (ttl, every) = match is_modern {
        true => ("ttlMs", "pollIntervalMs"),
        false => ("ttl", "pollInterval"),
    };
    format!(
        "\"taskId\":\"{PREFIX}{}\",\"status\":\"{status}\",\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\
         \"{ttl}\":{lasts},\"{every}\":{}{}",
        approval.id,
        approval.created_at,
        approval.changed_at,
        POLL_EVERY.as_millis(),
        message.unwrap_or_default()
    )
}

/// Returns the status of a task. A denied call counts as completed, with a result that reports the denial, because
/// clients do not fetch the results of failed tasks.
fn status(approval: &Approval) -> &'static str {
    if !approval.is_finished() {
        return "working";
    }
    let result = approval.calls.first().and_then(|call| call.result.as_deref());
    let result = result.unwrap_or_default();
    let is_error = pick(result, [ERROR]).is_ok_and(|[error]| error.is_some());
    match approval.state {
        State::Withdrawn => "cancelled",
        _ if result == CANCELLED.as_bytes() => "cancelled",
        _ if is_error => "failed",
        _ => "completed",
    }
}

fn status_message(approval: &Approval) -> Option<&'static str> {
    match approval.state {
        _ if approval.is_finished() => None,
        State::Pending => Some("waiting for a person to decide"),
        _ => Some("approved, and running"),
    }
}

/// A request about a task.
struct TaskRequest {
    raw_id: String,
    method: String,
    params: Bytes,
    says: Says,
}

impl TaskRequest {
    fn is_modern(&self) -> bool {
        self.says.is_modern()
    }

    /// Returns the response that describes the approval as a task.
    fn task(&self, approval: &Approval, status: &str, more: &str) -> OneLine {
        let task = described(approval, status, status_message(approval), self.is_modern());
        let kind = match self.is_modern() {
            true => "\"resultType\":\"complete\",",
            false => "",
        };
        wire::result(&self.raw_id, &format!("{{{kind}{task}{more}}}"))
    }

    fn done(&self) -> OneLine {
        wire::result(&self.raw_id, "{\"resultType\":\"complete\"}")
    }

    fn refused(&self, problem: &str) -> OneLine {
        wire::error(Some(&self.raw_id), wire::INVALID_PARAMS, problem)
    }
}

impl Relay {
    /// Answers a request about a task of the gateway, in the background. Returns false if the request is not about such
    /// a task and belongs to the server.
    pub(super) fn about_task(self: &Arc<Self>, frame: &Frame, method: &str, back: &Back) -> bool {
        let params = frame.part(&frame.params).unwrap_or_default();
        let named = pick(params, ["taskId"]).ok().and_then(|[id]| id);
        let named = named.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        let ours = named.as_deref().and_then(|id| id.strip_prefix(PREFIX));
        let raw_id = frame.part(&frame.id).map(String::from_utf8_lossy);
        let asked = TaskRequest {
            raw_id: raw_id.unwrap_or_default().into_owned(),
            method: method.to_owned(),
            params: frame.shared(&frame.params).unwrap_or_default(),
            says: Says::read(params),
        };
        // Protocol versions from 2026-07-28 on have neither `tasks/list` nor `tasks/result`.
        let is_earlier = matches!(method, "tasks/list" | "tasks/result");
        let is_list = method == "tasks/list";
        let is_for_us = is_list || ours.is_some() || self.adds_tasks();
        if !is_for_us || (is_earlier && asked.is_modern()) {
            return false;
        }
        let id = ours.and_then(|id| id.parse::<ApprovalId>().ok());
        let (relay, back) = (self.clone(), back.clone());
        tokio::spawn(async move {
            let answer = match id {
                _ if is_list => Some(relay.list_tasks(&asked).await),
                Some(id) => relay.task(&asked, id, &back).await,
                None => None,
            };
            let unknown = || asked.refused("there is no such task");
            let _ = back.send(answer.unwrap_or_else(unknown)).await;
        });
        true
    }

    async fn task(&self, asked: &TaskRequest, id: ApprovalId, back: &Back) -> Option<OneLine> {
        let capabilities = asked.says.capabilities.as_deref().unwrap_or_default();
        if asked.is_modern() && !takes_tasks(capabilities.as_bytes()) {
            return Some(wire::missing_capability(&asked.raw_id, EXTENSION));
        }
        let approval = self.own_approval(id).await?;
        Some(match asked.method.as_str() {
            "tasks/get" if asked.is_modern() => self.task_now(asked, &approval).await,
            "tasks/get" => asked.task(&approval, status(&approval), ""),
            "tasks/result" => self.task_result(asked, id, back).await,
            "tasks/cancel" => self.cancel_task(asked, &approval).await?,
            _ => self.tell_task(asked, id).await,
        })
    }

    /// Returns the current state of the task that stands for an approval. Includes the result if the call has ended, or
    /// the questions of the upstream server if its own task waits for input.
    async fn task_now(&self, asked: &TaskRequest, approval: &Approval) -> OneLine {
        let status = status(approval);
        if status == "working" {
            let behind = self.gateway.upstreams.task(approval.id);
            let asks = match behind {
                Some(behind) => behind.asks().await,
                None => None,
            };
            return match asks {
                Some(asks) => asked.task(approval, "input_required", &format!(",\"inputRequests\":{asks}")),
                None => asked.task(approval, status, ""),
            };
        }
        if status == "cancelled" {
            return asked.task(approval, status, "");
        }
        let answer = self.ended(approval.id, true).await;
        let (status, member, value) = match &answer {
            Ok(frame) => match (frame.part(&frame.result), frame.part(&frame.error)) {
                (Some(result), _) => ("completed", "result", result),
                (None, error) => ("failed", "error", error.unwrap_or(b"{}")),
            },
            Err(_) => ("failed", "error", b"{}".as_slice()),
        };
        let value = String::from_utf8_lossy(value);
        asked.task(approval, status, &format!(",\"{member}\":{value}"))
    }

    /// Returns the answer that the call would have got without a task, and records that the client has learned how the
    /// call ended.
    async fn ended(&self, id: ApprovalId, is_modern: bool) -> Result<Frame, super::frame::Unreadable> {
        let form = Form {
            id: "0".to_owned(),
            is_modern,
            has_schema: false,
        };
        let gateway = &self.gateway;
        let waited = gateway
            .gate
            .wait(&gateway.tenant, id, Until::Finished, Duration::ZERO);
        Frame::again(self.waited(&form, waited.await).await)
    }

    /// Waits for the end of a task, with keepalives, and returns the answer that the call would have got without a
    /// task.
    async fn task_result(&self, asked: &TaskRequest, id: ApprovalId, back: &Back) -> OneLine {
        let gateway = &self.gateway;
        while !back.is_closed() {
            let waited = gateway
                .gate
                .wait(&gateway.tenant, id, Until::Finished, SIGN_EVERY);
            match waited.await {
                Ok(Waited::TimedOut(_)) => _ = back.send(OneLine::sign_of_life()).await,
                _ => break,
            }
        }
        let Ok(frame) = self.ended(id, false).await else {
            return asked.refused("the result cannot be read");
        };
        match frame.part(&frame.result) {
            Some(result) => wire::raw_result(&asked.raw_id, &related(result, id)),
            None => wire::raw_error(&asked.raw_id, frame.part(&frame.error).unwrap_or(b"{}")),
        }
    }

    async fn cancel_task(&self, asked: &TaskRequest, approval: &SharedApproval) -> Option<OneLine> {
        let gateway = &self.gateway;
        let id = approval.id;
        if approval.is_finished() {
            let over = || asked.refused("the task is over");
            return Some(if asked.is_modern() { asked.done() } else { over() });
        }
        gateway.upstreams.unwanted(id);
        match gateway.upstreams.task(id) {
            Some(behind) => behind.cancel().await,
            None => {
                let by = Actor::Agent(approval.agent.clone());
                let reason = Some("the client cancelled the task".to_owned());
                // A decision made in the meantime stands.
                let _ = gateway.gate.withdraw(&gateway.tenant, id, by, reason).await;
            }
        }
        if asked.is_modern() {
            return Some(asked.done());
        }
        let ended = gateway
            .gate
            .wait(&gateway.tenant, id, Until::Finished, ENDS_WITHIN);
        let _ = ended.await;
        let now = self.own_approval(id).await?;
        Some(asked.task(&now, status(&now), ""))
    }

    /// Passes the client's answers to the server's task. If there is no such task, the answers are ignored, because the
    /// gateway's own tasks ask no questions.
    async fn tell_task(&self, asked: &TaskRequest, id: ApprovalId) -> OneLine {
        let Some(behind) = self.gateway.upstreams.task(id) else {
            return asked.done();
        };
        let answers = pick(&asked.params, ["inputResponses"]).ok();
        let answers = answers.and_then(|[answers]| answers).map_or("{}", RawValue::get);
        match behind.tell(answers).await {
            Ok(frame) => match frame.part(&frame.error) {
                Some(error) => wire::raw_error(&asked.raw_id, error),
                None => asked.done(),
            },
            Err(lost) => wire::error(Some(&asked.raw_id), wire::INTERNAL, &lost.why()),
        }
    }
}

/// Adds the task's id to the `_meta` of a result.
fn related(result: &[u8], id: ApprovalId) -> Bytes {
    let ours = format!("\"{RELATED}\":{{\"taskId\":\"{PREFIX}{id}\"}}");
    let result = Bytes::copy_from_slice(result);
    let meta = pick(&result, ["_meta"]).ok().and_then(|[meta]| meta);
    match meta.map(|meta| (span(&result, meta.get()).start + 1, meta.get())) {
        Some((_, "null")) => result,
        Some((at, meta)) => {
            let comma = if meta.trim_matches(['{', '}', ' ']).is_empty() {
                ""
            } else {
                ","
            };
            splice(&result, at..at, format!("{ours}{comma}").as_bytes())
        }
        None => {
            let is_empty = result.trim_ascii() == b"{}";
            let comma = if is_empty { "" } else { "," };
            let at = result.iter().position(|byte| *byte == b'{').unwrap_or_default() + 1;
            splice(&result, at..at, format!("\"_meta\":{{{ours}}}{comma}").as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_gets_the_tasks_it_does_not_know() {
        let check = |result: &str, expected: &str| {
            let frame = |result: &str| format!(r#"{{"id":1,"result":{result}}}"#);
            let read = Frame::read(frame(result).into()).unwrap();
            let (bytes, are_ours) = with_tasks(&read);
            assert_eq!(bytes, OneLine::new(frame(expected)));
            assert_eq!(are_ours, result != expected);
        };
        let ours = r#""io.modelcontextprotocol/tasks":{}"#;
        check(
            r#"{"capabilities":{},"x":1}"#,
            &format!(r#"{{"capabilities":{{"extensions":{{{ours}}}}},"x":1}}"#),
        );
        check(
            r#"{"capabilities":{ "tools":{}}}"#,
            &format!(r#"{{"capabilities":{{"extensions":{{{ours}}}, "tools":{{}}}}}}"#),
        );
        check(
            r#"{"capabilities":{"extensions":{"a":{}}}}"#,
            &format!(r#"{{"capabilities":{{"extensions":{{{ours},"a":{{}}}}}}}}"#),
        );
        let has = format!(r#"{{"capabilities":{{"extensions":{{{ours}}}}}}}"#);
        check(&has, &has);
        check("{}", "{}");
    }

    #[test]
    fn a_result_says_of_which_task_it_is() {
        let id: ApprovalId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let ours = format!(r#""{RELATED}":{{"taskId":"{PREFIX}{id}"}}"#);
        let check = |result: &str, expected: String| assert_eq!(related(result.as_bytes(), id), expected);
        check("{}", format!(r#"{{"_meta":{{{ours}}}}}"#));
        check(
            r#"{"content":[]}"#,
            format!(r#"{{"_meta":{{{ours}}},"content":[]}}"#),
        );
        check(
            r#"{"content":[],"_meta":{"a":1}}"#,
            format!(r#"{{"content":[],"_meta":{{{ours},"a":1}}}}"#),
        );
        check(r#"{"_meta":{}}"#, format!(r#"{{"_meta":{{{ours}}}}}"#));
    }
}
