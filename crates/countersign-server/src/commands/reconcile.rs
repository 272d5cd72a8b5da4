//! `reconcile`: a person says how a call ended whose outcome is unknown.

use super::show::print;
use crate::cli::{Global, Reconcile};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Reconcile, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let (_, call) = find::call(&desk, &options.call).await?;
    let desk = desk.at_store("reconcile")?;
    let by = desk.person()?;
    let answer = desk
        .gate
        .reconcile(&desk.tenant, call, by, options.succeeded, options.note)
        .await?;
    let approval = answer?;
    print(&desk.view(&approval).await?, output)?;
    Ok(Exit::Done)
}
