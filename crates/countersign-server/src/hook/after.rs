//! Handles the event after a tool call: records the outcome of a call that a hook started.

use countersign::executor::Outcome;

use super::Hook;
use super::event::After;
use super::state::HookState;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::store::Missing;

/// Outcome of a call that the coding agent reports with arguments other than those that were allowed. It is unknown
/// which of the two ran.
const OTHER_ARGUMENTS: &str = "the coding agent reports this call with other arguments than were allowed, so it is not \
                               known what ran";

/// Records the outcome of a call. Does nothing for a call without a saved permit, such as a read that passed. Returns
/// a message for the person if the reported arguments differ from the allowed ones.
pub async fn record(hook: &Hook<'_>, end: &After) -> Result<Option<&'static str>, Failure> {
    let kept = HookState::open(hook)?;
    let Some((call, started)) = kept.started(&end.identity) else {
        return Ok(None);
    };
    let is_other = started.arguments.is_some() && started.arguments != end.arguments;
    let told = is_other.then_some(OTHER_ARGUMENTS);
    let outcome = match told {
        Some(why) => Outcome::Unknown(why.to_owned()),
        None => end.outcome.clone(),
    };
    let backend = match hook.runner().await? {
        Some(backend) => backend,
        None => Backend::open(hook.global, Missing::Refuse).await?,
    };
    backend.finish(call, &started.permit, outcome).await?;
    kept.ended(&end.identity);
    Ok(told)
}
