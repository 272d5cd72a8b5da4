//! Before a tool call: ruled, held, decided, started.
//!
//! Enters: the call with its exact bytes. Leaves: an answer; an approved call is on record as started before it is
//! allowed, and is allowed once.

use std::time::Duration;

use countersign::call::Because;
use countersign::gate::Until;
use countersign::id::{Agent, CallId, Key};
use countersign::policy::{Asked, Definition, Ruling as Ruled};
use countersign::state::{CallState, State};
use serde_json::value::RawValue;

use super::event::{Before, values};
use super::kept::{Kept, Started};
use super::{Answer, Dialect, Hook};
use crate::desk::{Desk, Proposal, ProposedCall};
use crate::duration;
use crate::failure::Failure;
use crate::output::once;
use crate::output::ruling::{HostPermit, Ruling};
use crate::policy;
use crate::store::{Missing, Watch};
use crate::view::{ApprovalView, CallView};

/// What was decided longer ago than this is no answer to a call of now.
const ANSWERS_FOR: Duration = Duration::from_secs(60 * 60);
/// A joined approval may turn out to be somebody else's; then this call is asked for by itself.
const TRIES: usize = 2;

/// Why a call is not started again.
const STARTED: &str = "this call was already started, and runs at most once";

/// Rules on a call, and waits for a person where it is held.
pub async fn rule(hook: &Hook<'_>, call: &Before) -> Result<Answer, Failure> {
    let kept = Kept::open(hook)?;
    if kept.was_started(&call.place) {
        return Ok(deny(STARTED));
    }
    let desk = Desk::open_with(hook.global, Missing::Create, Watch::Others, None).await?;
    let runner = hook.runner().await?;
    let runner = runner.as_ref().unwrap_or(&desk);
    let mut joined = join(&desk, &kept, call).await?;
    for _ in 0..TRIES {
        let is_joined = joined.is_some();
        let approval = match joined.take() {
            Some(approval) => approval,
            None => match propose(hook, &desk, call).await? {
                Proposed::Held(approval) => *approval,
                Proposed::Passed(started) => return pass(&kept, call, started),
                Proposed::Answered(answer) => return Ok(answer),
            },
        };
        // The gate itself lets the same calls of one agent join, whatever their session.
        let is_joined = is_joined || approval.session.as_deref() != Some(call.session.as_str());
        kept.wait_for(call, approval.id)?;
        let decided = match approval.status {
            State::Pending => desk.wait(approval.id, Until::Decided, hook.options.hold).await?,
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

/// Rules without proposing, and denies whatever comes of it: `countersign hook status` looks whether that arrives.
pub async fn test(hook: &Hook<'_>, call: &Before) -> Result<Answer, Failure> {
    Kept::open(hook)?;
    let said = match Desk::open(hook.global, Missing::Refuse).await {
        Err(failure) if failure.code != "no_store" => return Err(failure),
        Ok(Desk::Remote(desk)) => {
            let one = countersign::store::Filter {
                limit: Some(1),
                ..countersign::store::Filter::pending()
            };
            desk.list(&one).await?;
            hook.runner().await?;
            "held".to_owned()
        }
        _ => {
            let policy = policy::load(hook.global.policy.as_deref())?.policy;
            let asked = Asked {
                tool: call.tool.as_str(),
                arguments: call.arguments.as_bytes(),
                definition: Definition::Unknown,
                salt: b"self-test",
                before: None,
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

/// What became of a proposal.
enum Proposed {
    Held(Box<ApprovalView>),
    /// It passes. What is given is for telling later how it ended; a read has nothing.
    Passed(Option<HostPermit>),
    Answered(Answer),
}

/// Lets a call pass, and keeps what it takes to record how it ended.
fn pass(kept: &Kept, call: &Before, started: Option<HostPermit>) -> Result<Answer, Failure> {
    if let Some(started) = started {
        kept.pass(
            &call.place,
            &Started {
                call: started.id,
                permit: started.permit,
                passed: true,
            },
        )?;
    }
    Ok(Answer::Pass)
}

async fn propose(hook: &Hook<'_>, desk: &Desk, call: &Before) -> Result<Proposed, Failure> {
    let name = |problem: countersign::id::BadName| Failure::error("bad_name", problem.to_string());
    // At a server the agent is the one its token was made for.
    let agent = match desk {
        Desk::Local(_) => Some(Agent::new(hook.dialect.as_str()).map_err(name)?),
        Desk::Remote(_) => None,
    };
    let proposal = Proposal {
        calls: vec![ProposedCall {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            definition: None,
            secret: None,
        }],
        agent,
        // A turn has several calls at once, and a channel only one approval: they would supersede each other.
        channel: None,
        run: Some(call.run.clone()),
        session: Some(call.session.clone()),
        claim: None,
        key: Some(Key::new(call.key.as_str()).map_err(name)?),
        conversation: None,
    };
    let proposed = match desk.propose(proposal).await {
        Ok(proposed) => proposed,
        // The gate said no: that is an answer, not a failure.
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
            Proposed::Answered(deny(&format!("forbidden by the policy: {}", reason.join("; "))))
        }
        // A server that ran the tool itself has done what the coding agent was about to do.
        (Some(Ruling::Ran(_)), _) => Proposed::Answered(deny("the server has run this call itself")),
        (Some(Ruling::Held { .. }) | None, _) => return Err(not_understood()),
    })
}

/// The approval that exactly this call was held for before, if it still is an answer.
async fn join(desk: &Desk, kept: &Kept, call: &Before) -> Result<Option<ApprovalView>, Failure> {
    let Some(id) = kept.waiting(call) else {
        return Ok(None);
    };
    let approval = desk.approval(id).await?;
    let is_same = |approval: &ApprovalView| {
        let only = approval.calls.first().filter(|_| approval.calls.len() == 1);
        approval.run_id.as_deref() == Some(call.run.as_str())
            && only.is_some_and(|only| only.tool == call.tool.as_str())
    };
    let is_fresh = |approval: &ApprovalView| {
        let ended = approval.ended_at;
        ended.is_none_or(|ended| approval.now.0.since(ended.0) < ANSWERS_FOR)
    };
    Ok(approval.filter(|approval| is_same(approval) && is_fresh(approval)))
}

/// Starts an approved call and allows it; nothing when somebody else started what this call had joined.
async fn start(
    hook: &Hook<'_>,
    runner: &Desk,
    kept: &Kept,
    call: &Before,
    approval: &ApprovalView,
    is_joined: bool,
) -> Result<Option<Answer>, Failure> {
    let Some(held) = approval.calls.first() else {
        return Err(not_understood());
    };
    if approval.status != State::Approved || held.state == CallState::Refused {
        return Ok(Some(deny(&why_not(approval, held))));
    }
    if held.state != CallState::Released {
        let why = match kept.was_started(&call.place) {
            true => STARTED,
            false => "the approval was used by the same call elsewhere; make the call again",
        };
        return Ok((!is_joined).then(|| deny(why)));
    }
    if let Some(problem) = cannot_carry(hook.dialect, call, held) {
        return Ok(Some(deny(problem)));
    }
    let mut place = call.place.clone();
    if let Some(arguments) = held.argument_bytes().filter(|_| held.edited) {
        place.values = values(&String::from_utf8_lossy(&arguments));
    }
    let Some(taken) = kept.take(&place)? else {
        return Ok(Some(deny(STARTED)));
    };
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    let started = match runner.start(id).await {
        Ok(started) => started,
        Err(failure) => {
            taken.leave();
            return match (failure.code.as_ref(), is_joined) {
                ("wrong_state", true) => Ok(None),
                _ => Err(failure),
            };
        }
    };
    let permit = Started {
        call: id.to_string(),
        permit: started.permit,
        passed: false,
    };
    taken.write(&permit);
    let text = String::from_utf8(started.arguments).map_err(|_| not_understood())?;
    let arguments = RawValue::from_string(text).map_err(|_| not_understood())?;
    let by = approval.decided_by.as_deref().map(once);
    Ok(Some(Answer::Allow {
        arguments,
        reason: match by {
            Some(by) => format!("approved by {by} ({})", approval.id.short()),
            None => format!("approved ({})", approval.id.short()),
        },
    }))
}

/// Where arguments are merged, a key that a person took out would come back.
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
    // It is only a wish: where the coding agent cannot defer, its own rules apply. So only where those would ask.
    if hook.options.defer && hook.dialect == Dialect::ClaudeCode && call.asks && is_headless() {
        return Answer::Defer;
    }
    let id = approval.id.short();
    let held = duration::show(hook.options.hold);
    Answer::Deny {
        reason: format!(
            "not approved yet: approval {id} still waits for a person after {held}. Nothing was run. Do not look for \
             another way. Later, make exactly the same call again: it joins this approval and gets its answer."
        ),
        tell: Some(format!(
            "countersign: {} waits for you as approval {id}: `countersign show {id}`, then `approve` or `deny`",
            call.tool
        )),
    }
}

/// Claude Code says how it was started; `claude -p` and the SDK have nobody to ask.
fn is_headless() -> bool {
    std::env::var("CLAUDE_CODE_ENTRYPOINT").is_ok_and(|entry| entry.starts_with("sdk"))
}

/// Why a decided call does not run.
fn why_not(approval: &ApprovalView, held: &CallView) -> String {
    let by = approval.decided_by.as_deref().map(once);
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let comment = approval.comment.as_deref().map(once);
    let comment = comment.map(|comment| format!(": {comment}")).unwrap_or_default();
    let what = match (approval.status, held.because.as_deref()) {
        (State::Denied, _) => format!("denied{by}{comment}"),
        (State::Approved, Some(because)) if because == Because::Stale.as_str() => {
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
