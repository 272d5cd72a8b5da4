//! Conversion between the library's types and the API's.

use std::time::Duration;

use countersign::call::Arguments;
use countersign::decision::Choice;
use countersign::executor::Outcome;
use serde_json::value::RawValue;

use super::ProposedCall;
use crate::exec::Job;
use crate::failure::Failure;
use crate::view::{WorkingFolderView, unhex};
use crate::wire::{DecideCall, Finish, PermitView, SubmitCall};

/// Time limit for the command that runs a passed call.
const PASSED_WITHIN: Duration = Duration::from_secs(60);

/// Converts arguments to raw JSON for a request body.
///
/// INVARIANT: the bytes of the arguments are unchanged, except that whitespace around them is dropped.
fn raw(arguments: &Arguments) -> Result<Box<RawValue>, Failure> {
    let bad = || Failure::error("malformed_arguments", "the arguments are not JSON");
    let text = std::str::from_utf8(arguments.as_bytes()).map_err(|_| bad())?;
    RawValue::from_string(text.to_owned()).map_err(|_| bad())
}

/// Converts a proposed call to its form in the API.
pub fn submitted(call: ProposedCall) -> Result<SubmitCall, Failure> {
    Ok(SubmitCall {
        tool: call.tool.to_string(),
        arguments: Some(raw(&call.arguments)?),
        arguments_text: None,
        definition: call.definition.map(|hash| hash.to_string()),
        secret: call
            .secret
            .map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned()),
        working_folder: call.working_folder.as_deref().map(WorkingFolderView::from),
    })
}

/// Converts the choice on one call to the API's form.
pub fn chosen(choice: Choice) -> Result<DecideCall, Failure> {
    Ok(match choice {
        Choice::Approve => DecideCall {
            approved: true,
            arguments: None,
        },
        Choice::Deny => DecideCall {
            approved: false,
            arguments: None,
        },
        Choice::Edit(arguments) => DecideCall {
            approved: true,
            arguments: Some(raw(&arguments)?),
        },
    })
}

/// Makes the job that runs a passed call with the local command. `call` is the call's id; `None` for a read.
pub fn passed(tool: &str, arguments: &Arguments, call: Option<String>) -> Job {
    Job {
        tool: tool.to_owned(),
        call,
        arguments: arguments.as_bytes().to_vec(),
        secret: None,
        timeout: PASSED_WITHIN,
    }
}

/// Makes the job that runs a released call with the local command. Fails if the arguments in the server's permit cannot
/// be decoded.
pub fn job(permit: PermitView) -> Result<Job, Failure> {
    let arguments = unhex(&permit.arguments_hex).ok_or_else(|| {
        Failure::error(
            "not_a_server",
            "the server's permit cannot be read; the call was not run",
        )
        .hint("it counts as started; check it with `countersign show`")
    })?;
    Ok(Job {
        tool: permit.tool,
        call: Some(permit.id),
        arguments,
        secret: permit
            .secret
            .map(|secret| countersign::seal::Secret::new(secret.into_bytes())),
        timeout: Duration::from_millis(permit.timeout_ms),
    })
}

/// Makes the request body that reports an outcome.
pub fn finish(permit: String, outcome: Outcome) -> Finish {
    let (word, result) = match &outcome {
        Outcome::Succeeded(result) => ("succeeded", crate::view::result(result)),
        Outcome::Failed(reason) => ("failed", crate::view::result(reason)),
        Outcome::NotSent(reason) => ("not_sent", crate::view::result(reason.as_bytes())),
        Outcome::Unknown(reason) => ("unknown", crate::view::result(reason.as_bytes())),
    };
    Finish {
        permit,
        outcome: word.to_owned(),
        result,
        result_text: None,
    }
}
