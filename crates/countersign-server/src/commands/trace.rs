//! `trace`: shows where the values of a call came from, without proposing it.

use std::io::{BufRead as _, BufWriter, Write as _};
use std::time::Instant;

use countersign::json::{self, Limits};
use countersign::provenance::{Conversation, Message, Provenance, VouchedConversation, trace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::input;
use crate::cli::{Global, Trace};
use crate::failure::{Exit, Failure};
use crate::output::{Output, origin};
use crate::{policy, view};

pub fn run(global: &Global, options: Trace, output: &mut Output) -> Result<Exit, Failure> {
    if options.jsonl {
        return lines(options.timing, output);
    }
    let (Some(tool), Some(file)) = (options.tool.as_deref(), options.conversation.as_deref()) else {
        return Err(Failure::usage("there is nothing to trace").hint("name a tool and a conversation"));
    };
    let call = input::single(tool, options.arguments.as_deref())?;
    let conversation = input::conversation(file)?;
    let policy = policy::look_at(global.policy.as_deref(), output)?.policy;
    let bytes = call.arguments.as_bytes();
    let provenance = policy.trace(tool, bytes, &VouchedConversation::recorded_by_host(conversation));
    match output.is_json {
        true => output.json(&view::origin::view(&provenance))?,
        false => {
            let rows = policy.table(tool, bytes, &[]);
            output.text(&origin::traced(tool, &rows, &view::origin::view(&provenance)));
        }
    }
    Ok(Exit::Done)
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(default)]
    user: Vec<String>,
    #[serde(default)]
    tools: Vec<ToolResult>,
    #[serde(borrow)]
    args: &'a RawValue,
}

#[derive(Deserialize)]
struct ToolResult {
    name: Option<String>,
    text: String,
}

#[derive(Serialize)]
struct Traced<'a> {
    id: &'a RawValue,
    leaves: serde_json::Map<String, serde_json::Value>,
}

/// Traces calls from standard input, one JSON object per line. With `timing`, prints durations to standard error.
fn lines(timing: bool, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::error("io", format!("cannot go on: {error}"));
    let mut answers = BufWriter::new(std::io::stdout().lock());
    let mut took = Vec::new();
    for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        let asked: Line<'_> = serde_json::from_str(&line).map_err(|error| {
            Failure::error("malformed_line", format!("line {number}: {error}")).hint(
                "each line is `{\"id\",\"user\":[…],\"tools\":[{\"name\",\"text\"}],\"tool\",\"args\"}`",
            )
        })?;
        let (id, arguments) = (asked.id, asked.args.get().as_bytes());
        json::check(arguments, Limits::ARGUMENTS)
            .map_err(|problem| Failure::error("malformed_arguments", format!("line {number}: {problem}")))?;
        let people = asked
            .user
            .into_iter()
            .map(|text| Message::Person { text, at: None });
        let tools = asked.tools.into_iter().map(|tool| Message::Tool {
            // Data sets written in Python say `None` for a missing name.
            name: tool.name.unwrap_or_else(|| "None".to_owned()),
            text: tool.text,
        });
        let conversation = Conversation {
            messages: people.chain(tools).collect(),
        };
        let begun = Instant::now();
        let provenance = trace(&conversation, arguments, &|_| false);
        took.push(begun.elapsed());
        let answer = Traced {
            id,
            leaves: sources(&provenance),
        };
        serde_json::to_writer(&mut answers, &answer).map_err(|error| failed(error.into()))?;
        answers.write_all(b"\n").map_err(failed)?;
    }
    answers.flush().map_err(failed)?;
    if timing {
        output.error_line(&origin::timing(&mut took));
    }
    Ok(Exit::Done)
}

fn sources(provenance: &Provenance) -> serde_json::Map<String, serde_json::Value> {
    let leaves = provenance.leaves.iter();
    leaves
        .map(|leaf| (leaf.pointer.clone(), leaf.mark.source().into()))
        .collect()
}
