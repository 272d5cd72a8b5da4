//! Benchmarks of a gate in this process: proposals, whole approvals, and reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use countersign::approval::SharedApproval;
use countersign::card::WholeCard;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Ruled, Submission, SubmittedCall, Until, Waited};
use countersign::id::{Agent, Person, Tenant, ToolName};
use countersign::policy::{Definition, Policy};
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use serde_json::{Value, json};

use crate::report::{drive, report};

/// Policy text that lifts the limits on an agent's proposals.
pub(crate) const UNLIMITED: &str =
    "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";

const POLICY: &str = r#"
[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.find_paddocks]
effect = "read"

[tools.delete_paddocks]
effect = "destructive"
ttl = "1h"
summary = "Delete {{ ids | length }} paddocks"
"#;

/// Returns 512 bytes of arguments, the size used in all benchmarks.
pub(crate) fn arguments() -> Arc<[u8]> {
    let ids: Vec<String> = (0..13u32)
        .map(|n| format!("pad-{n:04}-{:08x}", n.wrapping_mul(0x9e37_79b1)))
        .collect();
    let mut text = json!({"ids": ids, "reason": ""}).to_string();
    let padding = "x".repeat(512usize.saturating_sub(text.len()));
    text.truncate(text.len().saturating_sub(2));
    text.push_str(&padding);
    text.push_str("\"}");
    text.into_bytes().into()
}

/// Creates a gate whose only tool does nothing.
pub(crate) fn gate(store: Arc<dyn Store>) -> anyhow::Result<Gate> {
    let policy = Policy::parse(POLICY).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let tools = Tools::default().with(ToolName::new("delete_paddocks")?, |_| async {
        Outcome::succeeded("{\"deleted\":13}")
    });
    Ok(Gate::new(store, Arc::new(policy)).with_executor(Arc::new(tools)))
}

pub(crate) fn submission(tool: &str, arguments: Arc<[u8]>) -> anyhow::Result<Submission> {
    let call = SubmittedCall {
        tool: tool.to_owned(),
        arguments,
        definition: Definition::Unknown,
        secret: None,
        working_folder: None,
    };
    Ok(Submission {
        tenant: Tenant::single(),
        agent: Agent::new("bench")?,
        requester: Person::new("bench")?,
        on_behalf_of: None,
        channel: None,
        run: None,
        session: None,
        claim: None,
        key: None,
        conversation: None,
        options: Default::default(),
        calls: vec![call],
    })
}

pub(crate) fn decision(approval: &SharedApproval, verdict: Verdict) -> anyhow::Result<Decision> {
    let groups = vec!["approvers".to_owned()];
    let decider = Decider::new(Person::new("bench")?, groups, Surface::Api);
    let card = WholeCard::shown(approval);
    Ok(Decision::on(approval.tenant.clone(), card, decider, verdict))
}

pub(crate) async fn hold(gate: &Gate, submission: Submission) -> anyhow::Result<SharedApproval> {
    match gate.submit(submission).await?.approval {
        Some(approval) => Ok(approval),
        None => bail!("nothing was held"),
    }
}

/// Measures proposals, each of them durable before it is answered.
pub(super) async fn propose(store: Arc<dyn Store>, callers: usize, span: Duration) -> anyhow::Result<Value> {
    let gate = gate(store)?;
    let submission = submission("delete_paddocks", arguments())?;
    let (latencies, elapsed) = drive(callers, span, move |_| {
        let (gate, submission) = (gate.clone(), submission.clone());
        async move { hold(&gate, submission).await.map(|_| ()) }
    })
    .await?;
    Ok(report("propose", latencies, elapsed, json!({"conc": callers})))
}

/// Measures whole approvals: an agent proposes and waits, a person decides, the gate runs the call, the agent is woken.
pub(super) async fn cycle(store: Arc<dyn Store>, callers: usize, span: Duration) -> anyhow::Result<Value> {
    let gate = gate(store)?;
    let submission = submission("delete_paddocks", arguments())?;
    let (latencies, elapsed) = drive(callers, span, move |_| {
        let (gate, submission) = (gate.clone(), submission.clone());
        async move { whole(&gate, submission).await }
    })
    .await?;
    Ok(report("cycle", latencies, elapsed, json!({"conc": callers})))
}

pub(crate) async fn whole(gate: &Gate, submission: Submission) -> anyhow::Result<()> {
    let approval = hold(gate, submission).await?;
    let timeout = Duration::from_secs(30);
    let agent = gate.wait(&approval.tenant, approval.id, Until::Finished, timeout);
    let person = gate.decide_and_run(decision(&approval, Verdict::Approve)?);
    let (waited, resolved) = tokio::join!(agent, person);
    match (waited?, resolved?.refusal) {
        (Waited::Done(_), None) => Ok(()),
        (waited, refusal) => bail!("an approval went astray: {waited:?} {refusal:?}"),
    }
}

/// Measures reads that the policy lets pass, with a small and a large number of tools in the policy.
pub(super) async fn read(span: Duration) -> anyhow::Result<Value> {
    let small = read_with(10, span).await?;
    let large = read_with(10_000, span).await?;
    let p50 = |report: &Value| report.get("p50_us").cloned().unwrap_or_default();
    let extra = json!({"p50_us_with_10_tools": p50(&small), "p50_us_with_10000_tools": p50(&large)});
    let mut report = small;
    if let (Some(report), Value::Object(extra)) = (report.as_object_mut(), extra) {
        report.extend(extra);
    }
    Ok(report)
}

async fn read_with(tools: usize, span: Duration) -> anyhow::Result<Value> {
    let catalogue: String = (0..tools)
        .map(|n| format!("[tools.tool_{n}]\neffect = \"read\"\n"))
        .collect();
    let policy = Policy::parse(&catalogue).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let gate = Gate::new(Arc::new(MemoryStore::default()), Arc::new(policy));
    let submission = submission("tool_7", arguments())?;
    let started = Instant::now();
    let mut latencies = Vec::new();
    while started.elapsed() < span / 2 {
        let asked = submission.clone();
        let before = Instant::now();
        let submitted = gate.submit(asked).await?;
        latencies.push(before.elapsed());
        if !matches!(submitted.calls.first(), Some(Ruled::Pass(_))) {
            bail!("a read did not pass");
        }
    }
    Ok(report("read", latencies, started.elapsed(), json!({})))
}
