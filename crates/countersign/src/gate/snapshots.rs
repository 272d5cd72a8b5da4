//! Snapshots: reads the data that a call would change, when a person is asked and again before the call runs.
//!
//! Only tools whose policy entry declares a `before` read have snapshots. If the data has changed when a call is about
//! to start, the call does not run, and a new approval with the current data is proposed. A call whose snapshot cannot
//! be read is neither shown nor run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{Gate, Seeds, Submission, SubmittedCall};
use crate::approval::Approval;
use crate::call::{Arguments, Call};
use crate::command::{NewCall, Propose, SnapshotCheck};
use crate::display::clip;
use crate::executor::{Outcome, Permit};
use crate::id::{CallId, Tenant, ToolName};
use crate::policy::{CallRequest, Definition, Ruling};
use crate::secrecy::Secrecy;
use crate::snapshot::{LARGEST_SNAPSHOT, Snapshot};
use crate::stopwatch::Stopwatch;
use crate::summary::generic;
use crate::undoes::Undoes;

/// Maximum time for one read, even if the tool's own timeout is longer.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reads for one submission.
const AT_ONCE: usize = 8;
/// Maximum number of characters of a failed read's error message that are passed on.
const REASON_CHARS: usize = 200;

/// For each submitted call: its snapshot, or the reason why it cannot be read; `None` if the call's tool declares no
/// such read. Empty if no tool does.
pub(super) type Snapshots = Vec<Option<Result<Arc<Snapshot>, String>>>;

impl Gate {
    /// Reads the snapshots of all calls; does nothing if no tool declares such a read.
    pub(super) async fn snapshots(&self, submission: &Submission) -> Snapshots {
        let declares = |call: &SubmittedCall| self.policy.reads_before(&call.tool);
        if !submission.calls.iter().any(declares) {
            return Snapshots::new();
        }
        let read = |call: &SubmittedCall| {
            let (gate, tenant, tool) = (self.clone(), submission.tenant.clone(), call.tool.clone());
            let arguments = Arguments::parse(call.arguments.clone());
            async move { gate.snapshot(&tenant, &tool, &arguments.ok()?).await }
        };
        let reads: Vec<_> = submission.calls.iter().map(read).collect();
        stream::iter(reads).buffered(AT_ONCE).collect().await
    }

    /// Reads the snapshot of one call; `None` if its tool declares no such read. The error is the reason that the agent
    /// gets.
    pub(super) async fn snapshot(
        &self,
        tenant: &Tenant,
        tool: &str,
        arguments: &Arguments,
    ) -> Option<Result<Arc<Snapshot>, String>> {
        let read = match self.policy.before(tool, arguments.as_bytes())? {
            Ok((tool, arguments)) => self.read(tenant, tool, arguments).await,
            Err(reason) => Err(reason),
        };
        let told = |reason| {
            format!("what `{tool}` would change cannot be read: {reason}\nhint: mend that and propose again")
        };
        Some(read.map(Arc::new).map_err(told))
    }

    /// Reads the data behind the snapshot again just before the call starts; `None` if the call has no snapshot. If the
    /// data has changed, also returns a proposal to ask again.
    pub(super) async fn reread_snapshot(
        &self,
        tenant: &Tenant,
        approval: &Approval,
        position: u8,
    ) -> (Option<SnapshotCheck>, Option<Box<Propose>>) {
        let Some((call, before)) = approval
            .call(position)
            .and_then(|call| Some((call, call.before.as_ref()?)))
        else {
            return (None, None);
        };
        let found = self.read(tenant, before.tool.clone(), before.arguments.clone());
        match found.await {
            Err(_) => (Some(SnapshotCheck::Unreadable), None),
            Ok(found) => {
                let snapshot = Some(SnapshotCheck::Read(found.hash));
                let is_same = found.hash == before.hash;
                let replacement = (!is_same).then(|| self.ask_again(approval, position, call, found));
                (snapshot, replacement.flatten().map(Box::new))
            }
        }
    }

