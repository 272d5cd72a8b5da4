//! Remote backend: the same operations over a server's API.
//!
//! The token determines agent, person and tenant. Options that state them are refused as usage errors.

use std::time::Duration;

use countersign::call::Arguments;
use countersign::decision::Verdict;
use countersign::executor::Outcome;
use countersign::gate::Until;
use countersign::id::{ApprovalId, CallId, Channel, Key, Tenant};
use countersign::state::State;
use countersign::stopwatch::{Stopwatch, TimeLimit};
use countersign::store::Filter;
use tokio::time::Instant;

use super::server::{ANSWERS_WITHIN, Server, encode};
use super::translate::{chosen, finish, job, passed, submitted};
use super::{Deciding, Proposal, Proposed, Started, credential};
use crate::cli::Global;
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::output;
use crate::output::ruling::{HostPermit, Line, Ruling};
use crate::view::{ApprovalView, PageView};
use crate::wire::{
    Decide, Finish, PermitView, ReconcileBody, RulingView, Submit, SubmittedView, UndoBody, WithdrawBody,
};

/// Maximum duration of one long poll. A longer wait takes several polls. Kept below 60 seconds, because many proxies
/// cut longer requests.
const WAITS_AT_ONCE: Duration = Duration::from_secs(50);
/// Minimum interval between long polls, and delay between attempts to report an outcome.
const PAUSE: Duration = Duration::from_secs(2);
/// Outcome of a call whose time limit passed before it could be run.
const LATE: &str = "not started: its deadline passed first";
/// Time limit for a passed call if the server's response contains none.
const UNTOLD: Duration = Duration::from_secs(10);
/// Number of attempts to report an outcome.
const FINISH_TRIES: u32 = 6;

/// Fails if the settings name both a store and a server.
pub fn check_one_place(global: &Global) -> Result<(), Failure> {
    match (&global.store, &global.server) {
        (Some(_), Some(_)) => Err(Failure::usage("both a store and a server are given")
            .hint("leave out `--store` and COUNTERSIGN_STORE, or `--server` and COUNTERSIGN_SERVER")),
        _ => Ok(()),
    }
}

/// Backend that sends every operation to a server's API.
pub struct RemoteBackend {
    pub(super) server: Server,
    executor: Option<CommandExecutor>,
}

impl RemoteBackend {
    /// Prepares requests to the server; sends nothing yet. Without an `executor`, the backend runs no calls itself.
    pub fn open(
        global: &Global,
        url: &str,
        executor: Option<CommandExecutor>,
    ) -> Result<RemoteBackend, Failure> {
        check_one_place(global)?;
        let is_other_tenant = global.tenant() != Tenant::single().as_str();
        if global.name.is_some() || !global.group.is_empty() || is_other_tenant {
            let message = "with a server, the token determines your name, groups and tenant";
            return Err(Failure::usage(message).hint("leave out `--as`, `--group` and `--tenant`"));
        }
        let server = Server::new(url, credential::token(global)?)?;
        Ok(RemoteBackend { server, executor })
    }

    /// Returns the server's version from its OpenAPI document.
    pub async fn version(&self) -> Result<String, Failure> {
        #[derive(serde::Deserialize)]
        struct Document {
            info: Info,
        }
        #[derive(serde::Deserialize)]
        struct Info {
            version: String,
        }
        let document: Document = self.server.get("/openapi.json").await?;
        Ok(document.info.version)
    }

    /// Lists approvals, up to the filter's limit. Requests further pages if the server cuts one short because of large
    /// arguments.
    pub async fn list(&self, filter: &Filter) -> Result<PageView, Failure> {
        let mut page = self.page(filter).await?;
        while let Some(next) = page.next {
            let missing = filter.page().saturating_sub(page.approvals.len());
            if missing == 0 {
                break;
            }
            let rest = Filter {
                after: Some(next),
                limit: Some(missing),
                ..filter.clone()
            };
            let more = self.page(&rest).await?;
            page.next = more.next;
            page.approvals.extend(more.approvals);
        }
        Ok(page)
    }

