//! Output at startup: creates the first account and prints which pages to open.

use std::path::PathBuf;

use countersign::display::escape;
use countersign::id::Person;
use countersign::registry::{Entry, Kind};

use crate::access::{Account, Link};
use crate::cli::Global;
use crate::failure::Failure;
use crate::identity;
use crate::output::Output;
use crate::output::style::{self, paint};
use crate::web::App;

/// Facts for the message that is printed when the service starts.
pub struct Start {
    /// Base URL of the service.
    pub base: String,
    /// Policy file, if there is one.
    pub policy_file: Option<PathBuf>,
    /// Facts for the message if the service runs without any configuration; otherwise `None`.
    pub tryout: Option<Tryout>,
}

/// Facts about a service that runs without configuration.
pub struct Tryout {
    /// Tools that only return their arguments.
    pub echoes: Vec<String>,
}

/// Group of the people who approve calls of tools for which the policy names no other approvers.
const APPROVERS: &str = "approvers";

/// Creates an administrator account if there has never been one, and prints which pages to open. Prints a sign-in link
/// for a new account, and always if the service runs without configuration.
pub async fn greet(app: &App, global: &Global, start: &Start, output: &mut Output) -> Result<(), Failure> {
    let tenant = &app.settings.tenant;
    let accounts = Account::list(app.store(), tenant).await?;
    let is_first = accounts.is_empty();
    let had_admin = had_admin(app).await?;
    let person = match accounts.into_iter().find(|account| account.admin) {
        Some(account) if start.tryout.is_some() => Some(account.name),
        Some(_) => None,
        None if had_admin => {
            output.notice(
                "no_administrator",
                "nobody is an administrator any more; `countersign person add NAME --admin` adds one",
            );
            None
        }
        None => Some(first_account(app, global).await?),
    };
    if !had_admin {
        note_admin(app).await?;
    }
    let base = &start.base;
    let mut text = format!(
        "{}  {base}/approvals\n",
        paint(style::STRONG, "Countersign is running")
    );
    if let Some(person) = person {
        let link = Link::make(app.store(), tenant, person.clone()).await?;
        text.push_str(&format!(
            "\n  Sign in as {person}, once, within 15 minutes:\n  {}\n",
            paint(style::HINT, &format!("{base}/sign-in?code={link}"))
        ));
    }
    text.push_str(&talks(app, base));
    if let Some(tryout) = &start.tryout {
        text.push_str(&trying(tryout));
    } else if start.policy_file.is_none() {
        text.push_str(
            "\n  There is no policy: every call is held as destructive. Name one with `--policy`.\n",
        );
    }
    if is_first {
        text.push_str(&format!(
            "\n  Let an agent propose:\n  {}\n",
            paint(
                style::HINT,
                "countersign token create --agent demo --scope propose,wait"
            )
        ));
    }
    text.push_str(
        "\n  Whoever can open the store can decide: run agents under another account. Ctrl-C stops.\n\n",
    );
    output.text(&text);
    Ok(())
}

/// Returns the text about a service without configuration: which policies are in force, and what each tool does.
fn trying(tryout: &Tryout) -> String {
    let mut text = "\n  You are trying it out: example policies are in force.\n  The agents' tools act on small files of \
                    their own, here (`countersign-*.db`).\n"
        .to_owned();
    if !tryout.echoes.is_empty() {
        text.push_str(&format!(
            "  These only echo their arguments: {}.\n",
            tryout.echoes.join(", ")
        ));
    }
    text.push_str(
        "  Any other tool is held; once you approve it, the program that proposed it runs it.\n  \
         Name a policy with `--policy` to make it yours.\n",
    );
    text
}

/// Returns the text about the served agents and their models.
fn talks(app: &App, base: &str) -> String {
    let mut agents = app.agents.iter().peekable();
    if agents.peek().is_none() {
        return String::new();
    }
    let names: Vec<String> = agents
        .map(|(name, served)| format!("{name} ({})", escape(&served.model)))
        .collect();
    let mut text = format!("\n  Talk to an agent: {}\n", names.join(", "));
    if app.agents.has_playground {
        text.push_str(&format!(
            "  {}\n",
            paint(style::HINT, &format!("{base}/playground"))
        ));
    }
    if app.agents.iter().any(|(_, served)| served.is_scripted) {
        text.push_str("  Without an API key, a script answers: set ANTHROPIC_API_KEY or OPENAI_API_KEY to use a model.\n");
    }
    text
}

/// Registry key of the fact that the tenant has had an administrator: one who is gone was removed, and must not come back
/// with the next start.
fn admin_key(app: &App) -> String {
    format!("administrator/{}", app.settings.tenant)
}

async fn had_admin(app: &App) -> Result<bool, Failure> {
    let entry = app.store().entry(Kind::Setting, &admin_key(app)).await?;
    Ok(entry.is_some())
}

/// Records that the tenant has an administrator. Does nothing if that is on record.
async fn note_admin(app: &App) -> Result<(), Failure> {
    let entry = Entry {
        kind: Kind::Setting,
        key: admin_key(app),
        tenant: app.settings.tenant.clone(),
        body: std::sync::Arc::from([]),
        version: 0,
        expires_at: None,
    };
    app.store().put_entry(entry).await?;
    Ok(())
}

async fn first_account(app: &App, global: &Global) -> Result<Person, Failure> {
    let name = identity::person(global.name.as_deref())?;
    let now = app.store().now().await?;
    let mut account = Account::new(name.clone(), vec![APPROVERS.to_owned()], now);
    account.admin = true;
    match account.add(app.store(), &app.settings.tenant).await {
        Ok(_) | Err(crate::access::AccessError::Exists(_)) => Ok(name),
        Err(error) => Err(error.into()),
    }
}
