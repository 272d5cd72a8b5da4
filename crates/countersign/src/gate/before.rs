//! The read that comes before: what a call would change, when a person is asked and once more before it runs.
//!
//! Enters: calls whose tools declare such a read. Leaves: snapshots; at the last moment what was found, and a new
//! proposal where it is something else. What cannot be read is not asked about, and does not run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{Gate, Seeds, Submission, SubmittedCall};
use crate::approval::Approval;
use crate::call::{Arguments, Call};
use crate::command::{NewCall, Propose, Seen};
use crate::display::clip;
use crate::executor::{Outcome, Permit};
use crate::id::{CallId, Tenant, ToolName};
use crate::policy::{Asked, Definition, Ruling};
use crate::secrecy::Secrecy;
use crate::snapshot::{LARGEST_SNAPSHOT, Snapshot};
use crate::stopwatch::Stopwatch;
use crate::undoes::Undoes;

/// The longest that anybody waits for a read, whatever its tool's own time is.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// So many reads of one submission go on at once.
const AT_ONCE: usize = 8;
/// So much of what a failed read said is passed on.
const REASON_CHARS: usize = 200;

/// For each submitted call: what it would change, or why that cannot be told; nothing where nothing is declared.
pub(super) type Snapshots = Vec<Option<Result<Arc<Snapshot>, String>>>;

impl Gate {
    /// Reads what each call would change. Costs nothing where no tool declares it.
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

    /// Reads what one call would change.
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

    /// Looks again at what a call would change, at the last moment before it starts. When that is something else than
    /// what was shown, there is a proposal to ask again.
    pub(super) async fn look_again(
        &self,
        tenant: &Tenant,
        approval: &Approval,
        position: u8,
    ) -> (Option<Seen>, Option<Box<Propose>>) {
        let Some((call, before)) = approval
            .call(position)
            .and_then(|call| Some((call, call.before.as_ref()?)))
        else {
            return (None, None);
        };
        let found = self.read(tenant, before.tool.clone(), before.arguments.clone());
        match found.await {
            Err(_) => (Some(Seen::Nothing), None),
            Ok(found) => {
                let seen = Some(Seen::Now(found.hash));
                let is_same = found.hash == before.hash;
                let instead = (!is_same).then(|| self.ask_again(approval, position, call, found));
                (seen, instead.flatten().map(Box::new))
            }
        }
    }

    async fn read(&self, tenant: &Tenant, tool: ToolName, arguments: Arguments) -> Result<Snapshot, String> {
        let asked = Asked {
            tool: tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: Definition::Unknown,
            salt: &[],
            before: None,
        };
        let Ruling::Pass(pass) = self.policy.rule(asked) else {
            return Err(format!("`{tool}` does not pass"));
        };
        if !self.executor.runs(&tool) {
            return Err(format!("`{tool}` is not run here"));
        }
        let permit = Permit {
            tenant: tenant.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            // The call's credential is for the call alone.
            secret: None,
            timeout: pass.timeout.min(LONGEST_READ),
            call: None,
            token: None,
            since: Stopwatch::start(),
            span: None,
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
            Outcome::Unknown(_) => Err(format!("`{tool}` did not answer")),
        }
    }

    /// The same call over what is there now. Nothing when the policy forbids it by now, or its credential is lost.
    fn ask_again(&self, approval: &Approval, position: u8, call: &Call, found: Snapshot) -> Option<Propose> {
        let seeds = Seeds::new().ok()?;
        let asked = Asked {
            tool: call.tool.as_str(),
            arguments: call.arguments.as_bytes(),
            definition: call.definition,
            salt: &seeds.salt,
            before: Some(&found.result),
        };
        // The agent may have asked for more risk than the policy sees in it.
        let least = Some(call.terms.risk());
        let mut terms = self
            .policy
            .hold_traced(asked, call.provenance.as_deref(), least)
            .ok()?;
        let secrecy = Secrecy::of(call, &self.policy, &seeds.salt);
        terms.hide(self.policy.secrets_of(call), &secrecy);
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
        }];
        let undoes = approval.undoes.and_then(|undoes| undoes.by(position));
        let propose = self.propose_command(submission, seeds, calls, undoes.map(Undoes::from));
        Some(Propose {
            // A person approved it a moment ago: it is not the agent that asks too much.
            restraint: None,
            ..propose
        })
    }
}
