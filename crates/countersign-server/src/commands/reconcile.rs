//! `reconcile`: records how a call with an unknown outcome ended.

use super::show::print;
use crate::backend::Backend;
use crate::cli::{Global, Reconcile};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Reconcile, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?;
    let (_, call) = find::call(&backend, &options.call).await?;
    let approval = backend.reconcile(call, options.succeeded, options.note).await?;
    print(&approval, output)?;
    Ok(Exit::Done)
}
