//! A tool of a [rig](https://docs.rs/rig-core) agent behind the gate.
//!
//! The tool is only reachable through the gate's executor, so rig's loop cannot run it before a person approves. Rig
//! parses the arguments before it calls a tool. They are serialized again here, and that text is what the person is
//! shown and what the tool gets.
//!
//! `cargo run --manifest-path examples/rig/Cargo.toml` shows what a loop sees when nobody decides; the test approves
//! and denies.

use std::time::Duration;

use countersign::executor::{Outcome, Tools};
use countersign::gate::Gate;
use countersign::id::ToolName;
use countersign::policy::Policy;
use countersign::store::memory::MemoryStore;
use countersign_agent::gated::{CallError, GatedTools};
use rig_core::tool::{PortableTool, ToolExecutionError};
use serde_json::{Map, Value, json};

/// Sends mail after a person has approved it.
struct SendMail(GatedTools);

impl PortableTool for SendMail {
    const NAME: &'static str = "send_mail";
    type Args = Map<String, Value>;
    type Output = String;
    type Error = CallError;

    fn description(&self) -> String {
        "Send an e-mail to a customer. A person is asked first.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "required": ["to", "subject"],
            "properties": { "to": { "type": "string" }, "subject": { "type": "string" } },
        })
    }

    fn map_error(&self, error: CallError) -> ToolExecutionError {
        // The model is told the reason, so that it can react.
        let told = error.to_string();
        ToolExecutionError::from_error(error).with_model_feedback(told)
    }

    async fn call(&self, arguments: Self::Args) -> Result<String, CallError> {
        self.0
            .call(Self::NAME, Value::Object(arguments).to_string())
            .await
    }
}

fn gate() -> Result<Gate, Box<dyn std::error::Error>> {
    let policy = "[tools.send_mail]\neffect = \"external\"\nsummary = \"Send {{ subject }} to {{ to }}\"\n";
    let tools = Tools::default().with(ToolName::new("send_mail")?, |_permit| async {
        // The mail would be sent here; this code is reached only with a permit.
        Outcome::succeeded(r#"{"sent":true}"#)
    });
    Ok(Gate::new(MemoryStore::default(), Policy::parse(policy)?).with_executor(tools))
}

fn tool(gate: Gate) -> Result<SendMail, Box<dyn std::error::Error>> {
    let gated = GatedTools::new(gate, "support")?;
    Ok(SendMail(gated.with_wait_limit(Duration::from_secs(1))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With rig, `agent.tool(tool)` adds the tool to an agent. Here the tool is called as the agent's loop would call
    // it.
    let tool = tool(gate()?)?;
    let mut arguments = Map::new();
    arguments.insert("to".to_owned(), json!("maria@acme.com"));
    arguments.insert("subject".to_owned(), json!("Welcome"));
    match PortableTool::call(&tool, arguments).await {
        Ok(answer) => println!("{answer}"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use countersign::decision::{Decider, Decision, Surface, Verdict};
    use countersign::id::{Person, Tenant};
    use countersign::store::Filter;
    use rig_core::tool::{Tool, ToolContext};

    use super::*;

    async fn decide(gate: &Gate, verdict: Verdict) {
        let pending = loop {
            let pending = gate
                .store()
                .list(&Tenant::single(), &Filter::pending())
                .await
                .unwrap();
            if let [pending] = pending.as_slice() {
                break pending.clone();
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(pending.calls[0].terms.summary, "Send Welcome to maria@acme.com");
        let decision = Decision::on(
            Tenant::single(),
            countersign::card::WholeCard::shown(&pending),
            Decider::new(
                Person::new("alice").unwrap(),
                vec!["approvers".to_owned()],
                Surface::Page,
            ),
            verdict,
        );
        gate.decide_and_run(decision).await.unwrap().accepted().unwrap();
    }

    #[tokio::test]
    async fn d5_a_rig_tool_runs_after_a_yes_only() {
        let arguments = json!({ "to": "maria@acme.com", "subject": "Welcome" });
        let arguments = arguments.as_object().unwrap();
        let gate = gate().unwrap();
        let tool = tool(gate.clone()).unwrap();
        let mut context = ToolContext::default();
        let (sent, ()) = tokio::join!(
            Tool::call(&tool, &mut context, arguments.clone()),
            decide(&gate, Verdict::Approve)
        );
        assert_eq!(sent.unwrap(), r#"{"sent":true}"#);
        let (sent, ()) = tokio::join!(
            Tool::call(&tool, &mut context, arguments.clone()),
            decide(&gate, Verdict::Deny)
        );
        assert_eq!(sent.unwrap_err().to_string(), "`send_mail` was denied by `alice`");
    }
}
