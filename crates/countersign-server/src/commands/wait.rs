//! `wait`: waits for a decision, and optionally until the released calls have run.

use super::show;
use super::waiting::{self, Waiting};
use crate::backend::Backend;
use crate::cli::{Global, Wait};
use crate::exec::CommandExecutor;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{Missing, Watch};
use crate::{duration, find};

pub async fn run(global: &Global, options: Wait, output: &mut Output) -> Result<Exit, Failure> {
    let executor = options
        .exec
        .exec
        .as_deref()
        .map(|command| CommandExecutor::new(command, &options.exec.pass_env))
        .transpose()?;
    let runs_here = executor.is_some();
    let backend = Backend::open_with(global, Missing::Refuse, Watch::Others, executor).await?;
    let approval = find::approval(&backend, &options.id).await?;
    let wanted = Waiting {
        id: approval.id,
        timeout: options.timeout.unwrap_or_else(duration::longest),
        runs_here,
        finished: options.finished,
    };
    let approval = waiting::wait(&backend, wanted, output).await?;
    show::print(&approval, output)?;
    Ok(waiting::exit(&approval, runs_here || options.finished))
}
