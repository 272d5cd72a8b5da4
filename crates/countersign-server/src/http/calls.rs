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
use countersign::gate::{
    ApprovalOptions, Foreseen, Ruled, Submission, SubmissionOptions, SubmittedCall, Until, confirmation,
};
use countersign::hash::Hash;
use countersign::id::{CallId, Channel, Key, Run, Session, ToolName};
use countersign::policy::{Definition, Terms};
use countersign::provenance::{Conversation, Message, VouchedConversation};
use countersign::seal::Secret;
use countersign::secrecy::Secrecy;
use countersign::state::{CallState, State as ApprovalState};
use countersign::time::Time;
use countersign_agent::gated::REQUEST_APPROVAL;
use serde_json::value::RawValue;

use crate::access::{Caller, Scope};
use crate::leave::LeaveArguments;
use crate::service;
use crate::view::{self, ApprovalView, CallEnd};
use crate::web::{
    Answer, ApiError, App, Authorized, BearerSecret, Body, Id, IdempotencyKeyHeader, Json, scope,
};
use crate::wire::{
    Ask, ErrorView, Finish, IdempotencyKey, PermitView, ReconcileBody, RulingView, Submit, SubmitCall,
    SubmittedView, UndoBody,
};

/// Largest result that is recorded as it is, in bytes.
const LARGEST_RESULT: usize = 256 * 1024;
/// Size of the beginning that is recorded of a larger result, in bytes.
const HEAD_OF_RESULT: usize = 4 * 1024;
/// Largest body of a request that reports an outcome, in bytes. A call must not stay running because its result is large.
pub const LARGEST_FINISH: usize = 8 * 1024 * 1024;
/// Longest time for which a call with the flag `confirmed: true` waits for the result of the approved call.
const LONGEST_CONFIRMED_WAIT: Duration = Duration::from_secs(30);

