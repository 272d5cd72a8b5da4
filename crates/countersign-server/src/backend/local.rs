//! Local backend: a gate over the store, with the tenant and the policy file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign::approval::Approval;
use countersign::decision::{Decider, Decision};
use countersign::executor::{Executor, Outcome, PermitToken};
use countersign::gate::{Gate, Ruled, Submission, Submitted, SubmittedCall, Until, Waited};
use countersign::id::{Actor, Agent, ApprovalId, CallId, Channel, Key, Person, Tenant};
use countersign::policy::Definition;
use countersign::provenance::VouchedConversation;
use countersign::registry::Kind;
use countersign::state::State;
use countersign::store::{Filter, Store};

use super::{Deciding, Proposal, Proposed, ProposedCall, Started, not_there};
use crate::cli::Global;
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::output::ruling::{HostPermit, Line, Ruling};
use crate::store::{Missing, Watch};
use crate::view::{self, ApprovalView, PageView};
use crate::{identity, keys, policy, store};

/// Maximum time that a command keeps trying to record the outcome of a call that it ran.
const RECORD_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Name of the agent if the command line gives none.
const AGENT: &str = "command-line";

/// Backend that works on the store directly.
pub struct LocalBackend {
    pub gate: Gate,
    /// Tenant of all operations.
    pub tenant: Tenant,
    /// Path of the policy file in use. `None` if there is no policy; then every call is held.
    pub policy_file: Option<PathBuf>,
    runs_here: bool,
    name: Option<String>,
    groups: Vec<String>,
}

impl LocalBackend {
    /// Opens the store and loads the policy. `missing` says what to do if the store does not exist.
    pub async fn open(global: &Global, missing: Missing) -> Result<LocalBackend, Failure> {
        LocalBackend::open_with(global, missing, Watch::Nobody, None).await
    }

    /// Like [`LocalBackend::open`], for commands that wait for changes (`watch`) or run calls themselves (`executor`).
    pub async fn open_with(
        global: &Global,
        missing: Missing,
        watch: Watch,
        executor: Option<CommandExecutor>,
    ) -> Result<LocalBackend, Failure> {
        let tenant = tenant(global)?;
        // First the checks that do not touch the store.
        let mut loaded = policy::load(global.policy.as_deref())?;
        policy::protect(&mut loaded.policy, Path::new(global.store()));
        let sealer = keys::sealer(global.seal_key_file.as_deref())?;
        let store = store::open(global.store(), missing, watch).await?;
        let mut gate = Gate::new(store, Arc::new(loaded.policy));
        let runs_here = executor.is_some();
        if let Some(executor) = executor {
            gate = gate.with_executor(Arc::new(executor) as Arc<dyn Executor>);
        }
        if let Some(sealer) = sealer {
            gate = gate.with_sealer(sealer);
        }
        Ok(LocalBackend {
            gate,
            tenant,
            policy_file: loaded.file,
            runs_here,
            name: global.name.clone(),
            groups: global.group.clone(),
        })
    }

    pub fn store(&self) -> &dyn Store {
        self.gate.store()
    }

    /// Returns the name of the person at the command line: from `--as`, or else of their account on this machine.
    pub fn person(&self) -> Result<Person, Failure> {
        identity::person(self.name.as_deref())
    }

    /// Converts an approval to its JSON view, with its state as of now.
    pub async fn view(&self, approval: &Approval) -> Result<ApprovalView, Failure> {
        let now = self.store().now().await?;
        Ok(view::approval(approval, self.gate.policy(), now))
    }

    /// Converts an approval to its view, with concerns if it is pending.
    async fn view_with_concerns(&self, approval: &Approval) -> Result<ApprovalView, Failure> {
        let view = self.view(approval).await?;
        // Concerns matter only before the decision.
        match view.status {
            State::Pending => Ok(view.with_concerns(&self.gate.concerns(approval).await?)),
            _ => Ok(view),
        }
    }

    pub async fn list(&self, filter: &Filter) -> Result<PageView, Failure> {
        let approvals = self.store().list(&self.tenant, filter).await?;
        let now = self.store().now().await?;
        let is_full = filter.is_full(&approvals);
        let next = approvals.last().filter(|_| is_full);
        Ok(PageView {
            next: next.map(|approval| approval.id),
            approvals: approvals
                .iter()
                .map(|approval| view::approval(approval, self.gate.policy(), now))
                .collect(),
        })
    }

