//! `expire`: runs the sweep once.

use crate::backend::Backend;
use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?.at_store("expire")?;
    let swept = backend.gate.expire_due().await?;
    if let Some(trouble) = backend.gate.store().clock_trouble() {
        output.notice("clock", &format!("{trouble}; {}", trouble.hint()));
    }
    let (expired, stale, unknown) = (swept.expired, swept.stale, swept.unknown);
    match output.is_json {
        true => {
            output.json(&serde_json::json!({ "expired": expired, "stale": stale, "unknown": unknown }))?
        }
        false => output.line(&format!(
            "{expired} expired, {stale} not started in time, {unknown} ended as unknown"
        )),
    }
    Ok(Exit::Done)
}
