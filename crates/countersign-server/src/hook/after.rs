//! Handles the event after a tool call: records the outcome of a call that a hook started.

use super::Hook;
use super::event::After;
use super::state::HookState;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::store::Missing;

/// Records the outcome of a call. Does nothing for a call without a saved permit, such as a read that passed.
pub async fn record(hook: &Hook<'_>, end: &After) -> Result<(), Failure> {
    let kept = HookState::open(hook)?;
    let Some((call, started)) = kept.started(&end.place) else {
        return Ok(());
    };
    let backend = match hook.runner().await? {
        Some(backend) => backend,
        None => Backend::open(hook.global, Missing::Refuse).await?,
    };
    backend.finish(call, &started.permit, end.outcome.clone()).await?;
    kept.ended(&end.place);
    Ok(())
}
