//! Reads calls and conversations from the command line and from files, byte for byte.

use std::io::Read as _;
use std::path::Path;

use countersign::approval::MOST_CALLS;
use countersign::call::Arguments;
use countersign::id::ToolName;
use countersign::json::Limits;
use countersign::provenance::Conversation;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;

/// Largest batch file, in bytes: room for the maximum number of calls with the largest arguments.
const LARGEST_BATCH: usize = MOST_CALLS * (Limits::ARGUMENTS.bytes + 1024);

/// Largest conversation file, in bytes.
const LARGEST_CONVERSATION: usize = 16 * 1024 * 1024;

/// A call to propose: the tool's name and the exact bytes of the arguments.
pub struct Proposed {
    pub tool: ToolName,
    /// Arguments, validated.
    pub arguments: Arguments,
}

/// Parses one call from the command line. Without `arguments`, the call has an empty object as its arguments.
pub fn single(tool: &str, arguments: Option<&str>) -> Result<Proposed, Failure> {
    let bytes = argument_bytes(arguments.unwrap_or("{}"))?;
    checked(tool, bytes, "")
}

/// Reads a batch with one call per line. Empty lines are skipped.
pub fn batch(file: &Path) -> Result<Vec<Proposed>, Failure> {
    let bytes = match file == Path::new("-") {
        true => read_stdin(LARGEST_BATCH)?,
        false => read_file(file, LARGEST_BATCH)?,
    };
    let mut calls = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let place = format!("{}:{number}: ", file.display());
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| {
            Failure::error("malformed_batch", format!("{place}{error}"))
                .hint("each line is `{\"tool\":\"…\", \"arguments\":{…}}`")
        })?;
        // INVARIANT: the bytes of `arguments` are passed on exactly as they are in the file.
        let arguments = line.arguments.map_or("{}", RawValue::get);
        calls.push(checked(&line.tool, arguments.as_bytes().to_vec(), &place)?);
    }
    if calls.is_empty() || calls.len() > MOST_CALLS {
        let message = format!(
            "a batch has 1 to {MOST_CALLS} calls, this one has {}",
            calls.len()
        );
        return Err(Failure::error("call_count", message).hint("propose them in several batches"));
    }
    Ok(calls)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    tool: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Reads a conversation file.
pub fn conversation(file: &Path) -> Result<Conversation, Failure> {
    // One byte more than allowed, to detect a file that is too large.
    let bytes = read_file(file, LARGEST_CONVERSATION + 1)?;
    let bad = |message: String| {
        Failure::error("bad_conversation", format!("{}: {message}", file.display())).hint(
            "write `{\"messages\":[{\"role\":\"user\",\"text\":\"…\"}]}`; see `countersign trace --help`",
        )
    };
    if bytes.len() > LARGEST_CONVERSATION {
        return Err(bad(format!("larger than {LARGEST_CONVERSATION} bytes")));
    }
    serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
}

/// Returns the bytes for an argument of the form `JSON`, `@FILE` or `-` (standard input).
pub fn argument_bytes(text: &str) -> Result<Vec<u8>, Failure> {
    // One byte more than allowed, so that oversized input is refused as such.
    let limit = Limits::ARGUMENTS.bytes + 1;
    match text.strip_prefix('@') {
        Some(file) => read_file(Path::new(file), limit),
        None if text == "-" => read_stdin(limit),
        None => Ok(text.as_bytes().to_vec()),
    }
}

fn checked(tool: &str, bytes: Vec<u8>, place: &str) -> Result<Proposed, Failure> {
    let tool = ToolName::new(tool)
        .map_err(|problem| Failure::error("bad_tool_name", format!("{place}{problem}")))?;
    let arguments = Arguments::parse(bytes)
        .map_err(|problem| Failure::error("malformed_arguments", format!("{place}{problem}")))?;
    Ok(Proposed { tool, arguments })
}

fn read_file(file: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read `{}`: {error}", file.display());
        Failure::error("unreadable_file", message).hint("check the path")
    };
    let opened = std::fs::File::open(file).map_err(failed)?;
    let mut bytes = Vec::new();
    opened
        .take(limit as u64)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

fn read_stdin(limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limit as u64).read_to_end(&mut bytes);
    read.map_err(|error| Failure::error("unreadable_input", format!("cannot read standard input: {error}")))?;
    Ok(bytes)
}
