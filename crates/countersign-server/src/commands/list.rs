//! `list`: what waits for a decision.

use countersign::state::State;
use countersign::store::Filter;
use serde::Serialize;

use super::name;
use crate::cli::{Global, List};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::output::{Output, list};
use crate::store::Missing;
use crate::view::ApprovalView;
use crate::{find, view};

pub async fn run(global: &Global, options: List, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let after = match &options.after {
        Some(id) => Some(find::approval(&desk, id).await?.id),
        None => None,
    };
    let filter = Filter {
        state: options.state.or((!options.all).then_some(State::Pending)),
        agent: name(options.agent.as_deref())?,
        channel: name(options.channel.as_deref())?,
        run: name(options.run.as_deref())?,
        after,
        limit: Some(usize::from(options.limit)),
    };
    let approvals = desk.store().list(&desk.tenant, &filter).await?;
    let now = desk.store().now().await?;
    let is_full = approvals.len() >= filter.page();
    let next = approvals.last().filter(|_| is_full).map(|approval| approval.id);
    if output.is_json {
        let policy = desk.gate.policy();
        output.json(&Page {
            approvals: approvals
                .iter()
                .map(|approval| view::approval(approval, policy, now))
                .collect(),
            next: next.map(|id| id.to_string()),
        })?;
        return Ok(Exit::Done);
    }
    if approvals.is_empty() {
        output.line(&nothing(&options, &filter));
        return Ok(Exit::Done);
    }
    output.text(&list::table(&approvals, desk.gate.policy(), now, output.width()));
    if let Some(next) = next {
        output.notice("more", &format!("there may be more: `--after {}`", next.short()));
    }
    Ok(Exit::Done)
}

/// Serialised as it is, never through a tree of values: that would rebuild the arguments.
#[derive(Serialize)]
struct Page {
    approvals: Vec<ApprovalView>,
    /// Give this to `--after`; nothing when this was the last page.
    next: Option<String>,
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
