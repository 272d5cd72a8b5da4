//! The gateway's built-in tools: one waits for a decision, one answers a client's permission prompts.

use std::sync::Arc;
use std::time::Duration;

use countersign::executor::{Outcome, PermitToken};
use countersign::gate::{Until, Waited};
use countersign::id::{ApprovalId, CallId};
use countersign::state::State;
use serde_json::json;
use serde_json::value::RawValue;

use super::frame::{pick, quote};
use super::gateway::Disposition;
use super::one_line::OneLine;
use super::relay::{InFlightCall, Relay};
use super::upstreams::Origin;
use crate::links::StartFolders;

/// Prefix of the names of built-in tools.
const PREFIX: &str = "countersign_";
const WAIT: &str = "countersign_wait";
const APPROVE: &str = "countersign_approve";
/// How long a permission prompt waits for a decision; after that the answer is no. Clients have limits of their own.
const PROMPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns true if a tool's name is reserved for built-in tools.
pub fn is_own(tool: &str) -> bool {
    tool.starts_with(PREFIX)
}

/// Returns the definitions of the built-in tools, as JSON items of a list without its brackets. The tool for permission
/// prompts is included if `with_approve`.
pub fn definitions(with_approve: bool) -> String {
    let wait = json!({
        "name": WAIT,
        "title": "Wait for a person's decision",
        "description": "Waits until a person has decided about a call that was answered with `pending_confirmation`, \
                        and gives that call's result. Answers `pending_confirmation` again when nobody has decided \
                        yet; then call it again. It decides nothing itself.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "approval": {
                    "type": "string",
                    "description": "the `approval` of the `pending_confirmation` answer",
                },
            },
            "required": ["approval"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let approve = json!({
        "name": APPROVE,
        "title": "Ask a person for permission",
        "description": "For `--permission-prompt-tool` of Claude Code, not for models: puts a call of another tool to \
                        a person and answers whether the client may run it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_name": {"type": "string"},
                "input": {"type": "object"},
                "tool_use_id": {"type": "string"},
            },
            "required": ["tool_name", "input"],
        },
    });
    match with_approve {
        true => format!("{wait},{approve}"),
        false => wait.to_string(),
    }
}

/// Runs a built-in tool. Returns `None` if the request was cancelled or the client has disconnected.
pub async fn call(relay: &Arc<Relay>, in_flight: &InFlightCall) -> Option<OneLine> {
    match in_flight.call.tool.as_str() {
        WAIT => wait(relay, in_flight).await,
        APPROVE if relay.gateway.settings.permission_prompt => approve(relay, in_flight).await,
        other => Some(in_flight.form.failure(&format!("there is no tool `{other}`"))),
    }
}

async fn wait(relay: &Arc<Relay>, in_flight: &InFlightCall) -> Option<OneLine> {
    let (call, form) = (&in_flight.call, &in_flight.form);
    let named = pick(&call.arguments, ["approval"]).ok().and_then(|[id]| id);
    let named = named.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
    let Some(id) = named.and_then(|id| id.parse::<ApprovalId>().ok()) else {
        return Some(form.failure("`approval` is the id from a `pending_confirmation` answer"));
    };
    if relay.own_approval(id).await.is_none() {
        return Some(form.failure(&format!("there is no approval `{id}`")));
    }
    let waited = relay
        .wait(in_flight, id, Until::Finished, relay.holds_for())
        .await?;
    Some(relay.waited(form, waited).await)
}

/// Answers a permission prompt. The client runs the tool itself, so it gets a yes with the exact input to run, or a no
/// with the reason. Returns `None` if the request was cancelled.
async fn approve(relay: &Arc<Relay>, in_flight: &InFlightCall) -> Option<OneLine> {
    let behaves = match ask_about_client_call(relay, in_flight).await {
        Ok(input) => format!("{{\"behavior\":\"allow\",\"updatedInput\":{input}}}"),
        Err(reason) => format!("{{\"behavior\":\"deny\",\"message\":{}}}", quote(&reason)),
    };
    (!in_flight.cancelled.is_cancelled()).then(|| in_flight.form.text(&behaves, false))
}

async fn ask_about_client_call(relay: &Arc<Relay>, in_flight: &InFlightCall) -> Result<String, String> {
    let call = &in_flight.call;
    let [name, input] =
        pick(&call.arguments, ["tool_name", "input"]).map_err(|problem| problem.to_string())?;
    let name = name.and_then(|name| serde_json::from_str::<String>(name.get()).ok());
    let name = name.ok_or("`tool_name` is missing")?;
    // A name with a slash, `SERVER/TOOL`, is a call that the gateway itself would run.
    if name.contains('/') {
        return Err("`tool_name` is a tool of the client's own, without `/`".to_owned());
    }
    let input = input.map(RawValue::get).ok_or("`input` is missing")?;
    let request = relay.request(name, input.as_bytes().into());
    let folder = relay.gateway.settings.client_folder.as_deref();
    let folders = folder.map(StartFolders::working);
    let located = relay.gateway.located(request, folders.as_ref()).await?;
    let put = relay
        .gateway
        .join_or_submit(located)
        .await
        .map_err(|error| error.to_string())?;
    let approval = match put {
        Disposition::Pass(permit) => {
            if let (Some(id), Some(token)) = (permit.call(), permit.token()) {
                hand_over(relay, id, token).await?;
            }
            return Ok(input.to_owned());
        }
        Disposition::Forbidden(reason) => return Err(reason),
        Disposition::Held(approval) => approval,
    };
    let gateway = &relay.gateway;
    relay.waits_for(&call.id, approval.id);
    let waited = relay
        .wait(in_flight, approval.id, Until::Decided, PROMPT)
        .await
        .ok_or("the client does not wait any more")?;
    let approval = match waited.map_err(|error| error.to_string())? {
        Waited::Done(approval) => approval,
        Waited::TimedOut(_) | Waited::NotFound => return Err("nobody decided".to_owned()),
    };
    let refused = || match (&approval.decision, approval.state) {
        (Some(decision), _) => match &decision.comment {
            Some(comment) => format!("denied by {}: {comment}", decision.by),
            None => format!("denied by {}", decision.by),
        },
        (None, State::Expired) => "nobody decided in time".to_owned(),
        (None, state) => format!("{state:?}").to_lowercase(),
    };
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    if approval.state != State::Approved {
        let _ = gateway.mark_answered(approval.id).await;
        return Err(refused());
    }
    let runs = approval.calls.first().map(|call| call.arguments.clone());
    if let Some((place, runs)) = Origin::place_of(&approval).zip(runs)
        && let Some(why) = place.changed(runs, Vec::new()).await
    {
        return Err(why);
    }
    let started = gateway.gate.start(&gateway.tenant, id).await;
    let permit = started
        .map_err(|error| error.to_string())?
        .map_err(|refusal| refusal.to_string())?;
    let _ = gateway.mark_answered(approval.id).await;
    if let Some(token) = permit.token() {
        hand_over(relay, id, token).await?;
    }
    Ok(String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned())
}

/// Records that the client runs a call itself, which finishes the call here.
async fn hand_over(relay: &Relay, id: CallId, token: &PermitToken) -> Result<(), String> {
    let handed = Outcome::succeeded("handed to the client, which runs it; how it ended is not known here");
    let gateway = &relay.gateway;
    let finished = gateway.gate.finish(&gateway.tenant, id, token, handed).await;
    finished
        .map_err(|error| error.to_string())?
        .map_err(|refusal| refusal.to_string())?;
    Ok(())
}