/// Propose the calls of one agent turn
///
/// Each call passes, is held or is forbidden; all held calls share one approval. A call that passes is run by the
/// service if the service runs its tool, otherwise by the caller. Unless the call only reads, it is recorded as an
/// approval in the state `passed`, and a caller that runs it must report its outcome (`finish`, with the `permit` from
/// the response). With an `Idempotency-Key` the call runs once: repeating the request returns the present state of the
/// approval and of each call, and the same key with another body is refused.
///
/// With `dryRun`, only the rulings are returned, and nothing happens.
///
/// A single call in a channel may have the argument `confirmed: true`. If a person approved the same call in that
/// channel, its result is returned, once; otherwise the call is held like any other.
#[utoipa::path(post, path = "/v1/calls", tag = "calls", request_body = Submit,
    params(("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: a repeated request with the same key has no further effect")),
    security(("token" = ["propose"]), ("token" = ["agent"])),
    responses((status = 200, body = SubmittedView, description = "a ruling for each call, and the approval of the held ones"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn submit(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Propose>,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    Body(body): Body<Submit>,
) -> Answer<Json<SubmittedView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let is_dry_run = body.dry_run == Some(true);
    let submission = submission(&caller, body, key)?;
    if is_dry_run {
        return dry_run(&app, &submission).await.map(Json);
    }
    if let Some(answer) = confirmed(&app, &caller, &submission).await? {
        return Ok(Json(answer));
    }
    let submitted = app.gate.submit(submission).await?;
    let now = app.store().now().await?;
    let mut calls = Vec::with_capacity(submitted.calls.len());
    for ruled in submitted.calls {
        calls.push(ruling(&app, &caller, ruled, submitted.approval.as_deref(), now).await?);
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
/// For hosts that run the tool themselves, and for agents that run their own calls. Returns the exact arguments and a
/// permit, once. From then on the call counts as run.
///
/// With an `Idempotency-Key`, the same token gets the same permit again while the call is running, so that a lost answer
/// does not lose the permit.
#[utoipa::path(post, path = "/v1/calls/{id}/start", tag = "calls",
    params(("id" = String, Path, description = "the call's id"),
        ("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: the same key returns the same permit while the call is running")),
    security(("token" = ["execute"]), ("token" = ["agent"])),
    responses((status = 200, body = PermitView, description = "the exact arguments and the permit to run the call"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn start(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Start>,
    BearerSecret(secret): BearerSecret,
    Id(id): Id<CallId>,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
) -> Answer<Json<PermitView>> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    if !caller.may(Scope::Execute) {
        service::check_own_call(&app, &caller, id).await?;
    }
    let permit = match &key {
        None => app.gate.start(&caller.tenant, id).await??,
        // INVARIANT: the permit is given again only to the token that got it, because the permit is computed from it.
        Some(key) => {
            let token = PermitToken::derive(&secret, &caller.tenant, id, key);
            app.gate.start_again(&caller.tenant, id, token).await??
        }
    };
    let mut timeout = permit.timeout();
    if let (Some(_), Some((_, deadline))) = (&key, permit.start_and_deadline()) {
        timeout = timeout.min(deadline.since(app.store().now().await?));
    }
    let arguments = permit.arguments().as_bytes();
    let text = String::from_utf8_lossy(arguments).into_owned();
    Ok(Json(PermitView {
        id: id.to_string(),
        tool: permit.tool().to_string(),
        arguments: RawValue::from_string(text.clone()).map_err(|_| ApiError::internal())?,
        arguments_text: text,
        arguments_hex: view::hex(arguments),
        permit: permit.token().map(PermitToken::reveal).unwrap_or_default(),
        secret: permit
            .secret()
            .map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned()),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
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
    security(("token" = ["execute"]), ("token" = ["propose"]), ("token" = ["agent"])),
    responses((status = 200, body = ApprovalView, description = "the approval in its present state"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn finish(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Finish>,
    Id(id): Id<CallId>,
    Body(body): Body<Finish>,
) -> Answer<Json<ApprovalView>> {
    if !caller.may(Scope::Execute) {
        let approval = service::visible(&app, &caller, id.approval).await?;
        // An agent may report how its own passed call ended. A call that a person approved is finished by the host that
        // started it, which may be the agent itself.
        if approval.state != ApprovalState::Passed && !caller.may(Scope::Agent) {
            return Err(ApiError::wrong_scope(&[Scope::Execute, Scope::Agent]));
        }
    }
    let token =
        PermitToken::read(&body.permit).ok_or_else(|| ApiError::bad_request("`permit` is 64 hex digits"))?;
    let result = result(body.result, body.result_text)?;
    let result = match result.len() > LARGEST_RESULT {
        true => {
            let approval = service::visible(&app, &caller, id.approval).await?;
            truncated(&result, &approval.secrecy(app.gate.policy()))
        }
        false => result,
    };
    let outcome = match body.outcome.as_str() {
        "succeeded" => Outcome::succeeded(result),
        "failed" => Outcome::failed(result),
        "not_sent" => Outcome::NotSent(result),
        "unknown" => Outcome::Unknown(result),
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

/// Returns the result that a host reports, as JSON text; empty if it reports none.
fn result(json: Option<Box<RawValue>>, text: Option<String>) -> Answer<String> {
    match (json, text) {
        (Some(_), Some(_)) => Err(ApiError::unclear(
            "the request has both `result` and `resultText`",
            "send one of them",
        )),
        (Some(json), None) => Ok(json.get().to_owned()),
        (None, Some(text)) => serde_json::to_string(&text).map_err(|_| ApiError::internal()),
        (None, None) => Ok(String::new()),
    }
}

/// Returns the object that is recorded in place of a result that is too large: its size, its hash and its beginning.
/// Secrets are hidden before the beginning is cut off, because half of a secret would not be recognised later.
fn truncated(result: &str, secrecy: &Secrecy) -> String {
    let shown = secrecy.text(result);
    let head: String = clip_bytes(&shown, HEAD_OF_RESULT).to_owned();
    serde_json::json!({
        "truncated": true,
        "bytes": result.len(),
        "sha256": Hash::of(result.as_bytes()).to_string(),
        "head": head,
    })
    .to_string()
}

/// Returns the longest beginning of a text that has at most `most` bytes.
fn clip_bytes(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Record how a call with an unknown outcome ended
///
/// For a person who could have approved the call. The call is not run again, whatever the answer.
#[utoipa::path(post, path = "/v1/calls/{id}/reconcile", tag = "calls", request_body = ReconcileBody,
    params(("id" = String, Path, description = "the call's id")),
    security(("token" = ["decide"])),
    responses((status = 200, body = ApprovalView, description = "the approval in its present state"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
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
    security(("token" = ["propose"]), ("token" = ["agent"])),
    responses((status = 201, body = ApprovalView, description = "the approval of the undo"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
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
        options: SubmissionOptions::default(),
        key,
    };
    let submission = fields.submission(&caller, Vec::new())?;
    let approval = app.gate.undo(submission, id).await?;
    app.metrics.proposed(&approval);
    let now = app.store().now().await?;
    let view = view::approval(&approval, app.gate.policy(), now);
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Converts an explicit request for approval into a submission, with the requested risk level and time to live. Fails
/// if a field is invalid.
pub fn asking(caller: &Caller, ask: Ask, key: Option<Key>) -> Answer<(Submission, ApprovalOptions)> {
    let risk = ask.risk_level.as_deref().map(|word| {
        Risk::ALL
            .into_iter()
            .find(|risk| risk.as_str() == word)
            .ok_or_else(|| ApiError::bad_request(format!("there is no risk level `{word}`")))
    });
    let asking = ApprovalOptions {
        risk: risk.transpose()?,
        ttl: ask.ttl_ms.map(|millis| time("ttlMs", millis)).transpose()?,
    };
    let fields = SubmissionFields {
        channel: ask.channel,
        run: ask.run_id,
        session: ask.session,
        claim: ask.description,
        conversation: ask.conversation,
        options: SubmissionOptions::default(),
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

/// Returns the tool and the arguments of a request for permission to use the tool `tool_name`.
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

/// Parses a time such as `ttlMs`, which is a float because `2000.0` and `2000` are the same JSON number.
fn time(name: &str, millis: f64) -> Answer<Duration> {
    const LONGEST: f64 = 30.0 * 24.0 * 3600.0 * 1000.0;
    match (1000.0..=LONGEST).contains(&millis) && millis.fract() == 0.0 {
        true => Ok(Duration::from_secs_f64(millis / 1000.0)),
        false => Err(ApiError::bad_request(format!(
            "`{name}` is a whole number from 1000 to 2592000000, which is 30 days"
        ))),
    }
}

fn submission(caller: &Caller, body: Submit, key: Option<Key>) -> Answer<Submission> {
    let fields = SubmissionFields {
        channel: body.channel,
        run: body.run_id,
        session: body.session,
        claim: body.claim,
        conversation: body.conversation,
        options: SubmissionOptions {
            order: body.order.unwrap_or_default(),
            ttl: body.ttl_ms.map(|millis| time("ttlMs", millis)).transpose()?,
            start_within: body
                .start_within_ms
                .map(|millis| time("startWithinMs", millis))
                .transpose()?,
        },
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
    let arguments = match (&call.arguments, &call.arguments_text) {
        (Some(json), None) => json.get(),
        (None, Some(text)) => text.as_str(),
        // Some libraries write a field that is not set as null.
        (Some(json), Some(text)) if json.get() == "null" => text.as_str(),
        _ => {
            let message = "a call has either `arguments` or `argumentsText`";
            return Err(ApiError::unclear(message, "send one of them"));
        }
    };
    Ok(SubmittedCall {
        tool: call.tool,
        arguments: arguments.as_bytes().into(),
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
    options: SubmissionOptions,
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
            .ok_or_else(|| ApiError::wrong_scope(&[Scope::Propose]))?;
        Ok(Submission {
            tenant: caller.tenant.clone(),
            agent,
            requester: caller.name.clone(),
            on_behalf_of: caller.person.clone(),
            channel: self.channel.map(Channel::new).transpose()?,
            run: self.run.map(Run::new).transpose()?,
            session: self.session.map(Session::new).transpose()?,
            claim: self.claim,
            options: self.options,
            key: self.key,
            // INVARIANT: a conversation supplied by an agent never relaxes the policy (X57).
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
        let held = held(id, Some(&approval), now);
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
    // The client asks again while the call has not ended, so only a result counts as delivered.
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
        state: call.map(|call| call.state),
        end: call.and_then(|call| call.end),
        id: Some(id.to_string()),
        call_id: Some(id.to_string()),
        summary: call.map(|call| call.summary.clone()),
        result: call.and_then(|call| call.result.clone()),
        ..blank()
    };
    Ok(Some(SubmittedView {
        calls: vec![ruling],
        approval: Some(view),
    }))
}

/// Returns a ruling with all optional fields empty.
fn blank() -> RulingView {
    RulingView {
        ruling: "pass".into(),
        status: None,
        state: None,
        end: None,
        call_id: None,
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

fn held(id: CallId, approval: Option<&Approval>, now: Time) -> RulingView {
    let call = approval.and_then(|approval| approval.call(id.position));
    let ended = approval.zip(call);
    let ended = ended.map(|(approval, call)| view::state_and_end(approval, call, now));
    let (state, end) = ended.unwrap_or((CallState::Held, None));
    let ruling = RulingView {
        ruling: "held".into(),
        status: Some(state.as_str().into()),
        state: Some(state),
        end,
        id: Some(id.to_string()),
        call_id: Some(id.to_string()),
        summary: call.map(|call| call.terms.summary.clone()),
        ..blank()
    };
    // A repeated request may find that the call was decided meanwhile.
    if state != CallState::Held {
        return ruling;
    }
    let (message, details) = call.map(|call| confirmation(&[call])).unzip();
    RulingView {
        status: Some("pending_confirmation".into()),
        requires_confirmation: Some(true),
        message,
        details,
        ..ruling
    }
}

/// Returns the rulings that the calls would get.
///
/// INVARIANT: records nothing, proposes nothing, reads nothing for a card and runs nothing.
async fn dry_run(app: &App, submission: &Submission) -> Answer<SubmittedView> {
    let foreseen = app.gate.preview_submission(submission).await?;
    let summary = |terms: &Option<Arc<Terms>>| terms.as_ref().map(|terms| terms.summary.clone());
    let ruling = |foreseen: Foreseen| match foreseen {
        Foreseen::Pass(terms) => RulingView {
            summary: summary(&terms),
            ..blank()
        },
        Foreseen::Held(terms) => RulingView {
            ruling: "held".into(),
            summary: summary(&terms),
            reason: terms
                .map(|terms| terms.notes.join("; "))
                .filter(|notes| !notes.is_empty()),
            ..blank()
        },
        Foreseen::Forbidden { reason } => forbidden(reason),
    };
    Ok(SubmittedView {
        calls: foreseen.into_iter().map(ruling).collect(),
        approval: None,
    })
}

fn forbidden(reason: String) -> RulingView {
    RulingView {
        ruling: "forbidden".into(),
        state: Some(CallState::Refused),
        end: Some(CallEnd::Forbidden),
        reason: Some(reason),
        ..blank()
    }
}

async fn ruling(
    app: &App,
    caller: &Caller,
    ruled: Ruled,
    approval: Option<&Approval>,
    now: Time,
) -> Answer<RulingView> {
    let ran = |id: Option<CallId>, outcome| {
        let (state, end, result) = match outcome {
            Outcome::Succeeded(result) => (CallState::Succeeded, CallEnd::Succeeded, view::result(&result)),
            Outcome::Failed(result) => (CallState::Failed, CallEnd::Failed, view::result(&result)),
            Outcome::NotSent(reason) => (
                CallState::Failed,
                CallEnd::NotSent,
                view::result(reason.as_bytes()),
            ),
            Outcome::Unknown(reason) => (
                CallState::Unknown,
                CallEnd::Unknown,
                view::result(reason.as_bytes()),
            ),
        };
        RulingView {
            ruling: "pass".into(),
            status: Some(end.as_str().into()),
            state: Some(state),
            end: Some(end),
            id: id.map(|id| id.to_string()),
            call_id: id.map(|id| id.to_string()),
            result,
            ..blank()
        }
    };
    Ok(match ruled {
        Ruled::Held(id) => held(id, approval, now),
        Ruled::Forbidden { reason } | Ruled::Malformed { reason } => forbidden(reason),
        // The caller runs this tool, so the response contains the permit, but not the arguments, which the caller has.
        Ruled::Pass(permit) if !app.gate.runs(permit.tool()) => RulingView {
            id: permit.call().map(|call| call.to_string()),
            call_id: permit.call().map(|call| call.to_string()),
            // A read has no record.
            state: permit.call().map(|_| CallState::Running),
            permit: permit.token().map(PermitToken::reveal),
            timeout_ms: permit
                .call()
                .map(|_| u64::try_from(permit.timeout().as_millis()).unwrap_or(u64::MAX)),
            ..blank()
        },
        Ruled::Pass(permit) => ran(permit.call(), app.gate.run_passed(permit).await),
        Ruled::PassedBefore(id) => {
            let approval = app.store().approval(&caller.tenant, id.approval).await?;
            let earlier = approval.as_ref().and_then(|earlier| earlier.call(id.position));
            let ended = approval.as_ref().zip(earlier);
            let ended = ended.map(|(approval, call)| view::state_and_end(approval, call, now));
            match earlier {
                Some(earlier) if app.gate.runs(&earlier.tool) => {
                    ran(Some(id), app.gate.outcome_of(&caller.tenant, id).await)
                }
                // INVARIANT: the caller runs the call at most once. A caller runs a call only on the ruling `pass`, so
                // any other ruling keeps it from running the call again.
                earlier => RulingView {
                    ruling: "passed_before".into(),
                    status: earlier.map(|earlier| earlier.state.as_str().into()),
                    state: ended.map(|(state, _)| state),
                    end: ended.and_then(|(_, end)| end),
                    id: Some(id.to_string()),
                    call_id: Some(id.to_string()),
                    ..blank()
                },
            }
        }
    })
}
