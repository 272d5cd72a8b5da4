//! List of pending approvals, and single cards.
//!
//! Input: a query. Output: the page, or a fragment of it for the script.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign::approval::{Approval, SharedApproval};
use countersign::display::one_line;
use countersign::gate::Concerns;
use countersign::hash::Hash;
use countersign::id::{ApprovalId, Tenant};
use countersign::store::{Filter, LONGEST_PAGE};
use countersign::time::Time;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};

use super::card::{Card, Drawing, Measure, order, shown};
use super::filter::{Choices, Wanted, is_for};
use super::form::QueryFields;
use super::page;
use super::session::{BackgroundCaller, SignedIn};
use crate::access::Caller;
use crate::service::visible;
use crate::view;
use crate::web::{Answer, ApiError, App};

/// Cards per page.
pub(super) const CARDS: usize = 100;
/// Fewest cards of one tool that the page offers to decide together.
const FEWEST_TOGETHER: usize = 2;
/// Most tools that the page offers this for.
const MOST_OFFERS: usize = 3;
/// Maximum number of pending approvals read from the store, oldest first.
const MOST_PENDING: usize = 2 * LONGEST_PAGE;
/// Size of arguments, in bytes, after which no further approvals are read.
const MOST_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    #[serde(default)]
    agent: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    risk: String,
    #[serde(default)]
    view: String,
    #[serde(default)]
    select: String,
    page: Option<usize>,
    /// Id of the approval that the person has just decided, if the page follows a decision.
    done: Option<String>,
    /// Hash of the cards that the script already shows. If it is still current, the response is empty.
    #[serde(default)]
    stamp: String,
    /// Query parameter without a value; if present, the complete card is rendered instead of the short one.
    full: Option<String>,
}

impl PageQuery {
    fn wanted(&self) -> Wanted {
        Wanted {
            agent: self.agent.clone(),
            tool: self.tool.clone(),
            risk: self.risk.clone(),
            view: self.view.clone(),
            select: self.select.clone(),
        }
    }
}

/// Redirects to the list.
pub async fn home() -> Response {
    Redirect::to("/approvals").into_response()
}

/// Renders the list page.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    let listed = match list(&app, &caller, &asked).await {
        Ok(listed) => listed,
        Err(error) => return page::failure(&error),
    };
    let done = match asked.done.as_deref() {
        None => None,
        Some(id) => describe_decision(&app, &caller, id, listed.now).await,
    };
    let wanted = asked.wanted();
    let more = context! { done, wanted => Value::from(Serde(&wanted)), choices => Value::from(Serde(&listed.choices)) };
    let values = context! { ..listed.values(&wanted), ..more };
    page::signed_in(&app, StatusCode::OK, "list.html", &caller, "inbox", values)
}

/// Renders only the cards, for the script. Responds with 204 if the script already shows them.
pub async fn cards(
    State(app): State<App>,
    BackgroundCaller(caller): BackgroundCaller,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    match list(&app, &caller, &asked).await {
        Ok(listed) if listed.stamp == asked.stamp => StatusCode::NO_CONTENT.into_response(),
        Ok(listed) => page::render(StatusCode::OK, "cards.html", listed.values(&asked.wanted())),
        Err(error) => page::failure(&error),
    }
}

/// Renders one card, for the script. Responds with 204 if the card is pending and excluded by the filters.
pub async fn card(
    State(app): State<App>,
    BackgroundCaller(caller): BackgroundCaller,
    Path(id): Path<String>,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    match one(&app, &caller, &id).await {
        Ok((approval, now)) => {
            let is_pending = view::state(&approval, now) == countersign::state::State::Pending;
            if is_pending && !asked.wanted().includes(&approval, caller.decider().as_ref()) {
                return StatusCode::NO_CONTENT.into_response();
            }
            let measure = match asked.full {
                Some(_) => Measure::FULL,
                None => Measure::LIST,
            };
            let place = Place {
                measure,
                from: "list",
                is_selecting: asked.wanted().is_selecting(),
            };
            fragment(StatusCode::OK, &app, &caller, &approval, now, place, None).await
        }
        Err(error) => page::failure(&error),
    }
}

