//! Handles the event before a tool call: proposes the call, waits for the decision, and starts the call.
//!
//! An approved call is recorded as started before it is allowed, and is allowed once, with its exact bytes.

use std::time::Duration;

use countersign::call::{Arguments, RefusalReason};
use countersign::executor::Outcome;
use countersign::gate::Until;
use countersign::id::{Agent, CallId, Key, Tenant};
use countersign::policy::{CallRequest, Definition, Ruling as Ruled};
use countersign::state::{CallState, State};
use countersign::working_folder::WorkingFolder;
use serde_json::value::RawValue;

use super::answer::StartedCall;
use super::event::{Before, values, values_hash};
use super::state::{HookState, Started};
use super::{Answer, Dialect, Hook};
use crate::backend::{Backend, Proposal, ProposedCall};
use crate::duration;
use crate::failure::Failure;
use crate::links::{self, ShownPlace};
use crate::output::once;
use crate::output::ruling::{HostPermit, Ruling};
use crate::policy::{self, record};
use crate::store::{Missing, Watch};
use crate::view::{ApprovalView, CallView, WorkingFolderView};
use crate::why_held::why_held;

/// Maximum age of an earlier decision that a repeated call may use.
const ANSWERS_FOR: Duration = Duration::from_secs(60 * 60);
/// Maximum number of approvals that a call waits for, one after the other. It may first join the approval of an
/// identical call; if that call runs and uses the approval up, this one is proposed on its own.
const TRIES: usize = 2;

/// Reason for denying a call that was already started.
const STARTED: &str = "this call was already started, and runs at most once";

/// Reason for denying another call under the id of an earlier one.
const REUSED: &str = "the id of this tool use (`tool_use_id`) belongs to an earlier call with another tool, other \
                      arguments or another folder. Nothing was run. Make the call again, under an id of its own";

/// Reason for denying a call whose approval names another folder, or none.
const OTHER_FOLDER: &str = "the approval is not for this working folder. Nothing was run. If the gate is a server, \
                            it may be older than this hook";

/// Proposes a call, waits for a person if it is held, and returns the answer.
pub async fn rule(hook: &Hook<'_>, call: &Before) -> Result<Answer, Failure> {
    let kept = HookState::open(hook)?;
    if kept.was_started(&call.identity) {
        return Ok(deny(STARTED));
    }
    let backend = Backend::open_with(hook.global, Missing::Create, Watch::Others, None).await?;
    check_policy(hook, &backend).await?;
    let runner = hook.runner().await?;
    let runner = runner.as_ref().unwrap_or(&backend);
    let mut joined = join(&backend, &kept, call).await?;
    for _ in 0..TRIES {
        let is_joined = joined.is_some();
        let approval = match joined.take() {
            Some(approval) => approval,
            None => match propose(hook, &backend, call).await? {
                Proposed::Held(approval) => *approval,
                Proposed::Passed(started) => return pass(&kept, call, started),
                Proposed::Answered(answer) => return Ok(answer),
                Proposed::Reused => return Ok(reused(&backend, &kept, call).await),
            },
        };
        // The gate also joins identical calls of one agent across sessions.
        let is_joined = is_joined || approval.session.as_deref() != Some(call.session.as_str());
        kept.wait_for(call, approval.id)?;
        let decided = match approval.status {
            State::Pending => {
                backend
                    .wait(approval.id, Until::Decided, hook.options.hold)
                    .await?
            }
            _ => Some(approval.clone()),
        };
        let Some(decided) = decided else {
            return Ok(still_pending(hook, call, &approval));
        };
        kept.forget(call);
        if let Some(answer) = start(hook, runner, &kept, call, &decided, is_joined).await? {
            return Ok(answer);
        }
    }
    Ok(deny("the approval was used by another call; ask again"))
}

/// Answers the self-test of `countersign hook status`: applies the policy without proposing, and always denies.
pub async fn test(hook: &Hook<'_>, call: &Before) -> Result<Answer, Failure> {
    HookState::open(hook)?;
    let said = match Backend::open(hook.global, Missing::Refuse).await {
        Err(failure) if failure.code != "no_store" => return Err(failure),
        Ok(Backend::Remote(backend)) => {
            let one = countersign::store::Filter {
                limit: Some(1),
                ..countersign::store::Filter::pending()
            };
            backend.list(&one).await?;
            hook.runner().await?;
            "held".to_owned()
        }
        opened => {
            // If there is no store yet, no policy is on record.
            if let Ok(Backend::Local(local)) = &opened {
                let key = record_key(hook.dialect, &local.tenant);
                let on_record = record::read(local.store(), &key).await?;
                let policy = local.gate.policy().hash();
                if on_record.is_some_and(|on_record| on_record != policy.to_string()) {
                    return Err(another_policy(hook.dialect));
                }
            }
            let policy = policy::load(hook.global.policy.as_deref())?.policy;
            let asked = CallRequest {
                tool: call.tool.as_str(),
                arguments: call.arguments.as_bytes(),
                definition: Definition::Unknown,
                salt: b"self-test",
                before: None,
                working_folder: Some(&call.working_folder),
            };
            match policy.rule(asked) {
                Ruled::Hold(_) => "held".to_owned(),
                Ruled::Pass(_) => "passes".to_owned(),
                Ruled::Forbid { reason } => format!("forbidden: {reason}"),
            }
        }
    };
    Ok(deny(&format!("self-test: {said}")))
}

