//! `/v1/approvals`: list, read, wait for, ask for, decide and withdraw approvals.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign::approval::{Approval, SharedApproval};
use countersign::call::Arguments;
use countersign::card::WholeCard;
use countersign::decision::{Choice, Decision, Surface, Verdict};
use countersign::gate::Until;
use countersign::hash::Hash;
use countersign::id::{Actor, Agent, ApprovalId, Channel, Run};
use countersign::state::State as ApprovalState;
use countersign::store::{Filter, LONGEST_PAGE};

use super::conditional_read::ConditionalReader;
use crate::access::{Caller, Scope};
use crate::duration;
use crate::service::{self, LONGEST_COMMENT};
use crate::view::{self, ApprovalView, EitherPageView, EitherView, PageView, SimplePageView, View};
use crate::web::{
    Answer, ApiError, App, Authorized, Body, Id, IdempotencyKeyHeader, Json, Needs as _, QueryParams, json,
    scope,
};
use crate::wire::{
    Ask, AskQuery, Decide, DecideCall, DecideQuery, ErrorView, GetQuery, IdempotencyKey, ListQuery,
    WithdrawBody,
};

/// Size in bytes of arguments and results after which a page ends. The approval that reaches this size is the last one.
// The arguments are in the response twice: as JSON and as text.
pub const LARGEST_PAGE: usize = 768 * 1024;
/// Hint in the error for a request of the simple view that asks for something only the full view has.
const FULL_VIEW: &str = "leave `view` out, or set it to `full`";

