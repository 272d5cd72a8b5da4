//! `show`: the card, the history, or the exact bytes.

use countersign::approval::SharedApproval;
use countersign::display::escape;
use countersign::state::State;

use crate::cli::{Global, Show};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::card::{self, Drawing};
use crate::store::Missing;
use crate::{find, view};

pub async fn run(global: &Global, options: Show, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let approval = find::approval(&desk, &options.id).await?;
    if let Some(position) = options.raw {
        return raw(&approval, position, output);
    }
    let events = match options.events {
        true => Some(desk.store().events(&desk.tenant, approval.id).await?),
        false => None,
    };
    let now = desk.store().now().await?;
    let policy = desk.gate.policy();
    if output.is_json {
        let view = view::approval(&approval, policy, now);
        let view = match &events {
            Some(events) => view.with_events(events),
            None => view,
        };
        output.json(&view)?;
        return Ok(Exit::Done);
    }
    let full = options.full;
    // Once it is decided there is nothing left to look at twice.
    let concerns = match approval.state {
        State::Pending => desk.gate.concerns(&approval).await?,
        _ => Vec::new(),
    };
    let drawing = Drawing {
        policy,
        now,
        full,
        concerns: &concerns,
    };
    let mut text = card::card(&approval, drawing);
    text.extend(events.as_deref().map(card::history));
    output.text(&text);
    Ok(Exit::Done)
}

/// What became of an approval, after a command that changed it.
pub async fn print(desk: &Desk, approval: &SharedApproval, output: &mut Output) -> Result<(), Failure> {
    let now = desk.store().now().await?;
    let policy = desk.gate.policy();
    match output.is_json {
        true => output.json(&view::approval(approval, policy, now)),
        false => {
            output.text(&card::outcome(approval, now));
            Ok(())
        }
    }
}

fn raw(approval: &SharedApproval, position: u8, output: &mut Output) -> Result<Exit, Failure> {
    let Some(call) = approval.call(position) else {
        let message = format!("approval `{}` has no call {position}", approval.id.short());
        let hint = format!("it has {}, counted from 1", approval.calls.len());
        return Err(Failure::error("not_found", message).hint(hint));
    };
    let bytes = call.arguments.as_bytes();
    let text = String::from_utf8_lossy(bytes);
    let is_harmless = text
        .lines()
        .all(|line| escape(line).replace("\\u{20×", "").find("\\u{").is_none());
    if output.is_terminal() && !is_harmless {
        let message = "the exact bytes hold characters that would act on this terminal";
        return Err(Failure::error("unsafe_bytes", message)
            .hint("write them to a file with `> FILE`, or look at them with `--full`"));
    }
    output.raw(bytes)?;
    Ok(Exit::Done)
}