/// Refuses to continue if the policy differs from the one on record for this coding agent (X98). The first call of all
/// records its policy; later calls only read. With a server, the server's policy applies and nothing is checked here.
pub async fn check_policy(hook: &Hook<'_>, backend: &Backend) -> Result<(), Failure> {
    let Backend::Local(local) = backend else {
        return Ok(());
    };
    let key = record_key(hook.dialect, &local.tenant);
    let policy = local.gate.policy().hash();
    match record::is_on_record(local.store(), &local.tenant, &key, policy).await? {
        true => Ok(()),
        false => Err(another_policy(hook.dialect)),
    }
}

/// Registry key of the policy on record for a coding agent's hooks.
pub fn record_key(dialect: Dialect, tenant: &Tenant) -> String {
    format!("hook-policy/{}/{tenant}", dialect.as_str())
}

/// Words of [`another_policy`] by which `hook status` recognises it in the answer of a hook.
pub const NOT_ON_RECORD: &str = "not the one on record";

/// Error for a policy that differs from the one on record.
pub fn another_policy(dialect: Dialect) -> Failure {
    let message = format!(
        "the policy is {NOT_ON_RECORD} for the hooks of {} on this store",
        dialect.title()
    );
    Failure::error("another_policy", message).hint(format!(
        "if you changed the policy, run `countersign hook install {} --user --policy-change` (or `--project`, and the \
         same options as before); hooks with another policy need another store or tenant",
        dialect.as_str()
    ))
}

/// Result of a proposal.
enum Proposed {
    Held(Box<ApprovalView>),
    /// The policy lets the call pass. The permit is for recording the outcome; a read has none.
    Passed(Option<HostPermit>),
    Answered(Answer),
    /// The id of the tool use belongs to an earlier call, or to this one in another folder.
    Reused,
}

/// Lets a call pass, and saves its permit so that the outcome can be recorded later.
fn pass(kept: &HookState, call: &Before, started: Option<HostPermit>) -> Result<Answer, Failure> {
    let Some(started) = started else {
        return Ok(Answer::Pass(None));
    };
    let unsent = StartedCall {
        identity: call.identity.clone(),
        call: started.id.parse().map_err(|_| not_understood())?,
        permit: started.permit.clone(),
        limit: started.limit,
    };
    kept.pass(
        &call.identity,
        &Started {
            call: started.id,
            permit: started.permit,
            passed: true,
            arguments: Some(values_hash(&String::from_utf8_lossy(call.arguments.as_bytes()))),
        },
    )?;
    Ok(Answer::Pass(Some(unsent)))
}

/// Records that a started call was not run, because its time limit had passed, and removes its permit from the hook
/// state. If another process has already marked the call as unknown, the history shows both.
pub async fn record_late(hook: &Hook<'_>, unsent: &StartedCall) -> Result<(), Failure> {
    let backend = match hook.runner().await? {
        Some(backend) => backend,
        None => Backend::open(hook.global, Missing::Refuse).await?,
    };
    let why = "not run: its time was over before the coding agent could be told";
    let outcome = Outcome::NotSent(why.to_owned());
    backend.finish(unsent.call, &unsent.permit, outcome).await?;
    HookState::open(hook)?.ended(&unsent.identity);
    Ok(())
}

