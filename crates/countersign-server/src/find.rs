//! From what a person types to the approval they mean.

use countersign::id::{ApprovalId, CallId};
use countersign::state::State;
use countersign::store::{Filter, LONGEST_PAGE};

use crate::desk::Desk;
use crate::failure::Failure;
use crate::view::ApprovalView;

/// Fewer characters than this are not enough to mean something.
const FEWEST: usize = 4;
/// How many pages of pending approvals are looked through.
const MOST_PAGES: usize = 20;

/// The approval that `text` names: its whole id, or any unambiguous beginning or end of it. Pending ones come first,
/// then recent ones.
pub async fn approval(desk: &Desk, text: &str) -> Result<ApprovalView, Failure> {
    let id = id(desk, text).await?;
    desk.approval(id).await?.ok_or_else(|| not_found(text))
}

/// The id that `text` names.
pub async fn id(desk: &Desk, text: &str) -> Result<ApprovalId, Failure> {
    if let Ok(id) = text.parse::<ApprovalId>() {
        return Ok(id);
    }
    let wanted = text.to_ascii_lowercase();
    if wanted.len() < FEWEST
        || !wanted
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    {
        let message = format!("`{text}` is not the id of an approval");
        return Err(Failure::error("bad_id", message)
            .hint("give at least 4 characters of it, as `countersign list` shows them"));
    }
    if let Some(id) = only(text, pending(desk, &wanted).await?)? {
        return Ok(id);
    }
    let recent = Filter {
        limit: Some(LONGEST_PAGE),
        ..Filter::default()
    };
    let recent = desk.ids(&recent).await?;
    let matching = recent.into_iter().filter(|id| is_meant(*id, &wanted));
    only(text, matching.collect())?.ok_or_else(|| not_found(text))
}

/// The call that `text` names: `ID.N`, or just `ID` when it holds one call.
pub async fn call(desk: &Desk, text: &str) -> Result<(ApprovalView, CallId), Failure> {
    let (id, position) = match text.rsplit_once('.') {
        Some((id, position)) => (id, Some(position)),
        None => (text, None),
    };
    let approval = approval(desk, id).await?;
    let count = approval.calls.len();
    let position = match position {
        None if count == 1 => Some(1),
        None => {
            let message = format!("approval `{}` has {count} calls", approval.id.short());
            return Err(Failure::usage(message).hint(format!("say which: `{id}.1` to `{id}.{count}`")));
        }
        Some(position) => position
            .parse::<u8>()
            .ok()
            .filter(|position| approval.call(*position).is_some()),
    };
    let Some(position) = position else {
        let message = format!("there is no call `{text}`: the approval has {count}");
        return Err(Failure::error("not_found", message).hint("calls are counted from 1"));
    };
    let call = CallId {
        approval: approval.id,
        position,
    };
    Ok((approval, call))
}

async fn pending(desk: &Desk, wanted: &str) -> Result<Vec<ApprovalId>, Failure> {
    let mut filter = Filter {
        state: Some(State::Pending),
        limit: Some(LONGEST_PAGE),
        ..Filter::default()
    };
    let mut matching = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = desk.ids(&filter).await?;
        filter.after = page.last().copied();
        let is_last = page.len() < filter.page();
        matching.extend(page.into_iter().filter(|id| is_meant(*id, wanted)));
        if is_last {
            break;
        }
    }
    Ok(matching)
}

fn is_meant(id: ApprovalId, wanted: &str) -> bool {
    let id = id.to_string();
    let bare = id.replace('-', "");
    let matches = |id: &str| id.starts_with(wanted) || id.ends_with(wanted);
    matches(&id) || matches(&bare)
}

fn only(text: &str, mut matching: Vec<ApprovalId>) -> Result<Option<ApprovalId>, Failure> {
    if matching.len() < 2 {
        return Ok(matching.pop());
    }
    let ids = matching.iter().take(3).map(ApprovalId::short);
    let ids: Vec<String> = ids.collect();
    let message = format!(
        "`{text}` fits {} approvals: {}{}",
        matching.len(),
        ids.join(", "),
        if matching.len() > 3 { ", …" } else { "" }
    );
    Err(Failure::error("ambiguous_id", message).hint("give more of the id"))
}

fn not_found(text: &str) -> Failure {
    Failure::error("not_found", format!("there is no approval `{text}`"))
        .hint("look for it with `countersign list --all`")
}
