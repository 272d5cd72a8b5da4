//! `undo`: proposes to take a call back, as an approval of its own.

use countersign::gate::Submission;
use countersign::id::Agent;

use super::{name, propose};
use crate::cli::{Global, Undo};
use crate::desk::Desk;
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::store::Missing;

/// The agent that asks for an undo is the command line itself.
const AGENT: &str = "command-line";

pub async fn run(global: &Global, options: Undo, output: &mut Output) -> Result<Exit, Failure> {
    let desk = Desk::open(global, Missing::Refuse).await?;
    let requester = desk.person()?;
    let (_, call) = find::call(&desk, &options.call).await?;
    let submission = Submission {
        tenant: desk.tenant.clone(),
        agent: Agent::new(AGENT).map_err(|problem| Failure::error("bad_name", problem.to_string()))?,
        requester,
        on_behalf_of: None,
        channel: name(options.channel.as_deref())?,
        run: None,
        session: None,
        claim: None,
        key: name(options.key.as_deref())?,
        conversation: None,
        calls: Vec::new(),
    };
    let approval = desk.gate.undo(submission, call).await?;
    propose::print_held(&desk, &approval, output).await?;
    Ok(Exit::Done)
}