    async fn read(&self, tenant: &Tenant, tool: ToolName, arguments: Arguments) -> Result<Snapshot, String> {
        let request = CallRequest {
            tool: tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: Definition::Unknown,
            salt: &[],
            before: None,
            working_folder: None,
        };
        let Ruling::Pass(pass) = self.policy.rule(request) else {
            return Err(format!("`{tool}` does not pass"));
        };
        if !self.executor.runs(&tool) {
            return Err(format!("`{tool}` is not run here"));
        }
        let permit = Permit {
            tenant: tenant.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            // The credential belongs to the call itself, not to this read.
            secret: None,
            timeout: pass.timeout.min(LONGEST_READ),
            call: None,
            token: None,
            since: Stopwatch::start(),
            start_and_deadline: None,
        };
        match self.execute(permit).await.0 {
            Outcome::Succeeded(result) if result.len() > LARGEST_SNAPSHOT => Err(format!(
                "`{tool}` answered {} bytes, more than the {LARGEST_SNAPSHOT} that can be shown",
                result.len()
            )),
            Outcome::Succeeded(result) => Ok(Snapshot::new(tool, arguments, result)),
            Outcome::Failed(reason) => {
                let reason = String::from_utf8_lossy(&reason);
                Err(format!("`{tool}` failed: {}", clip(&reason, REASON_CHARS)))
            }
            Outcome::NotSent(reason) => {
                Err(format!("`{tool}` was not asked: {}", clip(&reason, REASON_CHARS)))
            }
            Outcome::Unknown(_) => Err(format!("`{tool}` did not answer")),
        }
    }

    /// Builds a proposal of the same call with the new snapshot. `None` if the call can no longer be held, for example
    /// because the policy forbids it by now or its credential cannot be opened.
    fn ask_again(&self, approval: &Approval, position: u8, call: &Call, found: Snapshot) -> Option<Propose> {
        let seeds = Seeds::new().ok()?;
        let request = CallRequest {
            tool: call.tool.as_str(),
            arguments: call.arguments.as_bytes(),
            definition: call.definition,
            salt: &seeds.salt,
            before: Some(&found.result),
            working_folder: call.working_folder.as_deref(),
        };
        // The agent may have claimed a higher risk than the policy assigns.
        let least = Some(call.terms.risk());
        let mut terms = self
            .policy
            .hold_traced(request, call.provenance.as_deref(), least)
            .ok()?;
        let secrecy = Secrecy::of(call, &self.policy, &seeds.salt);
        let summary = |secrets: &[_]| generic(request.tool, request.arguments, secrets, request.salt);
        terms.hide(self.policy.secrets_of(call), &secrecy, summary);
        let old = CallId {
            approval: approval.id,
            position,
        };
        let new = CallId {
            approval: seeds.id,
            position: 1,
        };
        let sealed = match &call.sealed {
            None => None,
            Some(sealed) => {
                let secret = self.sealer.as_ref()?.open(sealed, &approval.tenant, old).ok()?;
                Some(self.seal(&secret, &approval.tenant, new).ok()?)
            }
        };
        let submission = Submission {
            tenant: approval.tenant.clone(),
            agent: approval.agent.clone(),
            requester: approval.requester.clone(),
            on_behalf_of: approval.on_behalf_of.clone(),
            channel: approval.channel.clone(),
            run: approval.run.clone(),
            session: approval.session.clone(),
            claim: approval.claim.clone(),
            key: None,
            conversation: None,
            options: Default::default(),
            calls: Vec::new(),
        };
        let calls = vec![NewCall {
            tool: call.tool.clone(),
            definition: call.definition,
            arguments: call.arguments.clone(),
            terms: Arc::new(terms),
            sealed,
            provenance: call.provenance.clone(),
            before: Some(Arc::new(found)),
            working_folder: call.working_folder.clone(),
        }];
        // Do not ask about a call that cannot be shown completely.
        if self.concealed(&calls, None, &seeds).is_some() {
            return None;
        }
        let undoes = approval.undoes.and_then(|undoes| undoes.by(position));
        let propose = self.propose_command(submission, seeds, calls, undoes.map(Undoes::from));
        Some(Propose {
            // A person has just approved this call, so the agent's limits do not apply.
            restraint: None,
            ..propose
        })
    }
}
