//! Page for people: lists accounts, adds and removes them, sets groups, makes sign-in links, and links chat senders.
//!
//! Only for admins. The rules are those of `/v1/people`; every change is written to the log, with the name of the admin.
//! A form of another site is refused by the guard, as on all pages.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use countersign::id::Person;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};

use super::card::{Moment, shown};
use super::form::{FormFields, QueryFields};
use super::language::say;
use super::page;
use super::session::SignedIn;
use crate::access::{
    Account, Caller, Link, Scope, SenderId, SenderLink, USUAL_GROUP, address, groups_problem,
};
use crate::web::{Answer, ApiError, App};

/// People per page.
const ON_PAGE: usize = 100;

/// Returns the routes of the page.
pub fn pages() -> Router<App> {
    Router::new()
        .route("/people", get(show).post(add))
        .route("/people/{name}/groups", post(set_groups))
        .route("/people/{name}/sign-in-link", post(make_sign_in_link))
        .route("/people/{name}/senders", post(link_sender))
        .route("/people/{name}/senders/unlink", post(unlink_sender))
        .route("/people/{name}/remove", post(remove))
}

#[derive(Debug, Default, Deserialize)]
pub struct PageQuery {
    /// Name of the last person of the page before.
    #[serde(default)]
    after: String,
}

#[derive(Debug, Deserialize)]
pub struct NewPerson {
    #[serde(default)]
    name: String,
    #[serde(default)]
    groups: String,
    /// Present if the person becomes an admin.
    admin: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct GroupsForm {
    #[serde(default)]
    groups: String,
}

#[derive(Debug, Deserialize)]
pub struct SenderForm {
    #[serde(default)]
    sender: String,
}

#[derive(Debug, Default, Deserialize)]
pub struct EmptyForm {}

#[derive(Debug, Deserialize)]
pub struct RemoveForm {
    /// The person's name, typed by the admin.
    #[serde(default)]
    confirm: String,
}

/// A person on the page.
#[derive(Debug, Serialize)]
struct PersonCard {
    name: String,
    /// The name as part of a path.
    path: String,
    groups: String,
    admin: bool,
    has_password: bool,
    is_you: bool,
    added: Moment,
    senders: Vec<String>,
}

/// What a request has to say above the list.
#[derive(Default)]
struct Notice<'n> {
    problem: Option<&'n ApiError>,
    /// Sign-in link that was just made, and the person it is for.
    link: Option<(String, String)>,
}

/// Renders the list.
pub async fn show(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    QueryFields(asked): QueryFields<PageQuery>,
) -> Response {
    draw(&app, &caller, &asked.after, Notice::default()).await
}

/// Adds a person.
pub async fn add(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    FormFields(form): FormFields<NewPerson>,
) -> Response {
    let added = async {
        require_admin(&caller)?;
        let mut groups = groups(&form.groups)?;
        if groups.is_empty() {
            groups.push(USUAL_GROUP.to_owned());
        }
        let mut account = Account::new(Person::new(form.name.trim())?, groups, app.store().now().await?);
        account.admin = form.admin.is_some();
        let account = account.add(app.store(), &caller.tenant).await?;
        note(&caller, &account.name, "added a person");
        Ok(())
    };
    finish(&app, &caller, added.await).await
}

/// Sets all groups of a person.
pub async fn set_groups(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(name): Path<String>,
    FormFields(form): FormFields<GroupsForm>,
) -> Response {
    let changed = async {
        let person = person(&caller, name)?;
        let groups = groups(&form.groups)?;
        let change = |account: &mut Account| account.groups.clone_from(&groups);
        Account::change(app.store(), &caller.tenant, &person, change).await?;
        note(&caller, &person, "changed the groups of a person");
        Ok(())
    };
    finish(&app, &caller, changed.await).await
}

/// Makes a sign-in link and shows it once.
pub async fn make_sign_in_link(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(name): Path<String>,
    FormFields(EmptyForm {}): FormFields<EmptyForm>,
) -> Response {
    let made = async {
        let person = person(&caller, name)?;
        let store = app.store();
        let code = Link::make(store, &caller.tenant, person.clone()).await?;
        let server = address::find(store, &caller.tenant).await?.unwrap_or_default();
        note(&caller, &person, "made a sign-in link for a person");
        let url = format!("{}/sign-in?code={code}", server.trim_end_matches('/'));
        Ok::<_, ApiError>((shown(person.as_str()), url))
    };
    let made = made.await;
    let notice = match &made {
        Ok(link) => Notice {
            link: Some(link.clone()),
            ..Notice::default()
        },
        Err(error) => Notice {
            problem: Some(error),
            ..Notice::default()
        },
    };
    draw(&app, &caller, "", notice).await
}

/// Links a chat sender to a person.
pub async fn link_sender(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(name): Path<String>,
    FormFields(form): FormFields<SenderForm>,
) -> Response {
    let linked = async {
        let person = person(&caller, name)?;
        let sender = sender_id(form.sender.trim())?;
        SenderLink::add(app.store(), &caller.tenant, &person, sender).await?;
        note(&caller, &person, "linked a chat sender to a person");
        Ok(())
    };
    finish(&app, &caller, linked.await).await
}

