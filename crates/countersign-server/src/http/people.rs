//! `/v1/people`: the accounts of people, and the chat senders that stand for them. Requires the scope `admin`.
//!
//! Every change is written to the log, with the name of the credential that made it.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use countersign::id::{Person, Tenant};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::{Account, Caller, Link, SenderId, SenderLink, USUAL_GROUP, address, groups_problem};
use crate::view::Moment;
use crate::web::{Answer, ApiError, App, Authorized, Body, Id, Json, QueryParams, scope};
use crate::wire::{ErrorView, Name};

/// A person who may sign in and decide.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonView {
    /// Name of the person.
    pub name: String,
    /// Groups of the person. A policy names groups as approvers.
    pub groups: Vec<String>,
    /// True if the person may manage people and tokens.
    pub admin: bool,
    /// True if the person can sign in with a password.
    pub has_password: bool,
    /// Time at which the account was added.
    #[schema(value_type = String)]
    pub created_at: Moment,
    /// Ids under which the person writes in chats.
    pub senders: Vec<String>,
}

/// A page of people.
#[derive(Debug, Serialize, ToSchema)]
pub struct PeopleView {
    /// The people, ordered by name.
    pub people: Vec<PersonView>,
    /// Cursor for the next page. Null on the last page.
    pub next: Option<String>,
}

/// Query parameters of the list of people.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PeopleQuery {
    /// Cursor: the `next` of the previous page. Absent for the first page.
    pub cursor: Option<String>,
    /// Maximum number of people, 1 to 500; default 50.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u16>,
}

/// A person to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPerson {
    /// Name of the person.
    #[schema(value_type = Name)]
    pub name: String,
    /// Groups of the person; `approvers` if absent.
    pub groups: Option<Vec<String>>,
    /// True if the person may manage people and tokens.
    #[serde(default)]
    pub admin: bool,
}

/// New groups of a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Groups {
    /// All groups that the person is in from now on.
    pub groups: Vec<String>,
}

/// Chat sender to link to a person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSender {
    /// Name of the chat, a colon, and the sender's id in that chat, such as `telegram:123456`.
    #[schema(pattern = "^[a-z0-9-]{1,32}:[!-~]{1,200}$")]
    pub sender: String,
}

/// Link that signs a person in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInLinkView {
    /// Address to open in a browser. Works once, within 15 minutes.
    pub url: String,
}

