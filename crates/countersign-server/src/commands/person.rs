//! `person`: accounts of people who may sign in and decide.

use std::io::Read as _;

use countersign::id::Person;
use serde::Serialize;

use crate::access::{Account, Link, address};
use crate::backend::LocalBackend;
use crate::cli::{Global, PersonCommand};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::foreign::named;
use crate::output::style::{self, paint};
use crate::store::Missing;

/// Address of the service in links, if none is given and no service has recorded its address in the store.
const USUAL_SERVER: &str = "http://localhost:8787";

pub async fn run(global: &Global, command: PersonCommand, output: &mut Output) -> Result<Exit, Failure> {
    let backend = match command {
        PersonCommand::Add { .. } => LocalBackend::open(global, Missing::Create).await?,
        _ => LocalBackend::open(global, Missing::Refuse).await?,
    };
    match command {
        PersonCommand::Add { name, groups, admin } => add(&backend, &name, groups, admin, output).await,
        PersonCommand::List => list(&backend, output).await,
        PersonCommand::Groups { name, groups } => {
            let change = |account: &mut Account| account.groups.clone_from(&groups);
            let account = Account::change(backend.store(), &backend.tenant, &person(&name)?, change).await?;
            print(&account, output)
        }
        PersonCommand::Password { name } => {
            let hash = Account::hash_password(&read_password()?)?;
            let account =
                Account::set_password(backend.store(), &backend.tenant, &person(&name)?, &hash).await?;
            print(&account, output)
        }
        PersonCommand::Link { name } => {
            let noted = address::find(backend.store(), &backend.tenant).await?;
            let server = global.server.clone().or(noted);
            link(&backend, &name, server.as_deref().unwrap_or(USUAL_SERVER), output).await
        }
        PersonCommand::Remove { name } => {
            Account::remove(backend.store(), &backend.tenant, &person(&name)?).await?;
            match output.is_json {
                true => output.json(&serde_json::json!({ "removed": name }))?,
                false => output.line(&format!("{} cannot sign in any more", named(&name))),
            }
            Ok(Exit::Done)
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PersonView<'a> {
    name: &'a str,
    groups: &'a [String],
    admin: bool,
    has_password: bool,
    created_at: String,
}

fn view(account: &Account) -> PersonView<'_> {
    PersonView {
        name: account.name.as_str(),
        groups: &account.groups,
        admin: account.admin,
        has_password: account.has_a_password(),
        created_at: account.created_at.to_string(),
    }
}

fn person(name: &str) -> Result<Person, Failure> {
    Person::new(name).map_err(|problem| Failure::error("bad_name", problem.to_string()))
}

async fn add(
    backend: &LocalBackend,
    name: &str,
    groups: Vec<String>,
    admin: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let now = backend.store().now().await?;
    let mut account = Account::new(person(name)?, groups, now);
    account.admin = admin;
    let account = account.add(backend.store(), &backend.tenant).await?;
    print(&account, output)
}

fn print(account: &Account, output: &mut Output) -> Result<Exit, Failure> {
    match output.is_json {
        true => output.json(&view(account))?,
        false => output.line(&line(account)),
    }
    Ok(Exit::Done)
}

async fn list(backend: &LocalBackend, output: &mut Output) -> Result<Exit, Failure> {
    let accounts = Account::list(backend.store(), &backend.tenant).await?;
    if output.is_json {
        output.json(&accounts.iter().map(view).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if accounts.is_empty() {
        output.line("Nobody can sign in. Add a person with `countersign person add NAME`.");
    }
    for account in &accounts {
        output.line(&line(account));
    }
    Ok(Exit::Done)
}

fn line(account: &Account) -> String {
    let groups: Vec<String> = account.groups.iter().map(|group| named(group)).collect();
    let mut facts = vec![format!("in {}", groups.join(", "))];
    if account.admin {
        facts.push("admin".to_owned());
    }
    if account.has_a_password() {
        facts.push("has a password".to_owned());
    }
    let name = paint(style::STRONG, &named(account.name.as_str()));
    format!("{name}  {}", facts.join(" · "))
}

async fn link(
    backend: &LocalBackend,
    name: &str,
    server: &str,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let person = person(name)?;
    let code = Link::make(backend.store(), &backend.tenant, person).await?;
    let url = format!("{}/sign-in?code={code}", server.trim_end_matches('/'));
    match output.is_json {
        true => output.json(&serde_json::json!({ "url": url }))?,
        false => output.line(&url),
    }
    Ok(Exit::Done)
}

/// Reads a password from standard input, because every process can read command lines.
fn read_password() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(64 * 1024)
        .read_to_string(&mut text)
        .map_err(|error| Failure::error("input", format!("cannot read the password: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