    pub async fn ids(&self, filter: &Filter) -> Result<Vec<ApprovalId>, Failure> {
        let approvals = self.store().list(&self.tenant, filter).await?;
        Ok(approvals.iter().map(|approval| approval.id).collect())
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        match self.store().approval(&self.tenant, id).await? {
            Some(approval) => Ok(Some(self.view_with_concerns(&approval).await?)),
            None => Ok(None),
        }
    }

    pub async fn history(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        let events = self.store().events(&self.tenant, id).await?;
        let approval = self.approval(id).await?;
        Ok(approval.map(|approval| approval.with_events(&events)))
    }

    pub async fn argument_bytes(&self, call: CallId) -> Result<Option<Vec<u8>>, Failure> {
        let approval = self.store().approval(&self.tenant, call.approval).await?;
        let call = approval
            .as_ref()
            .and_then(|approval| approval.call(call.position));
        Ok(call.map(|call| call.arguments.as_bytes().to_vec()))
    }

    pub async fn propose(&self, proposal: Proposal) -> Result<Proposed, Failure> {
        let tools: Vec<String> = proposal.calls.iter().map(|call| call.tool.to_string()).collect();
        let submission = self.submission(proposal)?;
        let submitted = self.gate.submit(submission).await?;
        let approval = match &submitted.approval {
            Some(approval) => Some(self.view(approval).await?),
            None => None,
        };
        let lines = self.ruled(tools, submitted).await;
        Ok(Proposed { lines, approval })
    }

    fn submission(&self, proposal: Proposal) -> Result<Submission, Failure> {
        let call = |call: ProposedCall| SubmittedCall {
            tool: call.tool.to_string(),
            arguments: call.arguments.as_bytes().into(),
            definition: Definition::claimed(call.definition),
            secret: call.secret,
            working_folder: call.working_folder,
        };
        Ok(Submission {
            tenant: self.tenant.clone(),
            agent: match proposal.agent {
                Some(agent) => agent,
                None => own_agent()?,
            },
            requester: self.person()?,
            on_behalf_of: None,
            channel: proposal.channel,
            run: proposal.run,
            session: proposal.session,
            claim: proposal.claim,
            key: proposal.key,
            conversation: proposal.conversation.map(VouchedConversation::supplied),
            options: Default::default(),
            calls: proposal.calls.into_iter().map(call).collect(),
        })
    }

    /// Returns each call's tool and ruling. A passed call is run here if this command runs calls.
    async fn ruled(&self, tools: Vec<String>, submitted: Submitted) -> Vec<Line> {
        let approval = submitted.approval;
        let mut lines = Vec::with_capacity(tools.len());
        for (tool, ruled) in tools.into_iter().zip(submitted.calls) {
            let ruling = match ruled {
                Ruled::Pass(permit) if self.runs_here => Ruling::Ran(self.gate.run_passed(permit).await),
                Ruled::Pass(permit) => {
                    Ruling::Pass(permit.call().zip(permit.token()).map(|(id, token)| HostPermit {
                        id: id.to_string(),
                        permit: token.reveal(),
                        limit: permit.time_limit(),
                    }))
                }
                Ruled::PassedBefore(id) if self.runs_here => {
                    Ruling::Ran(self.gate.outcome_of(&self.tenant, id).await)
                }
                Ruled::PassedBefore(id) => Ruling::PassedBefore { id: id.to_string() },
                Ruled::Held(id) => {
                    let call = approval.as_ref().and_then(|approval| approval.call(id.position));
                    Ruling::Held {
                        id: id.to_string(),
                        summary: call.map(|call| call.terms.summary.clone()).unwrap_or_default(),
                    }
                }
                Ruled::Forbidden { reason } | Ruled::Malformed { reason } => Ruling::Forbidden { reason },
            };
            lines.push(Line { tool, ruling });
        }
        lines
    }