/// Unlinks a chat sender.
pub async fn unlink_sender(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(name): Path<String>,
    FormFields(form): FormFields<SenderForm>,
) -> Response {
    let unlinked = async {
        let person = person(&caller, name)?;
        let sender = sender_id(&form.sender)?;
        SenderLink::remove(app.store(), &caller.tenant, &person, &sender).await?;
        note(&caller, &person, "unlinked a chat sender from a person");
        Ok(())
    };
    finish(&app, &caller, unlinked.await).await
}

/// Removes a person, if the form repeats the name.
pub async fn remove(
    State(app): State<App>,
    SignedIn(caller): SignedIn,
    Path(name): Path<String>,
    FormFields(form): FormFields<RemoveForm>,
) -> Response {
    let removed = async {
        let person = person(&caller, name)?;
        if form.confirm.trim() != person.as_str() {
            return Err(ApiError::unclear(
                say("the name was not repeated, so nobody was removed"),
                say("type the name exactly as it stands there"),
            ));
        }
        Account::remove(app.store(), &caller.tenant, &person).await?;
        note(&caller, &person, "removed a person");
        Ok(())
    };
    finish(&app, &caller, removed.await).await
}

/// Redirects to the list, or shows it with the reason for a refusal.
async fn finish(app: &App, caller: &Caller, outcome: Answer<()>) -> Response {
    match outcome {
        Ok(()) => Redirect::to("/people").into_response(),
        Err(error) => {
            let notice = Notice {
                problem: Some(&error),
                ..Notice::default()
            };
            draw(app, caller, "", notice).await
        }
    }
}

async fn draw(app: &App, caller: &Caller, after: &str, notice: Notice<'_>) -> Response {
    let status = notice.problem.map_or(StatusCode::OK, |problem| problem.status);
    match values(app, caller, after, notice).await {
        Ok(values) => page::signed_in(app, status, "people.html", caller, "people", values),
        Err(error) => page::failure(&error),
    }
}

async fn values(app: &App, caller: &Caller, after: &str, notice: Notice<'_>) -> Answer<Value> {
    require_admin(caller)?;
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut accounts = Account::list(app.store(), &caller.tenant).await?;
    let links = SenderLink::stored(app.store(), &caller.tenant).await?;
    let now = app.store().now().await?;
    let total = accounts.len();
    accounts.sort_by(|left, right| left.name.as_str().cmp(right.name.as_str()));
    accounts.retain(|account| account.name.as_str() > after);
    let has_more = accounts.len() > ON_PAGE;
    accounts.truncate(ON_PAGE);
    let next = accounts.last().filter(|_| has_more);
    let next = next.map(|account| page::url_part(account.name.as_str()));
    let card = |account: &Account| PersonCard {
        name: shown(account.name.as_str()),
        path: page::url_part(account.name.as_str()).replace('/', "%2F"),
        groups: shown(&account.groups.join(", ")),
        admin: account.admin,
        has_password: account.has_a_password(),
        is_you: caller.person.as_ref() == Some(&account.name),
        added: Moment::new(account.created_at, now),
        senders: SenderLink::of(&links, account)
            .into_iter()
            .map(|link| link.sender.as_str().to_owned())
            .collect(),
    };
    let cards: Vec<PersonCard> = accounts.iter().map(card).collect();
    Ok(context! {
        people => Value::from(Serde(&cards)),
        total,
        next,
        usual_group => USUAL_GROUP,
        link => notice.link.map(|(name, url)| context! { name, url }),
        problem => notice.problem.map(page::problem),
    })
}

fn require_admin(caller: &Caller) -> Answer<()> {
    match caller.may(Scope::Admin) {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_scope",
            "only an admin may manage people",
            "ask an admin of this service",
        )),
    }
}

/// Returns the person of a path, for an admin.
fn person(caller: &Caller, name: String) -> Answer<Person> {
    require_admin(caller)?;
    Ok(Person::new(name)?)
}

/// Reads groups that are separated by commas.
fn groups(text: &str) -> Answer<Vec<String>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let groups: Vec<String> = names.map(str::to_owned).collect();
    match groups_problem(&groups) {
        Some((problem, hint)) => Err(ApiError::unclear(problem, hint)),
        None => Ok(groups),
    }
}

fn sender_id(text: &str) -> Answer<SenderId> {
    SenderId::parse(text).ok_or_else(|| {
        ApiError::unclear(
            say("a chat sender is the name of a chat, a colon, and an id without spaces"),
            say("write it as `telegram:123456`, exactly as the chat's adapter sends it"),
        )
    })
}

/// Writes a change to the log.
fn note(caller: &Caller, person: &Person, what: &str) {
    tracing::info!(tenant = %caller.tenant, by = %caller.name, %person, "{what}");
}
