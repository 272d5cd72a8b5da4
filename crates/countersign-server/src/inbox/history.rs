//! History page: approvals that are no longer pending, newest first.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use countersign::approval::{Approval, SharedApproval};
use countersign::display::one_line;
use countersign::id::ApprovalId;
use countersign::state::State as ApprovalState;
use countersign::store::Filter;
use countersign::time::Time;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};

use super::card::{Moment, risk, shown, tone};
use super::form::QueryFields;
use super::history_file::{Entry, Format, file};
use super::page;
use super::session::SignedIn;
use crate::access::Caller;
use crate::view::{self, Outcome};
use crate::web::{Answer, ApiError, App};

/// Number of approvals per page.
const LINES: usize = 50;
/// Size of arguments and results, in bytes, at which a page ends early.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of approvals that a search or a download reads, newest first.
const MOST_SEARCHED: usize = 2_000;
/// Longest text to search for, in characters.
const LONGEST_SEARCH: usize = 200;

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    #[serde(default)]
    status: String,
    #[serde(default)]
    after: String,
    /// Text to search for.
    #[serde(default)]
    q: String,
}

#[derive(Debug, Serialize)]
struct Line {
    id: String,
    title: String,
    /// Outcome of the approval, in words.
    label: String,
    /// CSS class for the colour.
    tone: &'static str,
    risk: &'static str,
    agent: String,
    by: Option<String>,
    at: Moment,
    /// Outcome of the calls, such as `succeeded`. `None` if it follows from the label, or if the calls of a batch ended
    /// differently.
    outcome: Option<&'static str>,
    /// Why the policy let the call pass; `None` if it did not.
    because: Option<String>,
}

/// Renders the history page.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    draw(&app, &caller, &asked)
        .await
        .unwrap_or_else(|error| page::failure(&error))
}

async fn draw(app: &App, caller: &Caller, asked: &PageQuery) -> Answer<Response> {
    let state = ended_states().find(|state| state.as_str() == asked.status);
    let after = match asked.after.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| ApiError::not_found("page"))?),
    };
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let search = Search::new(&asked.q);
    let found = find(app, caller, (state, after), &search, LINES).await?;
    let (approvals, now) = (found.approvals, app.store().now().await?);
    let next = found.next.map(|id| id.to_string());
    let lines: Vec<Line> = approvals
        .iter()
        .filter(|approval| view::state(approval, now) != ApprovalState::Pending)
        .map(|approval| {
            let decided = approval.decision.as_ref();
            let at = decided.map(|decided| decided.at).or(approval.ended_at);
            let state = view::state(approval, now);
            let outcome = Outcome::of(approval, now);
            let only = approval.calls.first().filter(|_| approval.calls.len() == 1);
            // Omitted where it follows from the label: a denied call is always refused.
            let word = only.map(|call| call.state.as_str());
            let word = word.filter(|word| !matches!(*word, "refused" | "held"));
            Line {
                id: approval.id.to_string(),
                title: one_line(&view::description(approval)).into_owned(),
                label: outcome.label(),
                tone: tone(state, &outcome),
                risk: risk(approval).as_str(),
                agent: shown(approval.agent.as_str()),
                by: decided.map(|decided| shown(decided.by.as_str())),
                at: Moment::new(at.unwrap_or(approval.expires_at), now),
                outcome: word.or(outcome.all_succeeded.then_some("succeeded")),
                because: view::passed_because(approval),
            }
        })
        .collect();
    let states: Vec<&str> = ended_states().map(ApprovalState::as_str).collect();
    let values = context! {
        lines => Value::from(Serde(&lines)),
        states,
        status => state.map_or("", ApprovalState::as_str),
        is_first => asked.after.is_empty(),
        next,
        q => super::card::shown(&asked.q),
        query => page::url_part(&asked.q).replace('/', "%2F"),
        looked_at => found.looked_at,
    };
    Ok(page::signed_in(
        app,
        StatusCode::OK,
        "history.html",
        caller,
        "history",
        values,
    ))
}

/// Search query of the history page.
struct Search {
    /// Words in lower case, all of which have to occur.
    words: Vec<String>,
}

