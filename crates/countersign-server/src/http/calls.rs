//! `/v1/calls`: propose the calls of a turn, start and finish released calls, reconcile unknown outcomes, propose
//! undos.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use countersign::approval::Approval;
use countersign::effect::Risk;
use countersign::executor::{Outcome, PermitToken};
use countersign::gate::{ApprovalOptions, Ruled, Submission, SubmittedCall, Until, confirmation};
use countersign::hash::Hash;
use countersign::id::{CallId, Channel, Key, Run, Session, ToolName};
use countersign::policy::Definition;
use countersign::provenance::{Conversation, Message, VouchedConversation};
use countersign::seal::Secret;
use countersign::state::State as ApprovalState;
use countersign_agent::gated::REQUEST_APPROVAL;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::leave::LeaveArguments;
use crate::service;
use crate::view::{self, ApprovalView};
use crate::web::{Answer, ApiError, App, Authorized, Body, Id, IdempotencyKeyHeader, Json, scope};
use crate::wire::{
    Ask, ErrorView, Finish, IdempotencyKey, PermitView, ReconcileBody, RulingView, Submit, SubmitCall,
    SubmittedView, UndoBody,
};

/// Longest time for which a call with the flag `confirmed: true` waits for the result of the approved call.
const LONGEST_CONFIRMED_WAIT: Duration = Duration::from_secs(30);

/// Propose the calls of one agent turn
///
/// Each call passes, is held or is forbidden; all held calls share one approval. A call that passes is run by the
/// service if the service runs its tool, otherwise by the caller. Unless the call only reads, it is recorded as an
/// approval in the state `passed`, and a caller that runs it must report its outcome (`finish`, with the `permit` from
/// the response). With an `Idempotency-Key` the call runs once: repeating the request returns the same response, and
/// the same key with another body is refused.
///
/// A single call in a channel may have the argument `confirmed: true`. If a person approved the same call in that
/// channel, its result is returned, once; otherwise the call is held like any other.
#[utoipa::path(post, path = "/v1/calls", tag = "calls", request_body = Submit,
    params(("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: a repeated request with the same key has no further effect")),
    security(("token" = ["propose"])),
    responses((status = 200, body = SubmittedView), (status = "default", body = ErrorView)))]
pub async fn submit(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Propose>,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    Body(body): Body<Submit>,
) -> Answer<Json<SubmittedView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let submission = submission(&caller, body, key)?;
    if let Some(answer) = confirmed(&app, &caller, &submission).await? {
        return Ok(Json(answer));
    }
    let submitted = app.gate.submit(submission).await?;
    let mut calls = Vec::with_capacity(submitted.calls.len());
    for ruled in submitted.calls {
        calls.push(ruling(&app, &caller, ruled, submitted.approval.as_deref()).await?);
    }
    let approval = match &submitted.approval {
        None => None,
        Some(approval) => {
            app.metrics.proposed(approval);
            let now = app.store().now().await?;
            Some(view::approval(approval, app.gate.policy(), now))
        }
    };
    Ok(Json(SubmittedView { calls, approval }))
}

/// Start a released call
///
/// For hosts that run the tool themselves. Returns the exact arguments and a permit, once. From then on the call counts
/// as run.
#[utoipa::path(post, path = "/v1/calls/{id}/start", tag = "calls",
    params(("id" = String, Path, description = "the call's id")),
    security(("token" = ["execute"])),
    responses((status = 200, body = PermitView), (status = "default", body = ErrorView)))]
pub async fn start(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Execute>,
    Id(id): Id<CallId>,
) -> Answer<Json<PermitView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let permit = app.gate.start(&caller.tenant, id).await??;
    let arguments = permit.arguments().as_bytes();
    let text = String::from_utf8_lossy(arguments).into_owned();
    Ok(Json(PermitView {
        id: id.to_string(),
        tool: permit.tool().to_string(),
        arguments: RawValue::from_string(text).map_err(|_| ApiError::internal())?,
        arguments_hex: view::hex(arguments),
        permit: permit.token().map(PermitToken::reveal).unwrap_or_default(),
        secret: permit
            .secret()
            .map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned()),
        timeout_ms: u64::try_from(permit.timeout().as_millis()).unwrap_or(u64::MAX),
        started_at: permit.start_and_deadline().map(|(started, _)| started.into()),
        deadline: permit.start_and_deadline().map(|(_, deadline)| deadline.into()),
    }))
}

/// Record how a started call ended
///
/// Requires the permit from `start`, or the one that came with a passed call. Repeating the same outcome has no further
/// effect.
#[utoipa::path(post, path = "/v1/calls/{id}/finish", tag = "calls", request_body = Finish,
    params(("id" = String, Path, description = "the call's id")),
    security(("token" = ["execute"]), ("token" = ["propose"])),
    responses((status = 200, body = ApprovalView), (status = "default", body = ErrorView)))]