    pub async fn decide(&self, deciding: Deciding) -> Result<ApprovalView, Failure> {
        let (tenant, decider) = (self.tenant.clone(), self.decider()?);
        let mut decision = match deciding.card {
            Some(card) => Decision::on(tenant, card, decider, deciding.verdict),
            None => Decision::deny(tenant, deciding.id, decider),
        };
        decision.digest = deciding.digest;
        decision.comment = deciding.comment;
        decision.key = deciding.key;
        let answer = self.gate.decide(decision).await?;
        match (answer.refusal, answer.approval) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(approval)) => self.view(&approval).await,
            (None, None) => Err(not_there(deciding.id)),
        }
    }

    fn decider(&self) -> Result<Decider, Failure> {
        Ok(identity::decider(self.person()?, &self.groups))
    }

    pub async fn withdraw(&self, id: ApprovalId, reason: Option<String>) -> Result<ApprovalView, Failure> {
        let by = Actor::Person(self.person()?);
        let answer = self.gate.withdraw(&self.tenant, id, by, reason).await?;
        match (answer.refusal, answer.approval) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(approval)) => self.view(&approval).await,
            (None, None) => Err(not_there(id)),
        }
    }

    pub async fn reconcile(
        &self,
        call: CallId,
        succeeded: bool,
        note: Option<String>,
    ) -> Result<ApprovalView, Failure> {
        let by = self.person()?;
        let settled = self.gate.reconcile(&self.tenant, call, by, succeeded, note);
        let approval = settled.await??;
        self.view(&approval).await
    }

    pub async fn undo(
        &self,
        call: CallId,
        channel: Option<Channel>,
        key: Option<Key>,
    ) -> Result<ApprovalView, Failure> {
        let submission = self.submission(Proposal {
            calls: Vec::new(),
            agent: None,
            channel,
            run: None,
            session: None,
            claim: None,
            key,
            conversation: None,
        })?;
        let approval = self.gate.undo(submission, call).await?;
        self.view(&approval).await
    }

    pub async fn wait(
        &self,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Result<Option<ApprovalView>, Failure> {
        match self.gate.wait(&self.tenant, id, until, limit).await? {
            Waited::Done(approval) => Ok(Some(self.view(&approval).await?)),
            Waited::TimedOut(_) => Ok(None),
            Waited::NotFound => Err(not_there(id)),
        }
    }

    /// Returns true if a service with a current lease uses this store.
    pub async fn has_service(&self) -> bool {
        let nodes = self.store().entries(&self.tenant, Kind::Node, None, 1).await;
        nodes.is_ok_and(|nodes| !nodes.is_empty())
    }

    pub async fn start(&self, call: CallId) -> Result<Started, Failure> {
        let permit = self.gate.start(&self.tenant, call).await??;
        Ok(Started {
            arguments: permit.arguments().as_bytes().to_vec(),
            permit: permit.token().map(PermitToken::reveal).unwrap_or_default(),
            limit: permit.time_limit(),
        })
    }

    pub async fn finish(&self, call: CallId, permit: &str, outcome: Outcome) -> Result<(), Failure> {
        let token = PermitToken::read(permit)
            .ok_or_else(|| Failure::error("bad_permit", "a permit is 64 hex digits"))?;
        self.gate.finish(&self.tenant, call, &token, outcome).await??;
        Ok(())
    }

    pub async fn run_released(&self, approval: ApprovalView) -> Result<ApprovalView, Failure> {
        let stored = self.store().approval(&self.tenant, approval.id).await?;
        let stored = stored.ok_or_else(|| not_there(approval.id))?;
        let (approval, _) = self.gate.run_released(&self.tenant, stored).await?;
        if self.gate.unrecorded() == 0 {
            return self.view(&approval).await;
        }
        self.record_rest().await?;
        let recorded = self.store().approval(&self.tenant, approval.id).await?;
        self.view(&recorded.unwrap_or(approval)).await
    }

    /// Records the outcomes of the calls that this process ran, and tries again until the store accepts them. Fails
    /// after [`RECORD_WITHIN`], with a hint on how to record the outcome by hand.
    async fn record_rest(&self) -> Result<(), Failure> {
        tracing::warn!("the store cannot record the outcome of the call; trying again");
        let rest = self.gate.flush_unrecorded(RECORD_WITHIN).await;
        let Some(first) = rest.first() else { return Ok(()) };
        let call = first.call;
        let (ended, option) = match first.outcome {
            Outcome::Succeeded(_) => ("the call succeeded", "--succeeded"),
            Outcome::Failed(_) => ("the call failed", "--failed"),
            Outcome::NotSent(_) => ("the call was not sent", "--failed"),
            Outcome::Unknown(_) => ("the outcome of the call is unknown", "(--succeeded | --failed)"),
        };
        let message = format!("{ended}, but the store did not record it");
        let hint = format!(
            "when the store works again: `countersign reconcile {call} {option} --note \"seen at the command line\"`"
        );
        Err(Failure::error("not_recorded", message).hint(hint))
    }
}

fn own_agent() -> Result<Agent, Failure> {
    Agent::of_service(AGENT).map_err(|problem| Failure::error("bad_name", problem.to_string()))
}

/// Returns the tenant named on the command line, or the default one.
pub fn tenant(global: &Global) -> Result<Tenant, Failure> {
    Tenant::new(global.tenant()).map_err(|problem| Failure::error("bad_name", problem.to_string()))
}
