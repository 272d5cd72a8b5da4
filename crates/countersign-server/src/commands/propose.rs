//! `propose`: proposes the calls of one agent turn.

use countersign::hash::Hash;
use countersign::seal::Secret;
use serde::Serialize;

use super::{input, name, show, waiting};
use crate::backend::{self, Backend, Proposal, Proposed, ProposedCall};
use crate::cli::{Global, Propose};
use crate::exec::CommandExecutor;
use crate::failure::{Exit, Failure};
use crate::output::ruling::{Line, Ruling};
use crate::output::{Output, ruling};
use crate::store::{Missing, Watch};
use crate::view::ApprovalView;
use crate::{duration, identity};

pub async fn run(global: &Global, options: Propose, output: &mut Output) -> Result<Exit, Failure> {
    let calls = read_calls(&options)?;
    let executor = options
        .exec
        .exec
        .as_deref()
        .map(|command| CommandExecutor::new(command, &options.exec.pass_env))
        .transpose()?;
    let runs_here = executor.is_some();
    // Check the command line before a store is created.
    let proposal = proposal(&options, calls)?;
    if global.server.is_none() {
        backend::tenant(global)?;
        identity::person(global.name.as_deref())?;
    }
    let waits = options.wait.is_some() || runs_here;
    let watch = if waits { Watch::Others } else { Watch::Nobody };
    let backend = Backend::open_with(global, Missing::Create, watch, executor).await?;
    if let Backend::Local(local) = &backend
        && local.policy_file.is_none()
    {
        let message = "there is no policy: every call is held as destructive; name one with `--policy`";
        output.notice("no_policy", message);
    }
    let Proposed { lines, approval } = backend.propose(proposal).await?;
    let exit = ruling::exit(&lines);
    let Some(approval) = approval.as_ref().filter(|_| waits) else {
        print(&lines, approval.as_ref(), output)?;
        return Ok(exit);
    };
    match output.is_json {
        // The JSON result is printed only after the wait. The person who decides needs the id before that.
        true => output.notice("held", &approval.id.to_string()),
        false => print(&lines, Some(approval), output)?,
    }
    let wanted = waiting::Waiting {
        id: approval.id,
        timeout: options.wait.flatten().unwrap_or_else(duration::longest),
        runs_here,
        finished: false,
    };
    let approval = waiting::wait(&backend, wanted, output).await?;
    match output.is_json {
        true => print(&lines, Some(&approval), output)?,
        false => show::print(&approval, output)?,
    }
    Ok(match exit {
        Exit::Done => waiting::exit(&approval, runs_here),
        exit => exit,
    })
}

/// Prints a pending approval as the result of a proposal.
pub fn print_held(approval: &ApprovalView, output: &mut Output) -> Result<(), Failure> {
    let lines = approval.calls.iter().map(|call| Line {
        tool: call.tool.clone(),
        ruling: Ruling::Held {
            id: call.id.to_string(),
            summary: call.summary.clone(),
        },
    });
    print(&lines.collect::<Vec<_>>(), Some(approval), output)
}

fn read_calls(options: &Propose) -> Result<Vec<input::Proposed>, Failure> {
    match (&options.calls, &options.tool) {
        (Some(file), _) => input::batch(file),
        (None, Some(tool)) => Ok(vec![input::single(tool, options.arguments.as_deref())?]),
        (None, None) => Err(Failure::usage("there is nothing to propose").hint("name a tool")),
    }
}

fn proposal(options: &Propose, calls: Vec<input::Proposed>) -> Result<Proposal, Failure> {
    let definition = options.definition.as_deref().map(|text| {
        Hash::from_hex(text).ok_or_else(|| {
            Failure::usage("`--definition` is 64 hex digits")
                .hint("give the SHA-256 of the tool's definition")
        })
    });
    let definition = definition.transpose()?;
    let secret = options.secret_env.as_deref().map(secret).transpose()?;
    let call = |call: input::Proposed| ProposedCall {
        tool: call.tool,
        arguments: call.arguments,
        definition,
        secret: secret.clone(),
        working_folder: None,
    };
    Ok(Proposal {
        agent: name(options.agent.as_deref())?,
        channel: name(options.channel.as_deref())?,
        run: name(options.run.as_deref())?,
        session: name(options.session.as_deref())?,
        claim: options.claim.clone(),
        key: name(options.key.as_deref())?,
        conversation: options
            .conversation
            .as_deref()
            .map(input::conversation)
            .transpose()?,
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    calls: Vec<ruling::LineView>,
    approval: Option<&'a ApprovalView>,
}

fn print(lines: &[Line], approval: Option<&ApprovalView>, output: &mut Output) -> Result<(), Failure> {
    if output.is_json {
        let calls = lines.iter().map(ruling::view).collect();
        return output.json(&Answer { calls, approval });
    }
    let width = output.width();
    output.text(&ruling::table(lines, approval, width));
    Ok(())
}