    async fn page(&self, filter: &Filter) -> Result<PageView, Failure> {
        let status = filter.state.map_or("all", State::as_str);
        let mut path = format!("/v1/approvals?status={status}&limit={}", filter.page());
        let mut add = |name: &str, value: Option<String>| {
            path.extend(value.map(|value| format!("&{name}={}", encode(&value))));
        };
        add("agentName", filter.agent.as_ref().map(ToString::to_string));
        add("channel", filter.channel.as_ref().map(ToString::to_string));
        add("runId", filter.run.as_ref().map(ToString::to_string));
        add("cursor", filter.after.as_ref().map(ToString::to_string));
        self.server.get(&path).await
    }

    pub async fn ids(&self, filter: &Filter) -> Result<Vec<ApprovalId>, Failure> {
        let page = self.list(filter).await?;
        Ok(page.approvals.iter().map(|approval| approval.id).collect())
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        none_if_missing(
            self.server
                .get(&format!("/v1/approvals/{id}?concerns=true"))
                .await,
        )
    }

    pub async fn history(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        none_if_missing(
            self.server
                .get(&format!("/v1/approvals/{id}?events=true&concerns=true"))
                .await,
        )
    }

    pub async fn argument_bytes(&self, call: CallId) -> Result<Option<Vec<u8>>, Failure> {
        let Some(approval) = self.approval(call.approval).await? else {
            return Ok(None);
        };
        let Some(call) = approval.call(call.position) else {
            return Ok(None);
        };
        if call.hidden {
            let message = "some arguments are secret, so the server returns no exact bytes";
            return Err(Failure::error("secret", message).hint("look at the others with `countersign show`"));
        }
        Ok(call.argument_bytes())
    }

    pub async fn propose(&self, proposal: Proposal) -> Result<Proposed, Failure> {
        if proposal.agent.is_some() {
            return Err(
                Failure::usage("with a server, the token determines the agent").hint("leave out `--agent`")
            );
        }
        let passing: Vec<(String, Arguments)> = proposal
            .calls
            .iter()
            .map(|call| (call.tool.to_string(), call.arguments.clone()))
            .collect();
        let body = Submit {
            calls: proposal
                .calls
                .into_iter()
                .map(submitted)
                .collect::<Result<_, _>>()?,
            channel: proposal.channel.map(|channel| channel.to_string()),
            run_id: proposal.run.map(|run| run.to_string()),
            session: proposal.session.map(|session| session.to_string()),
            claim: proposal.claim,
            conversation: proposal.conversation.map(|conversation| conversation.messages),
            order: None,
            dry_run: None,
            ttl_ms: None,
            start_within_ms: None,
        };
        let key = proposal.key.as_ref();
        // Started before the request, so that the measured time is never shorter than the time since the server
        // recorded the start.
        let since = Stopwatch::start();
        let answer: SubmittedView = self.server.post("/v1/calls", key, &body).await?;
        let mut lines = Vec::with_capacity(passing.len());
        for ((tool, arguments), ruled) in passing.into_iter().zip(answer.calls) {
            let ruling = self.ruling(&tool, &arguments, ruled, since).await;
            lines.push(Line { tool, ruling });
        }
        Ok(Proposed {
            lines,
            approval: answer.approval,
        })
    }