/// Where a fragment is shown.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    pub measure: Measure,
    /// Name of the page that the card is on.
    pub from: &'p str,
    /// True if cards can be selected there.
    pub is_selecting: bool,
}

/// Renders a card as a fragment, with an error message if `problem` is given.
pub async fn fragment(
    status: StatusCode,
    app: &App,
    caller: &Caller,
    approval: &SharedApproval,
    now: Time,
    place: Place<'_>,
    problem: Option<&ApiError>,
) -> Response {
    let concerns = match concerns(app, approval, now).await {
        Ok(concerns) => concerns,
        Err(error) => return page::failure(&error),
    };
    let decider = caller.decider();
    let drawing = Drawing {
        policy: app.gate.policy(),
        now,
        decider: decider.as_ref(),
        measure: place.measure,
    };
    let card = Card::new(approval, &concerns, drawing);
    let values = context! {
        card => Value::from(Serde(&card)),
        key => page::form_key(),
        from => place.from,
        selecting => place.is_selecting,
        problem => problem.map(page::problem),
    };
    page::render(status, "card.html", values)
}

/// Returns the approval with the id from a URL, and the store's time. Fails if the caller may not see the approval.
pub async fn one(app: &App, caller: &Caller, id: &str) -> Answer<(SharedApproval, Time)> {
    let id: ApprovalId = id.parse().map_err(|_| ApiError::not_found("approval"))?;
    let approval = visible(app, caller, id).await?;
    Ok((approval, app.store().now().await?))
}

/// Returns the concerns about an approval. Empty once it is no longer pending.
pub async fn concerns(app: &App, approval: &SharedApproval, now: Time) -> Answer<Concerns> {
    match view::state(approval, now) {
        countersign::state::State::Pending => Ok(app.gate.concerns(approval).await?),
        _ => Ok(Concerns::new()),
    }
}

/// Content of one page of the list.
struct Listed {
    cards: Vec<Card>,
    stamp: String,
    total: usize,
    /// Number of approvals that the viewer can approve. `others` counts those that only other people can approve.
    mine: usize,
    others: usize,
    looked_at: usize,
    is_cut: bool,
    page: usize,
    pages: usize,
    now: Time,
    choices: Choices,
    offers: Vec<Offer>,
}

/// Offer to decide several cards of one tool together.
#[derive(Debug, Serialize)]
struct Offer {
    tool: String,
    count: usize,
    query: String,
}

/// Returns the tools with several cards on the page that can be selected, most cards first.
fn offers(cards: &[Card], wanted: &Wanted) -> Vec<Offer> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for card in cards.iter().filter(|card| card.can_select) {
        if let Some(call) = card.calls.first() {
            *counts.entry(call.tool.as_str()).or_default() += 1;
        }
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.retain(|(_, count)| *count >= FEWEST_TOGETHER);
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(MOST_OFFERS);
    let offer = |(tool, count): (&str, usize)| Offer {
        tool: shown(tool),
        count,
        query: Wanted {
            tool: tool.to_owned(),
            select: "1".to_owned(),
            ..wanted.clone()
        }
        .query(),
    };
    counts.into_iter().map(offer).collect()
}

impl Listed {
    fn values(&self, wanted: &Wanted) -> Value {
        context! {
            cards => Value::from(Serde(&self.cards)),
            stamp => self.stamp.as_str(),
            total => self.total,
            mine => self.mine,
            others => self.others,
            is_all => wanted.view == "all",
            selecting => wanted.is_selecting(),
            tool => wanted.tool.as_str(),
            offers => Value::from(Serde(&self.offers)),
            query_without_selecting => Wanted { select: String::new(), ..wanted.clone() }.query(),
            query_of_all => Wanted { view: "all".to_owned(), ..wanted.clone() }.query(),
            query_of_mine => Wanted { view: String::new(), ..wanted.clone() }.query(),
            is_cut => self.is_cut,
            most => self.looked_at,
            page => self.page,
            pages => self.pages,
            now => self.now.to_string(),
            query => wanted.query(),
            is_everything => wanted.is_everything(),
            key => page::form_key(),
            from => "list",
            problem => None::<Value>,
        }
    }
}

