//! `countersign chat`: a person talks to an agent on a terminal, or through a pipe.
//!
//! Enters: lines. Leaves: what the agent says, behind a bar of its own, and cards. The store, the gate and the policy
//! are those of every other command, so a card can also be decided elsewhere.

mod event;
mod line;
mod provider;
mod screen;
mod setup;
mod sight;
mod talk;
mod terminal;
mod typing;

use countersign::conversation::Conversations;
use countersign::gate::Gate;
use countersign::id::{self, BadName};
use countersign_agent::agent::{Agent, Place};

use crate::agents::TalkSecret;
use crate::cli::{Chat, Global};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{Missing, Watch};
use crate::{identity, keys, store};
use line::{Line, Lines};
use setup::Setup;
use talk::Talk;
use typing::Typing;

/// Talks until the person has had enough.
pub async fn run(global: &Global, options: Chat, output: &mut Output) -> Result<Exit, Failure> {
    if global.server.is_some() {
        return Err(Failure::usage("`chat` works at a store, not at a server")
            .hint("talk to a served agent over `POST /v1/agents/NAME/messages`"));
    }
    if options.session.is_empty() {
        return Err(Failure::usage("a session's name must not be empty"));
    }
    let setup = Setup::read(global, &options)?;
    let provider = provider::choose(&options, setup.file.has_script())?;
    let mut plan = setup.file.plan(&provider.provider).map_err(setup::bad_agent)?;
    let bad_name = |problem: BadName| Failure::usage(problem.to_string());
    // Not the agent that a token of the same name is: what is said here is between this person and this program.
    let name = plan.name.to_string();
    plan.name = id::Agent::served(&name).map_err(bad_name)?;
    let person = identity::person(global.name.as_deref())?;
    let sealer = keys::sealer(global.seal_key_file.as_deref())?;
    let store = store::open(global.store(), Missing::Create, Watch::Others).await?;
    let mut gate = Gate::new(store, setup.policy).with_executor(setup.executor);
    if let Some(sealer) = sealer {
        gate = gate.with_sealer(sealer);
    }
    let tenant = crate::desk::tenant(global)?;
    let secret = TalkSecret::load(gate.store(), &tenant).await?;
    let channel = secret.terminal(&tenant, &plan.name, &options.session, &person);
    let place = Place {
        channel: channel.ok_or_else(|| {
            Failure::usage("a session's name has only letters, digits, `-` and `_`, at most 64")
        })?,
        tenant,
        person: person.clone(),
    };
    // A terminal takes cards of any length, and `Screen::card` shows all of them.
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
    talk.greet().await;
    loop {
        match next(&mut lines, &mut talk).await? {
            Line::Said { text, .. } if text.trim().is_empty() => talk.more(),
            Line::Said {
                text,
                is_older_than_card,
            } => match talk.line(&text, is_older_than_card).await {
                talk::Next::Line => {}
                talk::Next::End => return Ok(Exit::Done),
            },
            Line::Pressed(button) => talk.pressed(button).await,
            Line::Interrupted => return Ok(Exit::Interrupted),
            Line::End => return Ok(Exit::Done),
        }
    }
}

/// The next line. Should the card be decided elsewhere meanwhile, that is told above what is being typed.
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
        let sent = go_on(&mut reading, talk).await;
        talk.type_below(None);
        if let Some(line) = sent {
            return line;
        }
    }
}

/// Lets the talk go on while a line is being typed. Gives the line, if it was done before.
async fn go_on(
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
            // Whatever card came of it was not there when this was sent.
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
        // Who leaves does not wait for it; what is on record stays.
        other => other,
    })
}