pub async fn finish(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Finish>,
    Id(id): Id<CallId>,
    Body(body): Body<Finish>,
) -> Answer<Json<ApprovalView>> {
    if !caller.may(crate::access::Scope::Execute) {
        let approval = service::visible(&app, &caller, id.approval).await?;
        // An agent may report how its own passed call ended. A call that a person approved is finished by the host that
        // started it.
        if approval.state != ApprovalState::Passed {
            return Err(ApiError::wrong_scope(&[crate::access::Scope::Execute]));
        }
    }
    let token =
        PermitToken::read(&body.permit).ok_or_else(|| ApiError::bad_request("`permit` is 64 hex digits"))?;
    let result = body
        .result
        .as_ref()
        .map(|result| result.get())
        .unwrap_or_default();
    let outcome = match body.outcome.as_str() {
        "succeeded" => Outcome::succeeded(result),
        "failed" => Outcome::failed(result),
        "not_sent" => Outcome::NotSent(result.to_owned()),
        "unknown" => Outcome::Unknown(result.to_owned()),
        _ => {
            return Err(ApiError::bad_request(
                "`outcome` is `succeeded`, `failed`, `not_sent` or `unknown`",
            ));
        }
    };
    let approval = app.gate.finish(&caller.tenant, id, &token, outcome).await??;
    app.metrics.finished(&approval);
    let now = app.store().now().await?;
    Ok(Json(view::approval(&approval, app.gate.policy(), now)))
}

/// Record how a call with an unknown outcome ended
///
/// For a person who could have approved the call. The call is not run again, whatever the answer.
#[utoipa::path(post, path = "/v1/calls/{id}/reconcile", tag = "calls", request_body = ReconcileBody,
    params(("id" = String, Path, description = "the call's id")),
    security(("token" = ["decide"])),
    responses((status = 200, body = ApprovalView), (status = "default", body = ErrorView)))]
pub async fn reconcile(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Decide>,
    Id(id): Id<CallId>,
    Body(body): Body<ReconcileBody>,
) -> Answer<Json<ApprovalView>> {
    let approval = service::reconcile(&app, &caller, id, body.succeeded, body.note).await?;
    let now = app.store().now().await?;
    Ok(Json(view::approval(&approval, app.gate.policy(), now)))
}

/// Propose the undo of a call that succeeded
///
/// Creates a separate approval, which is shown, decided and run like any other.
#[utoipa::path(post, path = "/v1/calls/{id}/undo", tag = "calls", request_body = UndoBody,
    params(("id" = String, Path, description = "the call's id"),
        ("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: a repeated request with the same key has no further effect")),
    security(("token" = ["propose"])),
    responses((status = 201, body = ApprovalView), (status = "default", body = ErrorView)))]