async fn list(app: &App, caller: &Caller, asked: &PageQuery) -> Answer<Listed> {
    let wanted = asked.wanted();
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let (pending, is_cut) = pending(app, &caller.tenant).await?;
    let now = app.store().now().await?;
    let choices = Choices::new(pending.iter().map(|approval| &**approval), &wanted);
    let decider = caller.decider();
    let of_kind: Vec<&SharedApproval> = pending
        .iter()
        .filter(|approval| wanted.is_of_kind(approval))
        .collect();
    let (mine, others): (Vec<&SharedApproval>, Vec<&SharedApproval>) = of_kind
        .iter()
        .partition(|approval| is_for(approval, decider.as_ref()));
    let (count_of_mine, count_of_others) = (mine.len(), others.len());
    let mut chosen = match wanted.view.as_str() {
        "all" => of_kind,
        _ => mine,
    };
    chosen.sort_by_key(|approval| order(approval));
    let pages = chosen.len().div_ceil(CARDS).max(1);
    let page = asked.page.unwrap_or(1).clamp(1, pages);
    let drawing = Drawing {
        policy: app.gate.policy(),
        now,
        decider: decider.as_ref(),
        measure: Measure::LIST,
    };
    let total = chosen.len();
    let on_page = chosen.into_iter().skip((page - 1) * CARDS).take(CARDS);
    let on_page: Vec<&Approval> = on_page.map(|approval| &**approval).collect();
    let mut seen = format!("{page}/{pages}/{total}/{count_of_others}");
    for approval in &on_page {
        seen.push_str(&format!(" {}.{}", approval.id, approval.version));
    }
    let concerns = app.gate.concerns_about(&on_page).await?;
    let cards = on_page.iter().zip(&concerns);
    let cards = cards.map(|(approval, concerns)| Card::new(approval, concerns, drawing));
    let cards: Vec<Card> = cards.collect();
    Ok(Listed {
        offers: match wanted.is_selecting() {
            true => Vec::new(),
            false => offers(&cards, &wanted),
        },
        cards,
        stamp: Hash::of(seen.as_bytes()).short(),
        total,
        mine: count_of_mine,
        others: count_of_others,
        looked_at: pending.len(),
        is_cut,
        page,
        pages,
        now,
        choices,
    })
}

/// Reads the oldest pending approvals. The flag is true if there may be more.
async fn pending(app: &App, tenant: &Tenant) -> Answer<(Vec<SharedApproval>, bool)> {
    let mut filter = Filter {
        limit: Some(LONGEST_PAGE),
        most_bytes: Some(MOST_BYTES),
        ..Filter::pending()
    };
    let mut pending = Vec::new();
    let mut room = MOST_BYTES;
    while pending.len() < MOST_PENDING && room > 0 {
        let page = app.store().list(tenant, &filter).await?;
        filter.after = page.last().map(|approval| approval.id);
        let is_last = !filter.is_full(&page);
        room = page
            .iter()
            .fold(room, |room, approval| room.saturating_sub(approval.weight()));
        filter.most_bytes = Some(room.max(1));
        pending.extend(page);
        if is_last {
            return Ok((pending, false));
        }
    }
    Ok((pending, true))
}

/// Describes the decision that the person has just made, as recorded. The URL names only the approval, so it cannot
/// forge the text. `None` if the approval is not visible or not decided.
async fn describe_decision(app: &App, caller: &Caller, id: &str, now: Time) -> Option<Value> {
    let (approval, _) = one(app, caller, id).await.ok()?;
    let decided = approval.decision.as_ref()?;
    Some(context! {
        id => approval.id.to_string(),
        title => one_line(&view::description(&approval)).into_owned(),
        state => view::state(&approval, now).as_str(),
        said => decision_phrase(&view::Outcome::of(&approval, now)),
        is_you => caller.person.as_ref() == Some(&decided.by),
        by => super::card::shown(decided.by.as_str()),
    })
}

/// Phrases a decision to follow a name: `approved`, or `approved 2 of 3`.
fn decision_phrase(outcome: &view::Outcome) -> String {
    match outcome.decided.split_once(" approved") {
        Some((count, _)) => format!("approved {count}"),
        None => outcome.decided.clone(),
    }
}
