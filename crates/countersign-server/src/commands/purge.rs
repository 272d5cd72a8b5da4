//! `purge`: erases the content of approvals that ended long enough ago. Their history, including the erasure, is kept.

use countersign::id::Actor;
use countersign::store::{LONGEST_PAGE, Purge};

use crate::backend::Backend;
use crate::cli::{self, Global};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::Missing;

pub async fn run(global: &Global, options: cli::Purge, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?.at_store("purge")?;
    let now = backend.store().now().await?;
    let age = i64::try_from(options.older_than.as_micros()).unwrap_or(i64::MAX);
    let mut purge = Purge {
        tenant: backend.tenant.clone(),
        before: countersign::time::Time::from_micros(now.as_micros().saturating_sub(age)),
        after: None,
        limit: LONGEST_PAGE,
        by: Actor::Person(backend.person()?),
        policy: backend.gate.policy().hash(),
    };
    let mut erased = 0;
    loop {
        let purged = backend.store().purge(&purge).await?;
        erased += purged.erased;
        match purged.next {
            Some(next) => purge.after = Some(next),
            None => break,
        }
    }
    match output.is_json {
        true => output.json(&serde_json::json!({ "erased": erased }))?,
        false => output.line(&format!("erased the content of {erased} approvals")),
    }
    Ok(Exit::Done)
}
