//! `undo`: proposes the undo of a call, as a new approval.

use super::{name, propose};
use crate::backend::Backend;
use crate::cli::{Global, Undo};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Undo, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?;
    let (channel, key) = (name(options.channel.as_deref())?, name(options.key.as_deref())?);
    let (_, call) = find::call(&backend, &options.call).await?;
    let approval = backend.undo(call, channel, key).await?;
    propose::print_held(&approval, output)?;
    Ok(Exit::Done)
}
