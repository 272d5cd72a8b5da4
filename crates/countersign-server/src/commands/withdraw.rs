//! `withdraw`: withdraws a pending approval without a decision.

use super::show::print;
use crate::cli::{Global, Withdraw};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Withdraw, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let approval = find::approval(&desk, &options.id).await?;
    let approval = desk.withdraw(approval.id, options.reason).await?;
    print(&approval, output)?;
    Ok(Exit::Done)
}
