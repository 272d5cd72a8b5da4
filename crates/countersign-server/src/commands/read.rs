//! `read`: interprets a reply and shows which words decided. Uses no store.

use std::borrow::Cow;
use std::io::{BufRead, Write};

use countersign::reply::{Bare, Interpreted, Offer, Reading, interpret};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cli::Read;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::output::foreign::foreign;
use crate::output::style::{self, paint};

/// Longest line of a batch, in bytes; more than the largest prompt.
const LONGEST_LINE: usize = 1024 * 1024;

/// Note printed below a reading, so that nobody mistakes the reading for a decision.
const NOTHING_DECIDED: &str = "nothing was decided; a real card is read more strictly";

pub fn run(options: &Read, output: &mut Output) -> Result<Exit, Failure> {
    if options.jsonl {
        let (input, result) = (std::io::stdin().lock(), std::io::stdout().lock());
        return batch(options, input, std::io::BufWriter::with_capacity(1 << 16, result));
    }
    let text = options.text.as_deref().unwrap_or_default();
    let read = interpret(&Offer::from(options.prompt()), text, options.language.as_deref());
    match output.is_json {
        true => output.json(&One {
            reading: read.reading.as_str(),
            decision: decision(read.reading),
            why: read.why.to_string(),
        })?,
        false => {
            output.line(&sentence(&read));
            output.line(&paint(style::FAINT, NOTHING_DECIDED));
        }
    }
    Ok(Exit::Done)
}

impl Read {
    /// Returns the prompt as plain text, in which the policy's words are not distinguished from the agent's.
    fn prompt(&self) -> Bare<'_> {
        Bare {
            text: self.prompt.as_deref().unwrap_or_default(),
            yes: self.yes.as_deref(),
            no: self.no.as_deref(),
            needs_yes: self.destructive,
            numbered: 0,
        }
    }
}

#[derive(Serialize)]
struct One {
    reading: &'static str,
    decision: &'static str,
    why: String,
}

fn sentence(read: &Interpreted) -> String {
    format!("{}: {}", read.reading.as_str(), foreign(&read.why.to_string()))
}

/// Returns the word for the effect that a reply with this reading would have in a chat, such as `approve`.
fn decision(reading: Reading) -> &'static str {
    match reading {
        Reading::Yes => "approve",
        Reading::No => "decline",
        Reading::Part(_) => "part",
        Reading::Other => "other",
    }
}

/// Line of a batch: one reply. Other fields are ignored, so that labelled data sets can be used unchanged.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    lang: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reply: Cow<'a, str>,
}

fn batch(options: &Read, mut input: impl BufRead, mut result: impl Write) -> Result<Exit, Failure> {
    let mut line = Vec::new();
    let mut why = String::new();
    for number in 1u64.. {
        line.clear();
        let mut limited = std::io::Read::take(&mut input, LONGEST_LINE as u64);
        let read = limited.read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let row: Line<'_> = serde_json::from_slice(&line).map_err(|error| {
            Failure::error("malformed_line", format!("line {number}: {error}"))
                .hint("each line is `{\"id\":…, \"lang\":\"en\", \"prompt\":\"…\", \"reply\":\"…\"}`")
        })?;
        let mut bare = options.prompt();
        if let Some(prompt) = &row.prompt {
            bare.text = prompt;
        }
        let language = row.lang.as_deref().or(options.language.as_deref());
        let read = interpret(&Offer::from(bare), &row.reply, language);
        why.clear();
        // Writing to a string never fails.
        let _ = std::fmt::Write::write_fmt(&mut why, format_args!("{}", read.why));
        write_row(&mut result, row.id, decision(read.reading), &why).map_err(unwritable)?;
    }
    result.flush().map_err(unwritable)?;
    Ok(Exit::Done)
}

fn write_row(result: &mut impl Write, id: &RawValue, decision: &str, why: &str) -> std::io::Result<()> {
    result.write_all(b"{\"id\":")?;
    result.write_all(id.get().as_bytes())?;
    result.write_all(b",\"decision\":\"")?;
    result.write_all(decision.as_bytes())?;
    result.write_all(b"\",\"why\":")?;
    serde_json::to_writer(&mut *result, why)?;
    result.write_all(b"}\n")
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::error("unreadable_input", format!("cannot read standard input: {error}"))
}

fn unwritable(error: std::io::Error) -> Failure {
    Failure::error("output", format!("cannot write the answers: {error}"))
}
