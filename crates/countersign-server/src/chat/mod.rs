//! `countersign chat`: a conversation with an agent on a terminal or through a pipe.
//!
//! Input: lines. Output: the agent's text behind a gutter, and cards. Approvals are in the same store as those of every
//! other command, so that a card can also be decided elsewhere. The policy is the agent's own, unless `--policy` names
//! another.

mod event;
mod line;
mod provider;
mod screen;
mod setup;
mod sight;
mod talk;
mod terminal;
mod typing;

use std::sync::Arc;

use countersign::conversation::Conversations;
use countersign::executor::Executor;
use countersign::gate::Gate;
use countersign::id::{self, BadName};
use countersign_agent::agent::{Agent, TurnContext};

use crate::cli::{Chat, Global};
use crate::failure::{Exit, Failure};
use crate::leave::WithLeave;
use crate::output::Output;
use crate::service::agents::TalkSecret;
use crate::store::{Missing, Watch};
use crate::{agents, identity, keys, store};
use line::{Line, Lines};
use setup::Setup;
use talk::Talk;
use typing::Typing;

/// Runs the conversation until the person ends it.
pub async fn run(global: &Global, options: Chat, output: &mut Output) -> Result<Exit, Failure> {
    if global.server.is_some() {
        return Err(
            Failure::usage("`chat` needs direct access to a store and cannot use a server")
                .hint("talk to a served agent over `POST /v1/agents/NAME/messages`"),
        );
    }
    if options.session.is_empty() {
        return Err(Failure::usage("a session's name must not be empty"));
    }
    let setup = Setup::read(global, &options)?;
    let provider = provider::choose(&options, setup.file.has_script())?;
    let mut plan = setup.file.config(&provider.provider).map_err(setup::bad_agent)?;
    plan.credentials = agents::credentials(&setup.file, |name| std::env::var(name).ok())
        .map_err(|problem| Failure::error("bad_agent", problem))?;
    let bad_name = |problem: BadName| Failure::usage(problem.to_string());
    // A name reserved for served agents: no API token can have it, so no program with a token can take part in this
    // conversation.
    let name = plan.name.to_string();
    plan.name = id::Agent::served(&name).map_err(bad_name)?;
    let person = identity::person(global.name.as_deref())?;
    let sealer = keys::sealer(global.seal_key_file.as_deref())?;
    let store = store::open(global.store(), Missing::Create, Watch::Others).await?;
    let executor: Arc<dyn Executor> = Arc::new(WithLeave(setup.executor));
    let mut gate = Gate::new(store, setup.policy).with_executor(executor);
    if let Some(sealer) = sealer {
        gate = gate.with_sealer(sealer);
    }
    let tenant = crate::backend::tenant(global)?;
    let secret = TalkSecret::load(gate.store(), &tenant).await?;
    let channel = secret.terminal(&tenant, &plan.name, &options.session, &person);
    let place = TurnContext {
        channel: channel.ok_or_else(|| {
            Failure::usage("a session's name has only letters, digits, `-` and `_`, at most 64")
        })?,
        tenant,
        person: person.clone(),
    };
    // A terminal takes cards of any length; `Screen::card` shows them page by page.
    let agent = Agent::new(Conversations::new(gate).with_limit(usize::MAX), plan);
    output.notice("agent", &format!("talking to `{name}`: {}", provider.says));
    let is_terminal = output.is_terminal() && std::io::IsTerminal::is_terminal(&std::io::stdin());
    if is_terminal && !output.is_json {
        output.notice("help", "`/help` tells what else you can type; Ctrl-D ends it");
    }
    let decider = identity::decider(person, &global.group);
    let said = agent
        .session(&place.tenant, &place.channel)
        .await
        .map_err(talk::failed)?;
    let typing = Typing::default();
    let mut lines = Lines::new(is_terminal && !output.is_json, said.messages(), &typing)?;
    let mut talk = Talk::new(agent, place, decider, options.language, typing, output);
    if is_terminal {
        talk = talk.with_keys();
    }
    talk.greet().await;
    loop {
        match next(&mut lines, &mut talk).await? {
            Line::Said { text, .. } if text.trim().is_empty() => talk.show_next_page(),
            Line::Said {
                text,
                is_older_than_card,
            } => match talk.line(&text, is_older_than_card).await {
                talk::Next::Line => {}
                talk::Next::End => return Ok(ending(is_terminal, &talk)),
            },
            Line::Pressed(button) => talk.pressed(button).await,
            Line::Interrupted => return Ok(Exit::Interrupted),
            Line::End => return Ok(ending(is_terminal, &talk)),
        }
    }
}

/// Returns the exit code of the command. A failed turn is an error if lines are piped in, because a script has to learn
/// of it; a person at a terminal has read it.
fn ending(is_terminal: bool, talk: &Talk<'_>) -> Exit {
    match talk.has_failed && !is_terminal {
        true => Exit::Error,
        false => Exit::Done,
    }
}

/// Waits for the next line. If the card is decided elsewhere meanwhile, the conversation continues above the line being
/// typed.
async fn next(lines: &mut Lines, talk: &mut Talk<'_>) -> Result<Line, Failure> {
    let above = lines.above();
    let reading = lines.next();
    tokio::pin!(reading);
    loop {
        tokio::select! {
            biased;
            line = &mut reading => return line,
            () = talk.card_ends() => {}
        }
        talk.type_below(above.clone());
        let sent = resume_while_typing(&mut reading, talk).await;
        talk.type_below(None);
        if let Some(line) = sent {
            return line;
        }
    }
}

/// Continues the conversation while a line is being typed. Returns the line if the person sends it before the turn
/// is over, otherwise `None`.
async fn resume_while_typing(
    mut reading: impl Future<Output = Result<Line, Failure>> + Unpin,
    talk: &mut Talk<'_>,
) -> Option<Result<Line, Failure>> {
    let going = talk.resume();
    tokio::pin!(going);
    let sent = tokio::select! {
        biased;
        line = &mut reading => line,
        () = &mut going => return None,
    };
    Some(match sent {
        Ok(Line::Said { text, .. }) => {
            going.await;
            // A card that this turn opened did not exist yet when the line was sent.
            let is_older_than_card = true;
            Ok(Line::Said {
                text,
                is_older_than_card,
            })
        }
        Ok(Line::Pressed(button)) => {
            going.await;
            Ok(Line::Pressed(button))
        }
        // Quitting does not wait for the turn; what is recorded stays.
        other => other,
    })
}
