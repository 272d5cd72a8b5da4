//! `withdraw`: withdraws a pending approval without a decision.

use super::show::print;
use crate::backend::Backend;
use crate::cli::{Global, Withdraw};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Withdraw, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?;
    let approval = find::approval(&backend, &options.id).await?;
    let approval = backend.withdraw(approval.id, options.reason).await?;
    print(&approval, output)?;
    Ok(Exit::Done)
}
