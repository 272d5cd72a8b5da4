//! `show`: prints the card, the history, or the exact argument bytes.

use countersign::display::escape;
use countersign::id::CallId;

use crate::backend::Backend;
use crate::cli::{Global, Show};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::card::{self, Length};
use crate::output::foreign::Foreign;
use crate::output::{Output, history};
use crate::store::Missing;
use crate::view::ApprovalView;

pub async fn run(global: &Global, options: Show, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?;
    let mut approval = find::approval(&backend, &options.id).await?;
    if let Some(position) = options.raw {
        let secrets = match options.reveal_secrets {
            true => Secrets::Revealed,
            false => Secrets::Kept,
        };
        return raw(&backend, &approval, position, secrets, output).await;
    }
    if options.events {
        approval = backend.history(approval.id).await?.unwrap_or(approval);
    }
    if output.is_json {
        output.json(&approval)?;
        return Ok(Exit::Done);
    }
    let length = match options.full {
        true => Length::Whole,
        false => Length::Short,
    };
    let mut text = card::card(&approval, length);
    text.push_str(&card::what_now(&approval, length));
    text.extend(approval.events.as_deref().map(history::table));
    output.text(&text);
    Ok(Exit::Done)
}

/// Prints the outcome of an approval after a command that changed it.
pub fn print(approval: &ApprovalView, output: &mut Output) -> Result<(), Failure> {
    match output.is_json {
        true => output.json(approval),
        false => {
            output.text(&card::outcome(approval));
            Ok(())
        }
    }
}

/// Treatment of arguments that contain a secret: not written, or written in full.
#[derive(Clone, Copy, PartialEq)]
enum Secrets {
    Kept,
    Revealed,
}

async fn raw(
    backend: &Backend,
    approval: &ApprovalView,
    position: u8,
    secrets: Secrets,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let is_hidden = approval.call(position).is_some_and(|call| call.hidden);
    if is_hidden && secrets == Secrets::Kept {
        let message = "some arguments are secret, so the exact bytes are not printed";
        return Err(Failure::error("secret", message).hint(
            "look at the others with `countersign show`; at the store itself `--reveal-secrets` writes them all",
        ));
    }
    let call = CallId {
        approval: approval.id,
        position,
    };
    let Some(bytes) = backend.argument_bytes(call).await? else {
        let message = format!("approval `{}` has no call {position}", approval.id.short());
        let hint = format!("it has {}, counted from 1", approval.calls.len());
        return Err(Failure::error("not_found", message).hint(hint));
    };
    let text = String::from_utf8_lossy(&bytes);
    let is_harmless = text.lines().all(|line| {
        escape(line) // RAW: only looked at
            .replace("\\u{20×", "")
            .find("\\u{")
            .is_none()
    });
    if output.is_terminal() && !is_harmless {
        let message = "the exact bytes contain terminal control characters";
        return Err(Failure::error("unsafe_bytes", message)
            .hint("write them to a file with `> FILE`, or look at them with `--full`"));
    }
    if output.is_terminal() {
        // On a terminal the bytes are marked as untrusted text. The exact bytes go only to a pipe or a file.
        output.line(&Foreign::lines(text.trim_end_matches('\n')).mark());
        return Ok(Exit::Done);
    }
    output.raw(&bytes)?;
    Ok(Exit::Done)
}