    async fn ruling(&self, tool: &str, arguments: &Arguments, ruled: RulingView, since: Stopwatch) -> Ruling {
        let result = || {
            let json = ruled.result.as_ref().map(|result| result.get().to_owned());
            json.unwrap_or_default()
        };
        match (ruled.ruling.as_ref(), ruled.status.as_deref()) {
            ("held", _) => Ruling::Held {
                id: ruled.id.unwrap_or_default(),
                summary: ruled.summary.unwrap_or_default(),
            },
            ("pass", Some("succeeded")) => Ruling::Ran(Outcome::succeeded(result())),
            ("pass", Some("failed")) => Ruling::Ran(Outcome::failed(result())),
            ("pass", Some("not_sent")) => Ruling::Ran(Outcome::NotSent(result())),
            ("pass", Some(_)) => Ruling::Ran(Outcome::Unknown(result())),
            ("pass", None) => {
                let timeout = ruled.timeout_ms.map_or(UNTOLD, Duration::from_millis);
                let limit = TimeLimit::new(since, timeout);
                let started = ruled
                    .id
                    .zip(ruled.permit)
                    .map(|(id, permit)| HostPermit { id, permit, limit });
                match &self.executor {
                    Some(executor) => {
                        let id = started.as_ref().map(|started| started.id.clone());
                        let job = passed(tool, arguments, id);
                        let is_late = started
                            .as_ref()
                            .is_some_and(|started| started.limit.left().is_none());
                        let outcome = match is_late {
                            true => Outcome::NotSent(LATE.to_owned()),
                            false => executor.clone().run_once(job).await,
                        };
                        self.tell_passed(started, &outcome).await;
                        Ruling::Ran(outcome)
                    }
                    None => Ruling::Pass(started),
                }
            }
            ("passed_before", _) => Ruling::PassedBefore {
                id: ruled.id.unwrap_or_default(),
            },
            // An unknown ruling lets nothing run.
            _ => Ruling::Forbidden {
                reason: ruled.reason.unwrap_or_default(),
            },
        }
    }

    /// Reports the outcome of a passed call that was run here; does nothing without a permit. A failure is only logged.
    async fn tell_passed(&self, started: Option<HostPermit>, outcome: &Outcome) {
        let Some(started) = started else { return };
        let Ok(call) = started.id.parse() else { return };
        // If reporting fails, the call has still run; the server then records its outcome as unknown.
        if let Err(failure) = self.finish(call, &started.permit, outcome.clone()).await {
            tracing::warn!(
                call = started.id,
                "its outcome could not be reported: {}",
                failure.message
            );
        }
    }

    pub async fn decide(&self, deciding: Deciding) -> Result<ApprovalView, Failure> {
        let (approved, calls) = match deciding.verdict {
            Verdict::Approve => (true, None),
            Verdict::Deny => (false, None),
            Verdict::Each(choices) => (
                true,
                Some(choices.into_iter().map(chosen).collect::<Result<_, _>>()?),
            ),
        };
        let body = Decide {
            approved,
            comment: deciding.comment,
            decided_by: None,
            digest: deciding.digest.map(|digest| digest.to_string()),
            calls,
        };
        let path = format!("/v1/approvals/{}", deciding.id);
        self.server.post(&path, deciding.key.as_ref(), &body).await
    }

    pub async fn withdraw(&self, id: ApprovalId, reason: Option<String>) -> Result<ApprovalView, Failure> {
        let path = format!("/v1/approvals/{id}/withdraw");
        self.server.post(&path, None, &WithdrawBody { reason }).await
    }

    pub async fn reconcile(
        &self,
        call: CallId,
        succeeded: bool,
        note: Option<String>,
    ) -> Result<ApprovalView, Failure> {
        let path = format!("/v1/calls/{call}/reconcile");
        let body = ReconcileBody { succeeded, note };
        self.server.post(&path, None, &body).await
    }

    pub async fn undo(
        &self,
        call: CallId,
        channel: Option<Channel>,
        key: Option<Key>,
    ) -> Result<ApprovalView, Failure> {
        let body = UndoBody {
            channel: channel.map(|channel| channel.to_string()),
            run_id: None,
        };
        let path = format!("/v1/calls/{call}/undo");
        self.server.post(&path, key.as_ref(), &body).await
    }