async fn propose(hook: &Hook<'_>, backend: &Backend, call: &Before) -> Result<Proposed, Failure> {
    let name = |problem: countersign::id::BadName| Failure::error("bad_name", problem.to_string());
    // With a server, the agent's name comes from the token.
    let agent = match backend {
        Backend::Local(_) => Some(Agent::new(hook.dialect.as_str()).map_err(name)?),
        Backend::Remote(_) => None,
    };
    let proposal = Proposal {
        calls: vec![ProposedCall {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            definition: None,
            secret: None,
            working_folder: Some(call.working_folder.clone()),
        }],
        agent,
        // No channel: a turn can have several calls at once, and a channel has only one pending approval, so they would
        // supersede each other.
        channel: None,
        run: Some(call.run.clone()),
        session: Some(call.session.clone()),
        claim: None,
        key: Some(Key::new(call.key.as_str()).map_err(name)?),
        conversation: None,
    };
    let proposed = match backend.propose(proposal).await {
        Ok(proposed) => proposed,
        // The gate would name the key, which is a hash that means nothing to a model.
        Err(failure) if failure.code == "key_reused" => return Ok(Proposed::Reused),
        // A refusal by the gate is a denial, not a failure.
        Err(failure) if failure.exit == crate::failure::Exit::Refused => {
            let answer = deny(&format!(
                "countersign refused the call: {}",
                once(&failure.message)
            ));
            return Ok(Proposed::Answered(answer));
        }
        Err(failure) => return Err(failure),
    };
    let ruling = proposed.lines.into_iter().next().map(|line| line.ruling);
    Ok(match (ruling, proposed.approval) {
        (Some(Ruling::Held { .. }), Some(approval)) => Proposed::Held(Box::new(approval)),
        (Some(Ruling::Pass(started)), _) => Proposed::Passed(started),
        (Some(Ruling::PassedBefore { .. }), _) => Proposed::Answered(deny(STARTED)),
        (Some(Ruling::Forbidden { reason }), _) => {
            let reason: Vec<String> = reason.lines().map(once).collect();
            Proposed::Answered(deny(&reason.join("; ")))
        }
        // The server has already run the tool, so the coding agent must not run it again.
        (Some(Ruling::Ran(_)), _) => Proposed::Answered(deny("the server has run this call itself")),
        (Some(Ruling::Held { .. }) | None, _) => return Err(not_understood()),
    })
}

/// Answers a tool use whose id the gate knows with other content. If it is the same call and only its folder or links
/// differ, the answer says where its paths lead now, and where they led.
async fn reused(backend: &Backend, kept: &HookState, call: &Before) -> Answer {
    let approval = match kept.held_for(call) {
        Some(id) => backend.approval(id).await.ok().flatten(),
        None => None,
    };
    let held = approval.and_then(|approval| approval.calls.into_iter().next());
    let shown = held.and_then(|held| held.working_folder?.read().ok());
    match shown.and_then(|shown| links::difference(&shown, &call.working_folder)) {
        Some(difference) => deny(&links::changed_reason(&difference)),
        None => deny(REUSED),
    }
}

/// Returns the approval that the same call was held for earlier, unless that approval ended too long ago.
async fn join(backend: &Backend, kept: &HookState, call: &Before) -> Result<Option<ApprovalView>, Failure> {
    let Some(id) = kept.waiting(call) else {
        return Ok(None);
    };
    let approval = backend.approval(id).await?;
    let is_same = |approval: &ApprovalView| {
        let only = approval.calls.first().filter(|_| approval.calls.len() == 1);
        approval.run_id.as_deref() == Some(call.run.as_str())
            && only.is_some_and(|only| {
                only.tool == call.tool.as_str() && is_in_folder(only, &call.working_folder)
            })
    };
    let is_fresh = |approval: &ApprovalView| {
        let ended = approval.ended_at;
        ended.is_none_or(|ended| approval.now.0.since(ended.0) < ANSWERS_FOR)
    };
    Ok(approval.filter(|approval| is_same(approval) && is_fresh(approval)))
}

/// Returns true if a held call is for the same folder, and its paths lead to the same files there.
fn is_in_folder(held: &CallView, folder: &WorkingFolder) -> bool {
    held.working_folder.as_ref() == Some(&WorkingFolderView::from(folder))
}

