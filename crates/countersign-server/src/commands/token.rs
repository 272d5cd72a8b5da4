//! `token`: creates, lists and revokes API tokens.

use countersign::id::{Agent, Person};
use serde::Serialize;

use super::name;
use crate::access::{NewToken, Token};
use crate::backend::{self, LocalBackend};
use crate::cli::{Global, TokenCommand};
use crate::duration;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::foreign::named;
use crate::output::style::{self, paint};
use crate::store::Missing;

pub async fn run(global: &Global, command: TokenCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create {
            scope,
            agent,
            person,
            name: token_name,
            expires,
        } => {
            let new = NewToken {
                tenant: backend::tenant(global)?,
                name: name::<Person>(token_name.as_deref())?,
                scopes: scope.into_iter().collect(),
                agent: name::<Agent>(agent.as_deref())?,
                person: name::<Person>(person.as_deref())?,
                lasts: expires,
            };
            create(global, new, output).await
        }
        TokenCommand::List => list(global, output).await,
        TokenCommand::Revoke { id } => revoke(global, &id, output).await,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenView {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    name: String,
    scopes: String,
    agent: Option<String>,
    person: Option<String>,
    created_at: String,
    expires_at: String,
}

fn view(id: &str, token: &Token, text: Option<&str>) -> TokenView {
    TokenView {
        id: id.to_owned(),
        token: text.map(str::to_owned),
        name: token.name.to_string(),
        scopes: token.scopes.to_string(),
        agent: token.agent.as_ref().map(ToString::to_string),
        person: token.person.as_ref().map(ToString::to_string),
        created_at: token.created_at.to_string(),
        expires_at: token.expires_at.to_string(),
    }
}

async fn create(global: &Global, new: NewToken, output: &mut Output) -> Result<Exit, Failure> {
    let backend = LocalBackend::open(global, Missing::Create).await?;
    let minted = new.mint(backend.store()).await?;
    if output.is_json {
        output.json(&view(&minted.id, &minted.token, Some(&minted.text)))?;
        return Ok(Exit::Done);
    }
    // Standard output gets only the token, so that a script can capture it.
    output.line(&minted.text);
    let lasts = duration::show(minted.token.expires_at.since(minted.token.created_at));
    let message = format!(
        "token {} with scope {}, valid for {lasts}; it is not shown again",
        minted.id, minted.token.scopes
    );
    output.notice("token", &message);
    Ok(Exit::Done)
}

async fn list(global: &Global, output: &mut Output) -> Result<Exit, Failure> {
    let backend = LocalBackend::open(global, Missing::Refuse).await?;
    let tokens = Token::list(backend.store(), &backend.tenant).await?;
    if output.is_json {
        let views: Vec<TokenView> = tokens.iter().map(|(id, token)| view(id, token, None)).collect();
        output.json(&views)?;
        return Ok(Exit::Done);
    }
    if tokens.is_empty() {
        output.line("No tokens. Create one with `countersign token create`.");
        return Ok(Exit::Done);
    }
    let now = backend.store().now().await?;
    for (id, token) in &tokens {
        let whose = match (&token.agent, &token.person) {
            (Some(agent), Some(person)) => format!("agent {agent} for {person}"),
            (Some(agent), None) => format!("agent {agent}"),
            (None, Some(person)) => format!("person {person}"),
            (None, None) => token.name.to_string(),
        };
        output.line(&format!(
            "{}  {}  {}  ends {}",
            paint(style::STRONG, id),
            named(&whose),
            token.scopes,
            duration::show_relative(token.expires_at, now)
        ));
    }
    Ok(Exit::Done)
}

async fn revoke(global: &Global, id: &str, output: &mut Output) -> Result<Exit, Failure> {
    let backend = LocalBackend::open(global, Missing::Refuse).await?;
    let token = Token::revoke(backend.store(), &backend.tenant, id).await?;
    match output.is_json {
        true => output.json(&view(id, &token, None))?,
        false => output.line(&format!("token {id} is revoked")),
    }
    Ok(Exit::Done)
}
