//! `propose`: the calls of one agent turn.

use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::executor::Executor;
use countersign::gate::{Ruled, Submission, Submitted, SubmittedCall};
use countersign::hash::Hash;
use countersign::id::{Agent, ToolName};
use countersign::seal::Secret;
use serde::Serialize;

use super::{input, name, waiting};
use crate::cli::{Global, Propose};
use crate::desk::{self, Desk};
use crate::exec::CommandExecutor;
use crate::failure::{Exit, Failure};
use crate::output::ruling::{Line, Ruling};
use crate::output::{Output, ruling};
use crate::store::{Missing, Watch};
use crate::view::{self, ApprovalView};
use crate::{duration, identity};

pub async fn run(global: &Global, options: Propose, output: &mut Output) -> Result<Exit, Failure> {
    let calls = read_calls(&options)?;
    let tools: Vec<ToolName> = calls.iter().map(|call| call.tool.clone()).collect();
    let executor = match &options.exec.exec {
        Some(command) => Some(Arc::new(CommandExecutor::new(command)?) as Arc<dyn Executor>),
        None => None,
    };
    let runs_here = executor.is_some();
    // What is wrong with the command line is found before the store is touched.
    let submission = submission(global, &options, calls)?;
    let waits = options.wait.is_some() || runs_here;
    let watch = if waits { Watch::Others } else { Watch::Nobody };
    let desk = Desk::open_with(global, Missing::Create, watch, executor).await?;
    if desk.policy_file.is_none() {
        let message = "there is no policy: every call is held as destructive; write `countersign.toml`";
        output.notice("no_policy", message);
    }
    let submitted = desk.gate.submit(submission).await?;
    let approval = submitted.approval.clone();
    let lines = ruled(&desk, &tools, submitted, runs_here).await;
    let exit = ruling::exit(&lines);
    let Some(approval) = approval.clone().filter(|_| waits) else {
        print(&desk, &lines, approval.as_ref(), output).await?;
        return Ok(exit);
    };
    match output.is_json {
        // There is one answer, and it comes at the end; who waits for it may want to know what to decide.
        true => output.notice("held", &approval.id.to_string()),
        false => print(&desk, &lines, Some(&approval), output).await?,
    }
    let wanted = waiting::Waiting {
        id: approval.id,
        timeout: options.wait.flatten().unwrap_or_else(duration::longest),
        runs_here,
        finished: false,
    };
    let approval = waiting::wait(&desk, wanted, output).await?;
    match output.is_json {
        true => print(&desk, &lines, Some(&approval), output).await?,
        false => super::show::print(&desk, &approval, output).await?,
    }
    Ok(match exit {
        Exit::Done => waiting::exit(&approval, runs_here),
        exit => exit,
    })
}

/// Says that an approval is pending now.
pub async fn print_held(desk: &Desk, approval: &SharedApproval, output: &mut Output) -> Result<(), Failure> {
    let lines = approval.numbered().map(|(position, call)| Line {
        tool: call.tool.clone(),
        ruling: Ruling::Held {
            id: format!("{}.{position}", approval.id),
            summary: call.terms.summary.clone(),
        },
    });
    print(desk, &lines.collect::<Vec<_>>(), Some(approval), output).await
}

fn read_calls(options: &Propose) -> Result<Vec<input::Proposed>, Failure> {
    match (&options.calls, &options.tool) {
        (Some(file), _) => input::batch(file),
        (None, Some(tool)) => Ok(vec![input::single(tool, options.arguments.as_deref())?]),
        (None, None) => Err(Failure::usage("there is nothing to propose").hint("name a tool")),
    }
}

fn submission(
    global: &Global,
    options: &Propose,
    calls: Vec<input::Proposed>,
) -> Result<Submission, Failure> {
    let agent = Agent::new(options.agent.as_str());
    let definition = options.definition.as_deref().map(|text| {
        Hash::from_hex(text).ok_or_else(|| {
            Failure::usage("`--definition` is 64 hex digits")
                .hint("give the SHA-256 of the tool's definition")
        })
    });
    let definition = definition.transpose()?;
    let secret = options.secret_env.as_deref().map(secret).transpose()?;
    let call = |call: input::Proposed| SubmittedCall {
        tool: call.tool.to_string(),
        arguments: call.arguments.as_bytes().into(),
        definition,
        secret: secret.clone(),
    };
    Ok(Submission {
        tenant: desk::tenant(global)?,
        agent: agent.map_err(|problem| Failure::error("bad_name", problem.to_string()))?,
        requester: identity::person(global.name.as_deref())?,
        on_behalf_of: None,
        channel: name(options.channel.as_deref())?,
        run: name(options.run.as_deref())?,
        session: name(options.session.as_deref())?,
        claim: options.claim.clone(),
        key: name(options.key.as_deref())?,
        conversation: options
            .conversation
            .as_deref()
            .map(input::conversation)
            .transpose()?
            .map(Arc::new),
        calls: calls.into_iter().map(call).collect(),
    })
}

fn secret(variable: &str) -> Result<Secret, Failure> {
    let value = std::env::var_os(variable).ok_or_else(|| {
        Failure::error(
            "no_secret",
            format!("the environment variable `{variable}` is not set"),
        )
        .hint("export it first, then propose again")
    })?;
    Ok(Secret::new(value.into_encoded_bytes()))
}

/// One line per call. Calls that pass are run at once, if they are run from here.
async fn ruled(desk: &Desk, tools: &[ToolName], submitted: Submitted, runs_here: bool) -> Vec<Line> {
    let approval = submitted.approval;
    let mut lines = Vec::with_capacity(tools.len());
    for (tool, ruled) in tools.iter().zip(submitted.calls) {
        let ruling = match ruled {
            Ruled::Pass(permit) if runs_here => Ruling::Ran(desk.gate.run_passed(permit).await),
            Ruled::Pass(_) => Ruling::Pass,
            Ruled::Held(id) => {
                let call = approval.as_ref().and_then(|approval| approval.call(id.position));
                Ruling::Held {
                    id: id.to_string(),
                    summary: call.map(|call| call.terms.summary.clone()).unwrap_or_default(),
                }
            }
            Ruled::Forbidden { reason } => Ruling::Forbidden { reason },
        };
        lines.push(Line {
            tool: tool.clone(),
            ruling,
        });
    }
    lines
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    calls: Vec<ruling::LineView>,
    approval: Option<ApprovalView>,
}

async fn print(
    desk: &Desk,
    lines: &[Line],
    approval: Option<&SharedApproval>,
    output: &mut Output,
) -> Result<(), Failure> {
    let now = desk.store().now().await?;
    if output.is_json {
        let view = approval.map(|approval| view::approval(approval, desk.gate.policy(), now));
        let calls = lines.iter().map(ruling::view).collect();
        return output.json(&Answer {
            calls,
            approval: view,
        });
    }
    let width = output.width();
    output.text(&ruling::table(
        lines,
        approval.map(|approval| &**approval),
        now,
        width,
    ));
    Ok(())
}
