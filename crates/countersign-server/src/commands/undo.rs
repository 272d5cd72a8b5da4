//! `undo`: proposes the undo of a call, as a new approval.

use super::{name, propose};
use crate::cli::{Global, Undo};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: Undo, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let (channel, key) = (name(options.channel.as_deref())?, name(options.key.as_deref())?);
    let (_, call) = find::call(&desk, &options.call).await?;
    let approval = desk.undo(call, channel, key).await?;
    propose::print_held(&approval, output)?;
    Ok(Exit::Done)
}
