//! `purge`: erases the content of approvals that ended long enough ago. Their history, including the erasure, is kept.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use countersign::id::Actor;
use countersign::store::{LONGEST_PAGE, Purge, Store};
use countersign::time::Time;

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
        before: Time::from_micros(now.as_micros().saturating_sub(age)),
        after: None,
        limit: LONGEST_PAGE,
        by: Actor::Person(backend.person()?),
        policy: backend.gate.policy().hash(),
        dry_run: true,
    };
    let count = go_through(backend.store(), &purge).await?;
    if options.dry_run {
        match output.is_json {
            true => output.json(&serde_json::json!({ "wouldErase": count }))?,
            false => output.line(&format!("would erase the content of {}", approvals(count))),
        }
        return Ok(Exit::Done);
    }
    if count > 0 && !options.yes && !agrees(count)? {
        output.line("nothing was erased");
        return Ok(Exit::Done);
    }
    purge.dry_run = false;
    let erased = go_through(backend.store(), &purge).await?;
    match output.is_json {
        true => output.json(&serde_json::json!({ "erased": erased }))?,
        false => output.line(&format!("erased the content of {}", approvals(erased))),
    }
    Ok(Exit::Done)
}

/// Goes through all pages of a purge, and returns the number of approvals that were erased, or would be.
async fn go_through(store: &dyn Store, purge: &Purge) -> Result<usize, Failure> {
    let mut page = purge.clone();
    let mut erased = 0;
    loop {
        let purged = store.purge(&page).await?;
        erased += purged.erased;
        match purged.next {
            Some(next) => page.after = Some(next),
            None => return Ok(erased),
        }
    }
}

fn approvals(count: usize) -> String {
    match count {
        1 => "1 approval".to_owned(),
        count => format!("{count} approvals"),
    }
}

/// Asks the person at the terminal whether to erase, and returns true if they agree. Fails if there is no terminal,
/// because then nobody can answer.
fn agrees(count: usize) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let message = format!("this would erase the content of {} for good", approvals(count));
        return Err(Failure::with(Exit::Usage, "not_confirmed", message)
            .hint("add --yes to erase, or --dry-run to see how many"));
    }
    let unreadable = |error: std::io::Error| Failure::error("input", format!("cannot ask: {error}"));
    let mut stderr = std::io::stderr();
    write!(
        stderr,
        "Erase the content of {} for good? [y/N] ",
        approvals(count)
    )
    .and_then(|()| stderr.flush())
    .map_err(unreadable)?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(unreadable)?;
    let answer = answer.trim();
    Ok(answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"))
}
