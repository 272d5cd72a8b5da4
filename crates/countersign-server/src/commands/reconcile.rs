//! `reconcile`: records how a call with an unknown outcome ended.

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
    let approval = desk.reconcile(call, options.succeeded, options.note).await?;
    print(&approval, output)?;
    Ok(Exit::Done)
}
