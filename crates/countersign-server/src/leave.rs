//! Requests for permission: an agent asks a person before it acts, and the approval itself runs nothing.
//!
//! Input: the name of a tool, and the agent's description, without the tool's arguments. Output: an approval of a call
//! of the built-in tool `requestApproval`, whose only effect is its answer. What the agent calls afterwards goes
//! through the gate as usual.

use std::sync::Arc;

use countersign::call::Call;
use countersign::executor::{Executor, Outcome, Permit};
use countersign::id::ToolName;
use countersign_agent::gated::REQUEST_APPROVAL;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Executor that answers requests for permission itself, and passes calls of all other tools to the inner executor.
pub struct WithLeave(pub Arc<dyn Executor>);

impl Executor for WithLeave {
    fn runs(&self, tool: &ToolName) -> bool {
        tool.as_str() == REQUEST_APPROVAL || self.0.runs(tool)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        // A tool of that name in the operator's configuration takes precedence.
        if permit.tool().as_str() != REQUEST_APPROVAL || self.0.runs(permit.tool()) {
            return self.0.run(permit);
        }
        let outcome = match permit.call() {
            Some(_) => Outcome::succeeded(r#"{"approved":true}"#),
            // A read that passed: the policy asked nobody, so there is no permission.
            None => Outcome::failed(format!(
                r#"{{"approved":false,"error":"nobody was asked: the policy lists `{REQUEST_APPROVAL}` as a read"}}"#
            )),
        };
        std::future::ready(outcome).boxed()
    }
}

/// Arguments of a request for permission.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaveArguments {
    /// Tool that the agent wants to use.
    pub tool_name: String,
    /// The agent's reason for using the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent's own estimate of the risk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
}

/// Returns the tool that a request for permission names; `None` for any other call.
pub fn named_tool(call: &Call) -> Option<String> {
    if call.tool.as_str() != REQUEST_APPROVAL {
        return None;
    }
    let arguments: LeaveArguments = serde_json::from_slice(call.arguments.as_bytes()).ok()?;
    Some(arguments.tool_name)
}