/// Starts an approved call and allows it. Returns `None` if this call joined an approval that another process has
/// already used.
async fn start(
    hook: &Hook<'_>,
    runner: &Backend,
    kept: &HookState,
    call: &Before,
    approval: &ApprovalView,
    is_joined: bool,
) -> Result<Option<Answer>, Failure> {
    let Some(held) = approval.calls.first() else {
        return Err(not_understood());
    };
    // INVARIANT: nothing is allowed in another folder than the one that was shown. A server of an earlier version does
    // not keep the folder.
    if !is_in_folder(held, &call.working_folder) {
        return Ok(Some(deny(OTHER_FOLDER)));
    }
    if approval.status != State::Approved || held.state == CallState::Refused {
        return Ok(Some(deny(&why_not(approval, held))));
    }
    if held.state != CallState::Released {
        let why = match kept.was_started(&call.identity) {
            true => STARTED,
            false => "the approval was used by the same call elsewhere; make the call again",
        };
        return Ok((!is_joined).then(|| deny(why)));
    }
    if let Some(problem) = cannot_carry(hook.dialect, call, held) {
        return Ok(Some(deny(problem)));
    }
    let shown = ShownPlace {
        folder: call.working_folder.clone(),
        proposed: call.arguments.clone(),
    };
    let runs = match held.argument_bytes().filter(|_| held.edited) {
        Some(bytes) => Arguments::parse(bytes).map_err(|_| not_understood())?,
        None => call.arguments.clone(),
    };
    if let Some(problem) = shown.changed(runs, Vec::new()).await {
        return Ok(Some(deny(&problem)));
    }
    let mut identity = call.identity.clone();
    if let Some(arguments) = held.argument_bytes().filter(|_| held.edited) {
        identity.values = values(&String::from_utf8_lossy(&arguments));
    }
    let Some(reservation) = kept.reserve(&identity)? else {
        return Ok(Some(deny(STARTED)));
    };
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    let started = match runner.start(id).await {
        Ok(started) => started,
        Err(failure) => {
            reservation.release();
            return match (failure.code.as_ref(), is_joined) {
                ("wrong_state", true) => Ok(None),
                _ => Err(failure),
            };
        }
    };
    let text = String::from_utf8(started.arguments).map_err(|_| not_understood())?;
    let permit = Started {
        call: id.to_string(),
        permit: started.permit,
        passed: false,
        arguments: Some(values_hash(&text)),
    };
    reservation.write(&permit);
    kept.forget_held(call);
    let unsent = StartedCall {
        identity,
        call: id,
        permit: permit.permit,
        limit: started.limit,
    };
    let arguments = RawValue::from_string(text).map_err(|_| not_understood())?;
    let by = approval.decided_by.as_deref().map(once);
    Ok(Some(Answer::Allow {
        arguments,
        reason: match by {
            Some(by) => format!("approved by {by} ({})", approval.id.short()),
            None => format!("approved ({})", approval.id.short()),
        },
        unsent,
    }))
}

/// Returns why an edited call cannot be passed to the coding agent; `None` if it can. Where the agent merges arguments,
/// a key that a person removed would come back.
fn cannot_carry(dialect: Dialect, call: &Before, held: &CallView) -> Option<&'static str> {
    if dialect.replaces_arguments() || !held.edited {
        return None;
    }
    let keys = |bytes: &[u8]| {
        let members = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes).ok()?;
        Some(members.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
    };
    let before = keys(call.arguments.as_bytes());
    let after = held.argument_bytes().and_then(|bytes| keys(&bytes));
    match (before, after) {
        (Some(before), Some(after)) if before.iter().all(|key| after.contains(key)) => None,
        _ => Some(
            "a person changed the arguments and took one away, which Gemini CLI cannot be told; \
             propose the call without it",
        ),
    }
}

fn still_pending(hook: &Hook<'_>, call: &Before, approval: &ApprovalView) -> Answer {
    // An agent that cannot defer ignores the request and applies its own rules. So defer only if those rules would ask
    // a person.
    if hook.options.defer && hook.dialect == Dialect::ClaudeCode && call.asks && is_headless() {
        return Answer::Defer;
    }
    let id = approval.id.short();
    let held = duration::show(hook.options.hold);
    let notes = approval.calls.first().map(|call| call.notes.as_slice());
    let why = why_held(notes.unwrap_or_default(), Some(&call.working_folder));
    let why = why
        .map(|why| format!(" It was held because {why}."))
        .unwrap_or_default();
    let at = hook.global.place_words();
    Answer::Deny {
        reason: format!(
            "not approved yet: approval {id} still waits for a person after {held}.{why} Nothing was run. Do not look \
             for another way. Later, make exactly the same call again: it joins this approval and gets its answer."
        ),
        tell: Some(format!(
            "countersign: {} waits for you as approval {id}: `countersign show {id}{at}`, then `approve` or `deny`",
            call.tool
        )),
    }
}

/// Returns true if Claude Code runs without a person to ask: `claude -p` or the SDK. Claude Code sets the variable.
fn is_headless() -> bool {
    std::env::var("CLAUDE_CODE_ENTRYPOINT").is_ok_and(|entry| entry.starts_with("sdk"))
}

/// Returns the reason a decided call does not run.
fn why_not(approval: &ApprovalView, held: &CallView) -> String {
    let by = approval.decided_by.as_deref().map(once);
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let comment = approval.comment.as_deref().map(once);
    let comment = comment.map(|comment| format!(": {comment}")).unwrap_or_default();
    let what = match (approval.status, held.because.as_deref()) {
        (State::Denied, _) => format!("denied{by}{comment}"),
        (State::Approved, Some(because)) if because == RefusalReason::Stale.as_str() => {
            "approved, but not started in time".to_owned()
        }
        (State::Approved, _) => format!("denied{by}{comment}"),
        (State::Expired, _) => "nobody decided in time".to_owned(),
        (state, _) => format!("the approval is {}", state.as_str()),
    };
    format!("{what}. Nothing was run.")
}

fn deny(reason: &str) -> Answer {
    Answer::Deny {
        reason: reason.to_owned(),
        tell: None,
    }
}

fn not_understood() -> Failure {
    Failure::error("not_understood", "the gate's answer cannot be understood")
}
