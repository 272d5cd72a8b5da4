//! Resolves an approval id, or part of one, that a person types.

use countersign::id::{ApprovalId, CallId};
use countersign::state::State;
use countersign::store::{Filter, LONGEST_PAGE};

use crate::backend::Backend;
use crate::failure::Failure;
use crate::view::ApprovalView;

/// Minimum characters of a partial id.
const FEWEST: usize = 4;
/// Number of the newest approvals that are searched in addition to the pending ones, if a pending one matches.
const NEWEST: usize = 100;
/// Maximum number of pages that are searched among pending approvals, and again among all approvals.
const MOST_PAGES: usize = 20;

/// Returns the approval named by `text`: a full id, or a unique prefix or suffix of one. Ids start with a timestamp, so
/// ids of the same day begin alike; lists show the ends of ids, which are random.
pub async fn approval(backend: &Backend, text: &str) -> Result<ApprovalView, Failure> {
    let id = id(backend, text).await?;
    backend.approval(id).await?.ok_or_else(|| not_found(text))
}

/// Returns the approval id named by `text`, which has the forms that [`approval`] accepts. A full id is not looked up.
pub async fn id(backend: &Backend, text: &str) -> Result<ApprovalId, Failure> {
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
    let mut matching = pending(backend, &wanted).await?;
    let mut recent = Filter {
        limit: Some(if matching.is_empty() { LONGEST_PAGE } else { NEWEST }),
        ..Filter::default()
    };
    // Recent approvals are searched even if a pending one matches, so that `text` is ambiguous if it also matches an
    // approval that was decided a moment ago. Older pages are read only while nothing matches.
    for _ in 0..MOST_PAGES {
        let page = backend.ids(&recent).await?;
        recent.after = page.last().copied();
        let is_last = page.len() < recent.page();
        for id in page.into_iter().filter(|id| is_meant(*id, &wanted)) {
            if !matching.contains(&id) {
                matching.push(id);
            }
        }
        if is_last || !matching.is_empty() {
            break;
        }
    }
    only(text, matching)?.ok_or_else(|| not_found(text))
}

/// Returns the call named by `text`: `ID.N`, or just `ID` if the approval has one call.
pub async fn call(backend: &Backend, text: &str) -> Result<(ApprovalView, CallId), Failure> {
    let (id, position) = match text.rsplit_once('.') {
        Some((id, position)) => (id, Some(position)),
        None => (text, None),
    };
    let approval = approval(backend, id).await?;
    let count = approval.calls.len();
    let position = match position {
        None if count == 1 => Some(1),
        None => {
            let message = format!("approval `{}` has {count} calls", approval.id.short());
            return Err(Failure::usage(message).hint(format!("name one of them: `{id}.1` to `{id}.{count}`")));
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

async fn pending(backend: &Backend, wanted: &str) -> Result<Vec<ApprovalId>, Failure> {
    let mut filter = Filter {
        state: Some(State::Pending),
        limit: Some(LONGEST_PAGE),
        ..Filter::default()
    };
    let mut matching = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = backend.ids(&filter).await?;
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
    let first: Vec<&ApprovalId> = matching.iter().take(3).collect();
    // If the short forms are equal, they do not help to tell the approvals apart, so full ids are shown.
    let is_plain = first
        .iter()
        .all(|id| first.iter().filter(|other| other.short() == id.short()).count() == 1);
    let ids: Vec<String> = first
        .iter()
        .map(|id| if is_plain { id.short() } else { id.to_string() })
        .collect();
    let message = format!(
        "`{text}` is ambiguous: it matches {} approvals: {}{}",
        matching.len(),
        ids.join(", "),
        if matching.len() > 3 { ", …" } else { "" }
    );
    Err(Failure::error("ambiguous_id", message).hint("give more characters from the end of the id"))
}

fn not_found(text: &str) -> Failure {
    Failure::error("not_found", format!("there is no approval `{text}`"))
        .hint("find it with `countersign list --all`")
}