impl Search {
    fn new(text: &str) -> Search {
        let text: String = text.chars().take(LONGEST_SEARCH).collect();
        Search {
            words: text
                .to_lowercase()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Returns true if all words occur in the text that the history page shows for the approval. Arguments are not
    /// searched.
    fn includes(&self, approval: &Approval) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let mut text = format!(
            "{} {} {}",
            approval.id,
            approval.agent.as_str(),
            approval.requester.as_str()
        );
        for call in &approval.calls {
            text.push_str(&format!(" {} {}", call.tool, call.terms.summary));
        }
        if let Some(decided) = &approval.decision {
            text.push_str(&format!(" {}", decided.by.as_str()));
        }
        let text = text.to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

/// Result of a search in the history.
struct Found {
    approvals: Vec<SharedApproval>,
    /// Cursor of the next page. `None` if there are no further approvals.
    next: Option<ApprovalId>,
    looked_at: usize,
}

/// Returns past approvals, newest first. Stops when it has found `most`, or has read [`MOST_SEARCHED`].
async fn find(
    app: &App,
    caller: &Caller,
    (state, after): (Option<ApprovalState>, Option<ApprovalId>),
    search: &Search,
    most: usize,
) -> Answer<Found> {
    let now = app.store().now().await?;
    let mut filter = Filter {
        state,
        after,
        limit: Some(LINES),
        most_bytes: Some(MOST_BYTES),
        ..Filter::default()
    };
    let mut found = Found {
        approvals: Vec::new(),
        next: None,
        looked_at: 0,
    };
    loop {
        let page = app.store().list(&caller.tenant, &filter).await?;
        found.looked_at += page.len();
        filter.after = page.last().map(|approval| approval.id);
        let is_last = !filter.is_full(&page);
        let is_wanted = |approval: &SharedApproval| {
            view::state(approval, now) != ApprovalState::Pending && search.includes(approval)
        };
        found.approvals.extend(page.into_iter().filter(is_wanted));
        // Pages of the store are never split, so that the next page begins after the last approval read. Without a
        // search, each history page is one read.
        if is_last {
            return Ok(found);
        }
        if search.words.is_empty() && most == LINES
            || found.approvals.len() >= most
            || found.looked_at >= MOST_SEARCHED
        {
            found.next = filter.after;
            return Ok(found);
        }
    }
}

/// Returns the history as comma-separated values.
pub async fn csv(state: State<App>, caller: SignedIn, asked: QueryFields<PageQuery>) -> Response {
    download(state, caller, asked, Format::Csv).await
}

/// Returns the history as JSON lines.
pub async fn json_lines(state: State<App>, caller: SignedIn, asked: QueryFields<PageQuery>) -> Response {
    download(state, caller, asked, Format::JsonLines).await
}

async fn download(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    QueryFields(asked): QueryFields<PageQuery>,
    format: Format,
) -> Response {
    let entries = async {
        let state = ended_states().find(|state| state.as_str() == asked.status);
        let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
        let found = find(
            &app,
            &caller,
            (state, None),
            &Search::new(&asked.q),
            MOST_SEARCHED,
        )
        .await?;
        let now = app.store().now().await?;
        let entry = |approval: &SharedApproval| entry(&app, approval, now);
        Ok(found.approvals.iter().map(entry).collect::<Vec<_>>())
    };
    match entries.await {
        Ok(entries) => file(&entries, format),
        Err(error) => page::failure(&error),
    }
}

fn entry(app: &App, approval: &Approval, now: Time) -> Entry {
    let decided = approval.decision.as_ref();
    let ended = decided.map(|decided| decided.at).or(approval.ended_at);
    let secrecy = approval.secrecy(app.gate.policy());
    let comment = decided.and_then(|decided| decided.comment.as_deref());
    let tools: Vec<String> = approval
        .calls
        .iter()
        .map(|call| shown(call.tool.as_str()))
        .collect();
    Entry {
        id: approval.id.to_string(),
        proposed_at: approval.created_at.to_string(),
        ended_at: ended.unwrap_or(approval.expires_at).to_string(),
        status: view::state(approval, now).as_str().to_owned(),
        outcome: Outcome::of(approval, now).label(),
        risk: risk(approval).as_str().to_owned(),
        agent: shown(approval.agent.as_str()),
        requested_by: shown(approval.requester.as_str()),
        decided_by: decided
            .map(|decided| shown(decided.by.as_str()))
            .unwrap_or_default(),
        decided_on: decided.map(|decided| shown(&decided.surface)).unwrap_or_default(),
        tools: tools.join(" "),
        summary: one_line(&view::description(approval)).into_owned(),
        comment: comment
            .map(|comment| shown(&secrecy.text(comment)))
            .unwrap_or_default(),
    }
}

fn ended_states() -> impl Iterator<Item = ApprovalState> {
    ApprovalState::ALL
        .into_iter()
        .filter(|state| *state != ApprovalState::Pending)
}