    /// Waits by repeated long polls. Temporary failures are retried until `limit` has passed, so a wait survives a
    /// restart of the server (X32). `None` on timeout.
    pub async fn wait(
        &self,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Result<Option<ApprovalView>, Failure> {
        let give_up_at = Instant::now() + limit;
        let word = match until {
            Until::Decided => "decided",
            Until::Finished => "finished",
        };
        let mut is_told = false;
        loop {
            let left = give_up_at
                .saturating_duration_since(Instant::now())
                .min(WAITS_AT_ONCE);
            let path = format!("/v1/approvals/{id}?wait={}ms&waitFor={word}", left.as_millis());
            let asked_at = Instant::now();
            match self
                .server
                .get_within::<ApprovalView>(&path, left + ANSWERS_WITHIN)
                .await
            {
                Ok(approval) if is_reached(&approval, until) => return Ok(Some(approval)),
                Ok(_) => {}
                Err(failure) if is_passing(&failure) => {
                    if !is_told {
                        output::print_to_stderr(&format!(
                            "note: {}; waiting on",
                            output::once(&failure.message)
                        ));
                        is_told = true;
                    }
                }
                Err(failure) => return Err(failure),
            }
            if Instant::now() >= give_up_at {
                return Ok(None);
            }
            // Pause if the server answers immediately, because it is stopping or unreachable.
            if asked_at.elapsed() < PAUSE {
                tokio::time::sleep_until((asked_at + PAUSE).min(give_up_at)).await;
            }
        }
    }

    /// Starts, runs and reports each released call in turn. Does nothing without a command to run calls with.
    pub async fn run_released(&self, approval: ApprovalView) -> Result<ApprovalView, Failure> {
        let Some(executor) = &self.executor else {
            return Ok(approval);
        };
        let mut approval = approval;
        while let Some(position) = approval.next_released() {
            let id = CallId {
                approval: approval.id,
                position,
            };
            // Started before the request, so that the measured time is never shorter than the time since the server
            // recorded the start.
            let since = Stopwatch::start();
            let permit = self.permit(id).await?;
            let token = permit.permit.clone();
            let job = job(permit)?;
            let outcome = match since.elapsed() < job.timeout {
                true => executor.clone().run_once(job).await,
                false => Outcome::NotSent(LATE.to_owned()),
            };
            approval = self.tell(id, finish(token, outcome)).await?;
        }
        Ok(approval)
    }

    pub async fn start(&self, call: CallId) -> Result<Started, Failure> {
        let since = Stopwatch::start();
        let permit = self.permit(call).await?;
        let token = permit.permit.clone();
        let timeout = Duration::from_millis(permit.timeout_ms);
        Ok(Started {
            arguments: job(permit)?.arguments,
            permit: token,
            limit: TimeLimit::new(since, timeout),
        })
    }

    pub async fn finish(&self, call: CallId, permit: &str, outcome: Outcome) -> Result<(), Failure> {
        self.tell(call, finish(permit.to_owned(), outcome)).await?;
        Ok(())
    }

    async fn permit(&self, call: CallId) -> Result<PermitView, Failure> {
        let path = format!("/v1/calls/{call}/start");
        self.server.post(&path, None, &serde_json::json!({})).await
    }

    /// Reports an outcome. Finishing is idempotent, so temporary failures are retried.
    async fn tell(&self, id: CallId, body: Finish) -> Result<ApprovalView, Failure> {
        let path = format!("/v1/calls/{id}/finish");
        let mut tries = 0;
        loop {
            tries += 1;
            match self.server.post(&path, None, &body).await {
                Err(failure) if tries < FINISH_TRIES && is_passing(&failure) => {
                    tokio::time::sleep(PAUSE).await;
                }
                answered => return answered,
            }
        }
    }
}

/// Returns true if the failure may be temporary, so that the request can be repeated.
pub fn is_passing(failure: &Failure) -> bool {
    matches!(
        failure.code.as_ref(),
        "server_unreachable"
            | "in_doubt"
            | "stopping"
            | "too_many"
            | "store_unavailable"
            | "store_busy"
            | "not_a_server"
    )
}

fn is_reached(approval: &ApprovalView, until: Until) -> bool {
    match until {
        Until::Decided => approval.status != State::Pending,
        Until::Finished => approval.is_finished(),
    }
}

fn none_if_missing(answer: Result<ApprovalView, Failure>) -> Result<Option<ApprovalView>, Failure> {
    match answer {
        Err(failure) if failure.code == "not_found" => Ok(None),
        answer => answer.map(Some),
    }
}