/// List people
///
/// Lists the accounts of the tenant, with their groups and their chat senders.
#[utoipa::path(get, path = "/v1/people", operation_id = "list_people", tag = "people", params(PeopleQuery),
    security(("token" = ["admin"])),
    responses((status = 200, body = PeopleView, description = "a page of people"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn list(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    QueryParams(query): QueryParams<PeopleQuery>,
) -> Answer<Json<PeopleView>> {
    let limit = usize::from(query.limit.unwrap_or(50));
    if !(1..=500).contains(&limit) {
        return Err(ApiError::bad_request("`limit` is 1 to 500"));
    }
    let _room = app.limits.list(&caller.tenant, caller.name.as_str()).await?;
    let mut accounts = Account::list(app.store(), &caller.tenant).await?;
    let links = SenderLink::stored(app.store(), &caller.tenant).await?;
    accounts.sort_by(|left, right| left.name.as_str().cmp(right.name.as_str()));
    if let Some(cursor) = &query.cursor {
        accounts.retain(|account| account.name.as_str() > cursor.as_str());
    }
    let is_last = accounts.len() <= limit;
    accounts.truncate(limit);
    let next = accounts.last().filter(|_| !is_last);
    Ok(Json(PeopleView {
        next: next.map(|account| account.name.to_string()),
        people: accounts.iter().map(|account| view(account, &links)).collect(),
    }))
}

/// Add a person
///
/// The person cannot sign in yet: make a sign-in link, or link a chat sender.
#[utoipa::path(post, path = "/v1/people", tag = "people", request_body = NewPerson,
    security(("token" = ["admin"])),
    responses((status = 201, body = PersonView, description = "the person"),
        (status = 409, body = ErrorView, description = "`exists`: the name is in use, or looks like another"),
        (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn add(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Body(body): Body<NewPerson>,
) -> Answer<Response> {
    let groups = body.groups.unwrap_or_else(|| vec![USUAL_GROUP.to_owned()]);
    check_groups(&groups)?;
    let now = app.store().now().await?;
    let mut account = Account::new(Person::new(body.name)?, groups, now);
    account.admin = body.admin;
    let account = account.add(app.store(), &caller.tenant).await?;
    note(&caller, &account.name, "added a person");
    Ok((StatusCode::CREATED, Json(view(&account, &[]))).into_response())
}

/// Remove a person
///
/// Ends the person's sessions, tokens, links and chat senders. A person who is added later under the same name gets
/// none of them back.
#[utoipa::path(delete, path = "/v1/people/{name}", tag = "people",
    params(("name" = String, Path, description = "the person's name")),
    security(("token" = ["admin"])),
    responses((status = 204, description = "removed"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn remove(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Id(person): Id<Person>,
) -> Answer<StatusCode> {
    Account::remove(app.store(), &caller.tenant, &person).await?;
    note(&caller, &person, "removed a person");
    Ok(StatusCode::NO_CONTENT)
}

/// Set a person's groups
///
/// Replaces all groups, from the person's next request on. Approvals that the person has given towards a quorum no
/// longer count.
#[utoipa::path(put, path = "/v1/people/{name}/groups", tag = "people", request_body = Groups,
    params(("name" = String, Path, description = "the person's name")),
    security(("token" = ["admin"])),
    responses((status = 200, body = PersonView, description = "the person"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn set_groups(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Id(person): Id<Person>,
    Body(body): Body<Groups>,
) -> Answer<Json<PersonView>> {
    check_groups(&body.groups)?;
    let change = |account: &mut Account| account.groups.clone_from(&body.groups);
    let account = Account::change(app.store(), &caller.tenant, &person, change).await?;
    note(&caller, &account.name, "changed the groups of a person");
    let links = SenderLink::stored(app.store(), &caller.tenant).await?;
    Ok(Json(view(&account, &links)))
}

/// Make a sign-in link for a person
///
/// Give it to that person alone: whoever opens it first is signed in as that person.
#[utoipa::path(post, path = "/v1/people/{name}/sign-in-link", tag = "people",
    params(("name" = String, Path, description = "the person's name")),
    security(("token" = ["admin"])),
    responses((status = 201, body = SignInLinkView, description = "a link that works once"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn make_sign_in_link(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Id(person): Id<Person>,
) -> Answer<Response> {
    let store = app.store();
    let code = Link::make(store, &caller.tenant, person.clone()).await?;
    let server = address::find(store, &caller.tenant).await?.unwrap_or_default();
    note(&caller, &person, "made a sign-in link for a person");
    let url = format!("{}/sign-in?code={code}", server.trim_end_matches('/'));
    Ok((StatusCode::CREATED, Json(SignInLinkView { url })).into_response())
}

/// Link a chat sender to a person
///
/// From then on, messages and pressed buttons of this sender count as that person's.
#[utoipa::path(post, path = "/v1/people/{name}/senders", tag = "people", request_body = NewSender,
    params(("name" = String, Path, description = "the person's name")),
    security(("token" = ["admin"])),
    responses((status = 201, body = PersonView, description = "the person"),
        (status = 409, body = ErrorView, description = "`exists`: the sender is linked already"),
        (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn link_sender(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Id(person): Id<Person>,
    Body(body): Body<NewSender>,
) -> Answer<Response> {
    let sender = sender_id(&body.sender)?;
    SenderLink::add(app.store(), &caller.tenant, &person, sender).await?;
    note(&caller, &person, "linked a chat sender to a person");
    let person = read(&app, &caller.tenant, &person).await?;
    Ok((StatusCode::CREATED, Json(person)).into_response())
}

/// Unlink a chat sender
///
/// From then on, the sender decides nothing.
#[utoipa::path(delete, path = "/v1/people/{name}/senders/{sender}", tag = "people",
    params(("name" = String, Path, description = "the person's name"),
        ("sender" = String, Path, description = "the sender, such as `telegram:123456`")),
    security(("token" = ["admin"])),
    responses((status = 204, description = "removed"), (status = "default", body = ErrorView, description = "an error; `error.code` says which")))]
pub async fn unlink_sender(
    State(app): State<App>,
    Authorized(caller, ..): Authorized<scope::Admin>,
    Path((person, sender)): Path<(String, String)>,
) -> Answer<StatusCode> {
    let person = Person::new(person)?;
    let sender = sender_id(&sender)?;
    SenderLink::remove(app.store(), &caller.tenant, &person, &sender).await?;
    note(&caller, &person, "unlinked a chat sender from a person");
    Ok(StatusCode::NO_CONTENT)
}

async fn read(app: &App, tenant: &Tenant, person: &Person) -> Answer<PersonView> {
    let account = Account::find(app.store(), tenant, person).await?;
    let account = account.ok_or_else(|| ApiError::not_found("person"))?;
    let links = SenderLink::stored(app.store(), tenant).await?;
    Ok(view(&account, &links))
}

fn view(account: &Account, links: &[SenderLink]) -> PersonView {
    let senders = SenderLink::of(links, account).into_iter();
    PersonView {
        name: account.name.to_string(),
        groups: account.groups.clone(),
        admin: account.admin,
        has_password: account.has_a_password(),
        created_at: account.created_at.into(),
        senders: senders.map(|link| link.sender.as_str().to_owned()).collect(),
    }
}

fn sender_id(text: &str) -> Answer<SenderId> {
    SenderId::parse(text).ok_or_else(|| {
        ApiError::unclear(
            "`sender` is the name of a chat, a colon, and an id without spaces",
            "write it as `telegram:123456`, exactly as the chat's adapter sends it",
        )
    })
}

fn check_groups(groups: &[String]) -> Answer<()> {
    match groups_problem(groups) {
        Some((problem, hint)) => Err(ApiError::unclear(problem, hint)),
        None => Ok(()),
    }
}

/// Writes a change to the log, with the name of the caller's credential.
fn note(caller: &Caller, person: &Person, what: &str) {
    tracing::info!(tenant = %caller.tenant, by = %caller.name, %person, "{what}");
}