pub async fn undo(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Propose>,
    Id(id): Id<CallId>,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    Body(body): Body<UndoBody>,
) -> Answer<Response> {
    service::visible(&app, &caller, id.approval).await?;
    let fields = SubmissionFields {
        channel: body.channel,
        run: body.run_id,
        session: None,
        claim: None,
        conversation: None,
        key,
    };
    let submission = fields.submission(&caller, Vec::new())?;
    let approval = app.gate.undo(submission, id).await?;
    app.metrics.proposed(&approval);
    let now = app.store().now().await?;
    let view = view::approval(&approval, app.gate.policy(), now);
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Converts an explicit request for approval into a submission, with the requested risk level and time to live.
pub fn asking(caller: &Caller, ask: Ask, key: Option<Key>) -> Answer<(Submission, ApprovalOptions)> {
    let risk = ask.risk_level.as_deref().map(|word| {
        Risk::ALL
            .into_iter()
            .find(|risk| risk.as_str() == word)
            .ok_or_else(|| ApiError::bad_request(format!("there is no risk level `{word}`")))
    });
    let asking = ApprovalOptions {
        risk: risk.transpose()?,
        ttl: ask.ttl_ms.map(ttl).transpose()?,
    };
    let fields = SubmissionFields {
        channel: ask.channel,
        run: ask.run_id,
        session: ask.session,
        claim: ask.description,
        conversation: ask.conversation,
        key,
    };
    let (tool, arguments) = match ask.tool_arguments {
        Some(raw) => (ask.tool_name, Arc::from(raw.get().as_bytes())),
        None => leave(ask.tool_name, fields.claim.clone(), ask.risk_level)?,
    };
    let call = SubmittedCall {
        tool,
        arguments,
        definition: Definition::Unknown,
        secret: None,
        working_folder: None,
    };
    Ok((fields.submission(caller, vec![call])?, asking))
}

/// Returns the tool and the arguments of a request for leave to use `tool_name`.
fn leave(
    tool_name: String,
    description: Option<String>,
    risk_level: Option<String>,
) -> Answer<(String, Arc<[u8]>)> {
    ToolName::new(tool_name.as_str()).map_err(|problem| ApiError::bad_request(problem.to_string()))?;
    let arguments = LeaveArguments {
        tool_name,
        description,
        risk_level,
    };
    let arguments = serde_json::to_vec(&arguments).map_err(|_| ApiError::internal())?;
    Ok((REQUEST_APPROVAL.to_owned(), arguments.into()))
}

/// Parses `ttlMs`, which is a float because `2000.0` and `2000` are the same JSON number.
fn ttl(millis: f64) -> Answer<Duration> {
    const LONGEST: f64 = 30.0 * 24.0 * 3600.0 * 1000.0;
    match (1000.0..=LONGEST).contains(&millis) && millis.fract() == 0.0 {
        true => Ok(Duration::from_secs_f64(millis / 1000.0)),
        false => Err(ApiError::bad_request(
            "`ttlMs` is a whole number from 1000 to 2592000000, which is 30 days",
        )),
    }
}

fn submission(caller: &Caller, body: Submit, key: Option<Key>) -> Answer<Submission> {
    let fields = SubmissionFields {
        channel: body.channel,
        run: body.run_id,
        session: body.session,
        claim: body.claim,
        conversation: body.conversation,
        key,
    };
    let calls = body.calls.into_iter().map(call).collect::<Result<_, _>>()?;
    fields.submission(caller, calls)
}

fn call(call: SubmitCall) -> Answer<SubmittedCall> {
    let definition = call.definition.as_deref().map(|text| {
        Hash::from_hex(text).ok_or_else(|| ApiError::bad_request("`definition` is 64 hex digits"))
    });
    let folder = call.working_folder.map(|folder| {
        let folder = folder.read();
        let hint = "send the full path of the folder, and of each place that a link leads to";
        folder.map_err(|problem| ApiError::unclear(format!("`workingFolder`: {problem}"), hint))
    });
    Ok(SubmittedCall {
        tool: call.tool,
        arguments: call.arguments.get().as_bytes().into(),
        // INVARIANT: a definition hash claimed by an agent satisfies no pin (X69).
        definition: Definition::claimed(definition.transpose()?),
        secret: call.secret.map(|secret| Secret::new(secret.into_bytes())),
        working_folder: folder.transpose()?.map(Arc::new),
    })
}

/// Fields of a proposal's body that are not about a single call.
struct SubmissionFields {
    channel: Option<String>,
    run: Option<String>,
    session: Option<String>,
    claim: Option<String>,
    conversation: Option<Vec<Message>>,
    key: Option<Key>,
}

impl SubmissionFields {
    /// Builds the submission.
    ///
    /// INVARIANT: agent, requester and person are taken from the credential, never from the body (X41).
    fn submission(self, caller: &Caller, calls: Vec<SubmittedCall>) -> Answer<Submission> {
        let agent = caller
            .agent
            .clone()
            .ok_or_else(|| ApiError::wrong_scope(&[crate::access::Scope::Propose]))?;
        Ok(Submission {
            tenant: caller.tenant.clone(),
            agent,
            requester: caller.name.clone(),
            on_behalf_of: caller.person.clone(),
            channel: self.channel.map(Channel::new).transpose()?,
            run: self.run.map(Run::new).transpose()?,
            session: self.session.map(Session::new).transpose()?,
            claim: self.claim,
            key: self.key,
            // INVARIANT: a conversation supplied by an agent never relaxes the policy (X57).
            options: Default::default(),
            conversation: self
                .conversation
                .map(|messages| VouchedConversation::supplied(Conversation { messages })),
            calls,
        })
    }
}

/// Returns the answer to a call with the flag `confirmed: true` that refers to an earlier approval; `None` if the call
/// is to be submitted like any other.
///
/// INVARIANT: runs nothing and proposes nothing. The approved call runs as any other does.
async fn confirmed(app: &App, caller: &Caller, submission: &Submission) -> Answer<Option<SubmittedView>> {
    let Some((mut approval, id)) = app.gate.find_flagged(submission).await? else {
        return Ok(None);
    };
    let now = app.store().now().await?;
    if approval.state == ApprovalState::Pending {
        let held = held(id, Some(&approval));
        return Ok(Some(SubmittedView {
            calls: vec![held],
            approval: Some(view::approval(&approval, app.gate.policy(), now)),
        }));
    }
    let is_over = |approval: &Approval| {
        approval
            .call(id.position)
            .is_some_and(|call| call.state.is_over())
    };
    let is_ours = |approval: &Approval| {
        let call = approval.call(id.position);
        call.is_some_and(|call| app.gate.runs(&call.tool))
    };
    if !is_over(&approval) && is_ours(&approval) {
        let wait = app.settings.longest_wait.min(LONGEST_CONFIRMED_WAIT);
        let _counted = app.limits.wait(&caller.tenant, caller.name.as_str())?;
        let waited = service::wait(app, caller, id.approval, Until::Finished, wait).await?;
        approval = waited.ok_or_else(ApiError::stopping)?;
    }
    // A call that has not ended yet is asked for again, so only a result is given once.
    if is_over(&approval) {
        let key = submission.key.as_ref();
        if !app.gate.tell_once(&caller.tenant, id, key).await? {
            return Ok(None);
        }
    }
    let now = app.store().now().await?;
    let view = view::approval(&approval, app.gate.policy(), now);
    let call = view.call(id.position);
    let ruling = RulingView {
        ruling: "confirmed".into(),
        status: call.map(|call| call.state.as_str().into()),
        id: Some(id.to_string()),
        summary: call.map(|call| call.summary.clone()),
        result: call.and_then(|call| call.result.clone()),
        ..blank()
    };
    Ok(Some(SubmittedView {
        calls: vec![ruling],
        approval: Some(view),
    }))
}

/// Returns a ruling without any details.
fn blank() -> RulingView {
    RulingView {
        ruling: "pass".into(),
        status: None,
        id: None,
        summary: None,
        reason: None,
        permit: None,
        timeout_ms: None,
        result: None,
        requires_confirmation: None,
        message: None,
        details: None,
    }
}

fn held(id: CallId, approval: Option<&Approval>) -> RulingView {
    let call = approval.and_then(|approval| approval.call(id.position));
    let (message, details) = call.map(|call| confirmation(&[call])).unzip();
    RulingView {
        ruling: "held".into(),
        status: Some("pending_confirmation".into()),
        id: Some(id.to_string()),
        summary: call.map(|call| call.terms.summary.clone()),
        requires_confirmation: Some(true),
        message,
        details,
        ..blank()
    }
}

async fn ruling(app: &App, caller: &Caller, ruled: Ruled, approval: Option<&Approval>) -> Answer<RulingView> {
    let ran = |id: Option<CallId>, outcome| {
        let (status, result) = match outcome {
            Outcome::Succeeded(result) => ("succeeded", view::result(&result)),
            Outcome::Failed(result) => ("failed", view::result(&result)),
            Outcome::NotSent(reason) => ("not_sent", view::result(reason.as_bytes())),
            Outcome::Unknown(reason) => ("unknown", view::result(reason.as_bytes())),
        };
        RulingView {
            ruling: "pass".into(),
            status: Some(status.into()),
            id: id.map(|id| id.to_string()),
            result,
            ..blank()
        }
    };
    Ok(match ruled {
        Ruled::Held(id) => held(id, approval),
        Ruled::Forbidden { reason } | Ruled::Malformed { reason } => RulingView {
            ruling: "forbidden".into(),
            reason: Some(reason),
            ..blank()
        },
        // The caller runs this tool, so the response contains the permit, but not the arguments, which the caller has.
        Ruled::Pass(permit) if !app.gate.runs(permit.tool()) => RulingView {
            id: permit.call().map(|call| call.to_string()),
            permit: permit.token().map(PermitToken::reveal),
            timeout_ms: permit
                .call()
                .map(|_| u64::try_from(permit.timeout().as_millis()).unwrap_or(u64::MAX)),
            ..blank()
        },
        Ruled::Pass(permit) => ran(permit.call(), app.gate.run_passed(permit).await),
        Ruled::PassedBefore(id) => {
            let earlier = app.store().approval(&caller.tenant, id.approval).await?;
            let earlier = earlier.as_ref().and_then(|earlier| earlier.call(id.position));
            match earlier {
                Some(earlier) if app.gate.runs(&earlier.tool) => {
                    ran(Some(id), app.gate.outcome_of(&caller.tenant, id).await)
                }
                // INVARIANT: the caller runs the call at most once. A caller runs a call only on the ruling `pass`, so
                // any other ruling keeps it from running the call again.
                earlier => RulingView {
                    ruling: "passed_before".into(),
                    status: earlier.map(|earlier| earlier.state.as_str().into()),
                    id: Some(id.to_string()),
                    ..blank()
                },
            }
        }
    })
}
