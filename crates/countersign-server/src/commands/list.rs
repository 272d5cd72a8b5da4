//! `list`: lists approvals, by default those that are pending.

use std::path::Path;

use countersign::state::State;
use countersign::store::Filter;

use super::{agent_to_look_for, name};
use crate::backend::Backend;
use crate::cli::{Global, List};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::{Output, list, shell_word};
use crate::store::{self, Missing};
use crate::trust::TrustList;

pub async fn run(global: &Global, options: List, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await;
    let backend = backend.map_err(|failure| match (failure.code.as_ref(), stores_of_hooks(global)) {
        ("no_store", Some(hint)) => failure.hint(hint),
        _ => failure,
    })?;
    let after = match &options.after {
        Some(id) => Some(find::approval(&backend, id).await?.id),
        None => None,
    };
    let filter = Filter {
        state: options.state.or((!options.all).then_some(State::Pending)),
        asked: false,
        open: false,
        agent: agent_to_look_for(options.agent.as_deref())?,
        channel: name(options.channel.as_deref())?,
        run: name(options.run.as_deref())?,
        after,
        limit: Some(usize::from(options.limit)),
        most_bytes: None,
    };
    let page = backend.list(&filter).await?;
    if output.is_json {
        output.json(&page)?;
        return Ok(Exit::Done);
    }
    if page.approvals.is_empty() {
        output.line(&nothing(&options, &filter));
        if let Some(hint) = stores_of_hooks(global) {
            output.notice("other_stores", &hint);
        }
        return Ok(Exit::Done);
    }
    output.text(&list::table(&page.approvals, output.width()));
    if let Some(next) = page.next {
        output.notice("more", &format!("for more, add `--after {}`", next.short()));
    }
    Ok(Exit::Done)
}

/// Returns a hint that names the stores of installed hooks. `None` if the person named a store or a server, or if
/// no hook uses a SQLite store other than the default one.
fn stores_of_hooks(global: &Global) -> Option<String> {
    if global.store.is_some() || global.server.is_some() {
        return None;
    }
    let here = std::path::absolute(store::DEFAULT).ok();
    let list = TrustList::load().ok()?;
    let stores = list.hook_stores(None).into_iter();
    let others =
        stores.filter(|store| !store::is_postgres(store) && here.as_deref() != Some(Path::new(store)));
    let options: Vec<String> = others
        .map(|store| format!("`--store {}`", shell_word(store)))
        .collect();
    (!options.is_empty()).then(|| {
        format!(
            "calls of your hooks are in another store; add {}",
            options.join(" or ")
        )
    })
}

fn nothing(options: &List, filter: &Filter) -> String {
    let is_narrowed = options.agent.is_some() || options.channel.is_some() || options.run.is_some();
    let narrowed = if is_narrowed { " that fits" } else { "" };
    match filter.state {
        _ if filter.after.is_some() => "Nothing more.".to_owned(),
        Some(State::Pending) => format!("Nothing{narrowed} waits for a decision."),
        Some(state) => format!("Nothing{narrowed} is {}.", state.as_str()),
        None => format!("Nothing{narrowed} was ever proposed here."),
    }
}