/// List approvals
///
/// Lists pending approvals by default, oldest first; all others newest first. An agent's token lists that agent's
/// approvals. A page ends early once its approvals have a megabyte of arguments and results: continue while there is a
/// `next`. With `runId`, approvals in every state are listed.
#[utoipa::path(get, path = "/v1/approvals", tag = "approvals", params(ListQuery),
    security(("token" = ["read"]), ("token" = ["propose"]), ("token" = ["agent"]), ("token" = ["wait"])),
    responses((status = 200, body = EitherPageView, description = "a page of approvals"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn list(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Look>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Answer<Response> {
    let looks_twice = query.concerns == Some(true);
    if query.view == Some(View::Simple) {
        return list_simple(&app, &caller, query).await;
    }
    let filter = filter(&caller, query)?;
    let room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut approvals = app.store().list(&caller.tenant, &filter).await?;
    let now = app.store().now().await?;
    let is_full = filter.is_full(&approvals);
    let next = approvals.last().filter(|_| is_full).map(|approval| approval.id);
    approvals.retain(|approval| service::is_visible(&caller, approval));
    let mut views: Vec<ApprovalView> = approvals
        .iter()
        .map(|approval| view::approval(approval, app.gate.policy(), now))
        .collect();
    if looks_twice {
        let is_pending = |(approval, _): &(&SharedApproval, _)| approval.state == ApprovalState::Pending;
        let pairs = approvals.iter().zip(&mut views).filter(is_pending);
        let (pending, pending_views): (Vec<&Approval>, Vec<_>) =
            pairs.map(|(approval, view)| (&**approval, view)).unzip();
        let concerns = app.gate.concerns_about(&pending).await?;
        for (view, concerns) in pending_views.into_iter().zip(&concerns) {
            view.add_concerns(concerns);
        }
    }
    let bytes = json::write(&EitherPageView::Full(PageView {
        next,
        approvals: views,
    }))?;
    Ok(json::answer(room.into_body(bytes)))
}

/// Lists approvals in the simple view. Calls that passed are left out, because nobody was asked.
async fn list_simple(app: &App, caller: &Caller, mut query: ListQuery) -> Answer<Response> {
    if query.concerns == Some(true) {
        return Err(ApiError::unclear(
            "`concerns` are only in the full view",
            FULL_VIEW,
        ));
    }
    let wanted = match (query.status.as_deref(), &query.run_id) {
        (Some("all"), _) | (None, Some(_)) => None,
        (None, None) => Some("pending"),
        (Some(word), _) => {
            let words = ["pending", "approved", "rejected", "expired"];
            let known = words.into_iter().find(|known| *known == word);
            let unknown = || {
                let message = format!("the simple view has no status `{word}`");
                ApiError::unclear(message, FULL_VIEW)
            };
            Some(known.ok_or_else(unknown)?)
        }
    };
    // `expired` includes approvals that were superseded or withdrawn, so all of them are read.
    query.status = Some(
        wanted
            .filter(|word| *word != "expired")
            .unwrap_or("all")
            .to_owned(),
    );
    let filter = Filter {
        asked: true,
        ..filter(caller, query)?
    };
    let room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut approvals = app.store().list(&caller.tenant, &filter).await?;
    let now = app.store().now().await?;
    let is_full = filter.is_full(&approvals);
    let next = approvals.last().filter(|_| is_full).map(|approval| approval.id);
    approvals.retain(|approval| {
        let is_wanted = wanted.is_none_or(|wanted| view::simple_status(approval, now) == wanted);
        is_wanted && service::is_visible(caller, approval)
    });
    let views = approvals
        .iter()
        .map(|approval| view::simple(approval, app.gate.policy(), now));
    let bytes = json::write(&EitherPageView::Simple(SimplePageView {
        approvals: views.collect(),
        next,
    }))?;
    Ok(json::answer(room.into_body(bytes)))
}

/// Ask for approval explicitly
///
/// The call is held even if the policy would let it pass. Without `toolArguments`, a person is asked for permission to
/// use the tool: the approval is of a call of the built-in tool `requestApproval`, which has no effect.
#[utoipa::path(post, path = "/v1/approvals", tag = "approvals", request_body = Ask,
    params(AskQuery, ("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: a repeated request with the same key has no further effect")),
    security(("token" = ["propose"]), ("token" = ["agent"])),
    responses((status = 201, body = EitherView, description = "the new approval, or the earlier one of a repeated request"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn ask(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Propose>,
    QueryParams(query): QueryParams<AskQuery>,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    Body(ask): Body<Ask>,
) -> Answer<Response> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::stopping());
    }
    let (submission, asking) = super::calls::asking(&caller, ask, key)?;
    let approval = app.gate.ask(submission, asking).await?;
    app.metrics.proposed(&approval);
    let now = app.store().now().await?;
    let (policy, shape) = (app.gate.policy(), query.view.unwrap_or_default());
    let view = match shape {
        View::Full => EitherView::Full(Box::new(view::approval(&approval, policy, now))),
        View::Simple => EitherView::Simple(Box::new(view::simple(&approval, policy, now))),
    };
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Read one approval, or wait for it
///
/// With `wait`, responds as soon as the approval is decided (with `waitFor=finished`, as soon as its calls have ended),
/// or after that time with its current state. Waiting decides nothing.
#[utoipa::path(get, path = "/v1/approvals/{id}", tag = "approvals",
    params(("id" = String, Path, description = "the approval's id"), GetQuery),
    security(("token" = ["read"]), ("token" = ["propose"]), ("token" = ["agent"]), ("token" = ["wait"])),
    responses((status = 200, body = EitherView, description = "the approval in its present state"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn get(
    State(app): State<App>,
    ConditionalReader { caller, stamp }: ConditionalReader,
    Id(id): Id<ApprovalId>,
    QueryParams(query): QueryParams<GetQuery>,
) -> Answer<Response> {
    let until = until(query.wait_for.as_deref())?;
    let wait = query.wait.as_deref().map(duration::parse).transpose();
    let wait = wait.map_err(ApiError::bad_request)?;
    let wants_more = query.concerns == Some(true) || query.events == Some(true);
    let is_simple = query.view == Some(View::Simple);
    if is_simple && wants_more {
        return Err(ApiError::unclear(
            "`concerns` and `events` are only in the full view",
            FULL_VIEW,
        ));
    }
    if !is_simple && wait.is_none() && !wants_more {
        let now = app.store().now().await?;
        if let Some(answer) = app.response_cache().again(&caller, id, stamp, now) {
            return Ok(answer);
        }
    }
    let mut is_stopping = false;
    let approval = match wait {
        None => service::visible(&app, &caller, id).await?,
        Some(wait) => {
            let wait = wait.min(app.settings.longest_wait);
            let _counted = app.limits.wait(&caller.tenant, caller.name.as_str())?;
            match service::wait(&app, &caller, id, until, wait).await? {
                Some(approval) => approval,
                None => {
                    is_stopping = true;
                    service::visible(&app, &caller, id).await?
                }
            }
        }
    };
    let now = app.store().now().await?;
    let mut response = match wants_more {
        _ if is_simple => Json(view::simple(&approval, app.gate.policy(), now)).into_response(),
        false => app
            .response_cache()
            .answer(&approval, app.gate.policy(), now, stamp),
        true => {
            let mut view = view::approval(&approval, app.gate.policy(), now);
            if query.concerns == Some(true) && approval.state == ApprovalState::Pending {
                view = view.with_concerns(&app.gate.concerns(&approval).await?);
            }
            if query.events == Some(true) {
                view = view.with_events(&app.store().events(&caller.tenant, id).await?);
            }
            Json(view).into_response()
        }
    };
    if is_stopping {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Decide an approval
///
/// The token determines who decides. Responds once the decision is recorded, while the released calls still run.
#[utoipa::path(post, path = "/v1/approvals/{id}", tag = "approvals", request_body = Decide,
    params(("id" = String, Path, description = "the approval's id"), DecideQuery,
        ("idempotency-key" = inline(Option<IdempotencyKey>), Header, description = "idempotency key: a repeated request with the same key has no further effect")),
    security(("token" = ["decide"])),
    responses((status = 200, body = EitherView, description = "the approval in its present state"),
        (status = 403, body = ErrorView, description = "`not_allowed`, `wrong_scope`"),
        (status = 404, body = ErrorView, description = "`not_found`: unknown, or somebody else's"),
        (status = 409, body = ErrorView, description = "`already_decided`, `stale`, `superseded`, `withdrawn`, `key_reused`"),
        (status = 410, body = ErrorView, description = "`expired`"),
        (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn decide(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Anyone>,
    Id(id): Id<ApprovalId>,
    query: Result<QueryParams<DecideQuery>, ApiError>,
    key: Result<IdempotencyKeyHeader, ApiError>,
    body: Result<Body<Decide>, ApiError>,
) -> Answer<Response> {
    if !caller.may(Scope::Decide) {
        let approve = body.is_ok_and(|Body(body)| body.approved);
        return Err(tried(&app, &caller, id, approve).await?);
    }
    let (QueryParams(query), IdempotencyKeyHeader(key), Body(body)) = (query?, key?, body?);
    let mut decision = decision(&app, &caller, id, body).await?;
    decision.key = key;
    let is_finished = until(query.wait_for.as_deref())? == Until::Finished;
    let approval = service::decide_and_run(&app, decision, is_finished).await?;
    let now = app.store().now().await?;
    if query.view == Some(View::Simple) {
        return Ok(Json(view::simple(&approval, app.gate.policy(), now)).into_response());
    }
    Ok(app
        .response_cache()
        .answer(&approval, app.gate.policy(), now, None))
}

/// Records the attempt of a caller without the scope `decide`, usually an agent, in the approval's history (X01), and
/// returns the error for that caller.
async fn tried(app: &App, caller: &Caller, id: ApprovalId, approve: bool) -> Answer<ApiError> {
    let by = match &caller.agent {
        Some(agent) => Actor::Agent(agent.clone()),
        None => Actor::Person(caller.name.clone()),
    };
    let noted = app
        .gate
        .note_attempt(&caller.tenant, id, by, approve, Surface::Api);
    noted.await?;
    app.metrics.attempted();
    Ok(ApiError::wrong_scope(scope::Decide::ANY))
}

/// Withdraw a pending approval
///
/// An agent may withdraw its own proposals.
#[utoipa::path(post, path = "/v1/approvals/{id}/withdraw", tag = "approvals", request_body = WithdrawBody,
    params(("id" = String, Path, description = "the approval's id")),
    security(("token" = ["propose"]), ("token" = ["agent"])),
    responses((status = 200, body = ApprovalView, description = "the approval in its present state"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn withdraw(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Propose>,
    Id(id): Id<ApprovalId>,
    Body(body): Body<WithdrawBody>,
) -> Answer<Json<ApprovalView>> {
    let approval = service::visible(&app, &caller, id).await?;
    let by = Actor::Agent(approval.agent.clone());
    let answer = app.gate.withdraw(&caller.tenant, id, by, body.reason).await?;
    if let Some(refusal) = answer.refusal {
        return Err(refusal.into());
    }
    let now = app.store().now().await?;
    let approval = answer.approval.unwrap_or(approval);
    Ok(Json(view::approval(&approval, app.gate.policy(), now)))
}

fn until(text: Option<&str>) -> Answer<Until> {
    match text {
        None | Some("decided" | "decision") => Ok(Until::Decided),
        Some("finished" | "end") => Ok(Until::Finished),
        Some(_) => Err(ApiError::bad_request("`waitFor` is `decided` or `finished`")),
    }
}

async fn decision(app: &App, caller: &Caller, id: ApprovalId, body: Decide) -> Answer<Decision> {
    let decider = caller
        .decider()
        .ok_or_else(|| ApiError::wrong_scope(&[Scope::Decide]))?;
    if body
        .comment
        .as_ref()
        .is_some_and(|comment| comment.chars().count() > LONGEST_COMMENT)
    {
        let message = format!("a comment has at most {LONGEST_COMMENT} characters");
        return Err(ApiError::unclear(message, "say it shorter"));
    }
    let digest = body
        .digest
        .as_deref()
        .map(|text| Hash::from_hex(text).ok_or_else(|| ApiError::bad_request("`digest` is 64 hex digits")));
    let digest = digest.transpose()?;
    let tenant = caller.tenant.clone();
    let mut decision = match verdict(body.approved, body.calls)? {
        Verdict::Deny => Decision::deny(tenant, id, decider),
        verdict => Decision::on(
            tenant,
            read_whole(app, caller, id, digest).await?,
            decider,
            verdict,
        ),
    };
    decision.digest = digest;
    decision.comment = body.comment;
    decision.claimed_by = body.decided_by.map(|claim| claim.chars().take(256).collect());
    Ok(decision)
}

/// Returns the proof that the client has seen the whole card: an approval's JSON omits nothing. If the request contains
/// no digest, the approval's current one is used, as the API contract allows (requirement D3).
async fn read_whole(app: &App, caller: &Caller, id: ApprovalId, digest: Option<Hash>) -> Answer<WholeCard> {
    match digest {
        Some(digest) => Ok(WholeCard::of(id, digest)),
        None => {
            let approval = app.store().approval(&caller.tenant, id).await?;
            // The gate refuses a decision on an unknown id.
            let nothing = || WholeCard::of(id, Hash([0; 32]));
            Ok(approval.map_or_else(nothing, |approval| WholeCard::shown(&approval)))
        }
    }
}

fn verdict(approved: bool, calls: Option<Vec<DecideCall>>) -> Answer<Verdict> {
    let Some(calls) = calls else {
        return Ok(if approved { Verdict::Approve } else { Verdict::Deny });
    };
    if !approved {
        let message = "`approved` is false, but `calls` decides single calls";
        return Err(ApiError::unclear(
            message,
            "leave out `calls`, or set `\"approved\": true`",
        ));
    }
    let choice = |call: DecideCall| match (call.approved, call.arguments) {
        (true, None) => Ok(Choice::Approve),
        (false, None) => Ok(Choice::Deny),
        (true, Some(arguments)) => Arguments::parse(arguments.get().as_bytes())
            .map(Choice::Edit)
            .map_err(|problem| {
                let message = format!("the edited arguments are not valid: {problem}");
                ApiError::unclear(message, "send one JSON object")
            }),
        (false, Some(_)) => Err(ApiError::unclear(
            "a call is both denied and edited",
            "deny it without `arguments`",
        )),
    };
    let choices = calls.into_iter().map(choice).collect::<Result<_, _>>()?;
    Ok(Verdict::Each(choices))
}

fn filter(caller: &Caller, query: ListQuery) -> Answer<Filter> {
    let state = match query.status.as_deref() {
        // A client lists a run to learn its outcome, so approvals in every state are included.
        None if query.run_id.is_some() => None,
        None => Some(ApprovalState::Pending),
        Some("all") => None,
        // Accepted as a synonym, since other systems use this word.
        Some("rejected") => Some(ApprovalState::Denied),
        Some(word) => Some(
            ApprovalState::ALL
                .into_iter()
                .find(|state| state.as_str() == word)
                .ok_or_else(|| ApiError::bad_request(format!("there is no status `{word}`")))?,
        ),
    };
    let limit = query.limit.unwrap_or(50);
    if limit == 0 || usize::from(limit) > LONGEST_PAGE {
        return Err(ApiError::bad_request(format!("`limit` is 1 to {LONGEST_PAGE}")));
    }
    let named = query.agent_name.map(Agent::stored).transpose()?;
    let after = query.cursor.map(|cursor| {
        cursor
            .parse()
            .map_err(|_| ApiError::bad_request("`cursor` must be the `next` value of an earlier page"))
    });
    Ok(Filter {
        state,
        asked: false,
        open: false,
        agent: caller.agent.clone().or(named),
        channel: query.channel.map(Channel::new).transpose()?,
        run: query.run_id.map(Run::new).transpose()?,
        after: after.transpose()?,
        limit: Some(usize::from(limit)),
        most_bytes: Some(LARGEST_PAGE),
    })
}
