//! `withdraw`: takes a pending approval back, without a decision.

use countersign::id::Actor;

use super::show::print;
use crate::cli::{Global, Withdraw};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Withdraw, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let by = Actor::Person(desk.person()?);
    let approval = find::approval(&desk, &options.id).await?;
    let answer = desk
        .gate
        .withdraw(&desk.tenant, approval.id, by, options.reason)
        .await?;
    if let Some(refusal) = answer.refusal {
        return Err(refusal.into());
    }
    print(&desk, answer.approval.as_ref().unwrap_or(&approval), output).await?;
    Ok(Exit::Done)
}
