//! `watch`: prints events line by line until Ctrl-C.

use countersign::event::EventKind;

use super::{agent_to_look_for, name};
use crate::backend::{Backend, EventFilter, StreamItem};
use crate::cli::{Global, Watch};
use crate::failure::{Exit, Failure};
use crate::output::foreign::foreign;
use crate::output::style::{self, paint};
use crate::output::{Output, history, list};
use crate::store;
use crate::view::FeedEventView;

pub async fn run(global: &Global, options: Watch, output: &mut Output) -> Result<Exit, Failure> {
    options.what.iter().try_for_each(|word| check_kind(word))?;
    let wanted = EventFilter {
        agent: agent_to_look_for(options.agent.as_deref())?,
        channel: name(options.channel.as_deref())?,
        what: options.what,
    };
    let backend = Backend::open_with(global, store::Missing::Create, store::Watch::Others, None).await?;
    let mut following = backend.follow(wanted).await?;
    output.notice("watching", "waiting for events; press Ctrl-C to stop");
    loop {
        let followed = tokio::select! {
            followed = following.next() => followed?,
            _ = tokio::signal::ctrl_c() => {
                return Err(Failure::with(Exit::Interrupted, "interrupted", "interrupted"));
            }
        };
        let line = match followed {
            StreamItem::Happened(happening) if output.is_json => output.json_line(&happening)?,
            StreamItem::Happened(happening) => line(&backend, &happening).await?,
            StreamItem::Lost(reason) => {
                output.notice("lost", &format!("{reason}; trying again"));
                continue;
            }
            StreamItem::Back => {
                output.notice("back", "reconnected to the server; no event was missed");
                continue;
            }
        };
        if !output.try_line(&line) {
            return Ok(Exit::Done);
        }
    }
}

/// Formats an event: `09:41:07  9a8b7c6d  proposed          agent:crm  Create contact Maria Garcia`.
async fn line(backend: &Backend, happening: &FeedEventView) -> Result<String, Failure> {
    let (word, mut detail) = history::describe_event(&happening.event, &happening.by);
    // The description is printed once, with the proposal.
    if word == "proposed"
        && let Some(approval) = backend.approval(happening.approval).await?
    {
        let risk = approval.risk_level;
        let risk = paint(style::risk(risk), &format!("{risk} risk"));
        detail = format!("  {risk}  {}", list::what(&approval).mark());
    }
    let time: String = happening.at.0.to_string().chars().skip(11).take(8).collect();
    let padded = format!("{word:<16}");
    Ok(format!(
        "{time}  {}  {}{detail}  {}",
        paint(style::STRONG, &happening.approval.short()),
        paint(style::event(&word), &padded),
        foreign(&happening.by),
    ))
}

/// Fails for an unknown kind of event, for which the command would wait forever. The kind is checked by parsing an
/// event of this kind, because the deserializer of events knows all kinds.
fn check_kind(word: &str) -> Result<(), Failure> {
    let read = serde_json::from_value::<EventKind>(serde_json::json!({ "what": word }));
    match read.map_err(|error| error.to_string()) {
        Err(problem) if problem.starts_with("unknown variant") => {
            let kinds = problem.split_once("expected ").map(|(_, kinds)| kinds.to_owned());
            Err(Failure::usage(format!("there is no event `{word}`")).hint(kinds.unwrap_or_default()))
        }
        // The kind is known, even if other fields of the event are missing.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_events_are_known_and_misspelt_ones_are_not() {
        for word in ["proposed", "approved", "expired", "undo_failed"] {
            assert!(check_kind(word).is_ok(), "{word}");
        }
        let failure = check_kind("aproved").unwrap_err();
        assert!(failure.hint.is_some_and(|hint| hint.contains("`approved`")));
    }
}
