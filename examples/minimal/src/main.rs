//! The smallest program with a gate: a write is held, a person approves it, and it runs once.

use std::error::Error;

use countersign::{
    Decider, Decision, Gate, MemoryStore, Outcome, Policy, Submission, SubmittedCall, Surface,
};
use countersign::{Tenant, Tools, Verdict, WholeCard};

const POLICY: &str = r#"
[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    println!("{}", runtime.block_on(approve_and_run())?);
    Ok(())
}

async fn approve_and_run() -> Result<String, Box<dyn Error>> {
    let tools = Tools::default().with("create_contact".try_into()?, |permit| async move {
        Outcome::succeeded(permit.arguments().as_bytes())
    });
    let gate = Gate::new(MemoryStore::default(), Policy::parse(POLICY)?).with_executor(tools);
    let call = SubmittedCall::new("create_contact", r#"{"name":"Maria Garcia"}"#);
    let submission = Submission::new(Tenant::single(), "crm", "crm-token", vec![call])?;
    let approval = gate.submit(submission).await?.approval.ok_or("a write is held")?;
    // In a real program, a person reads the card at this point.
    let alice = Decider::new("alice".try_into()?, vec!["approvers".into()], Surface::Page);
    let card = WholeCard::shown(&approval);
    let decision = Decision::on(Tenant::single(), card, alice, Verdict::Approve);
    let ran = gate.decide_and_run(decision).await?.accepted()?;
    Ok(format!("{}: {} ran", approval.calls[0].terms.summary, ran.len()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_held_call_runs_after_its_approval() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let ran = runtime.unwrap().block_on(super::approve_and_run()).unwrap();
        assert_eq!(ran, "Create contact Maria Garcia: 1 ran");
    }
}
