//! `approve` and `deny`: a person's decision on a card.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use countersign::call::Arguments;
use countersign::card::WholeCard;
use countersign::decision::{Choice, Refusal, Verdict};
use countersign::gate::Until;
use countersign::hash::Hash;
use countersign::state::{CallState, State};

use super::input;
use super::name;
use super::show::print;
use crate::backend::{Backend, Deciding};
use crate::cli::{self, Approve, Deny, Global};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::output::Output;
use crate::output::card::{Length, card};
use crate::store::{Missing, Watch};
use crate::view::ApprovalView;

/// Minimum number of digits of a digest: as many as cards show.
const FEWEST_DIGITS: usize = 12;
/// Time in which a running service usually starts an approved call.
const START_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time to wait for the result of a call that was started.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

pub async fn approve(global: &Global, options: Approve, output: &mut Output) -> Result<Exit, Failure> {
    // Check the command line before touching the store.
    let edits = read_edits(&options.edit)?;
    let backend = Backend::open_with(global, Missing::Refuse, Watch::Others, None).await?;
    let approval = find::approval(&backend, &options.id).await?;
    let verdict = match options.only.is_empty() && edits.is_empty() {
        true => Verdict::Approve,
        false => Verdict::Each(choices(&approval, &options.only, edits)?),
    };
    let card = match &options.decision.digest {
        Some(digits) => WholeCard::of(approval.id, seen(&approval, digits)?),
        None => show_and_confirm(global, &approval, verdict == Verdict::Approve, output)?,
    };
    decide(
        &backend,
        approval,
        Deciding::on(card, verdict),
        options.decision,
        output,
    )
    .await
}

/// Shows the complete card and asks for confirmation. Without a terminal, `--digest` is required, because an id alone
/// does not prove that the person has seen the card. The digest is printed only with the whole card.
fn show_and_confirm(
    global: &Global,
    approval: &ApprovalView,
    is_plain: bool,
    output: &mut Output,
) -> Result<WholeCard, Failure> {
    let id = approval.id.short();
    if approval.status != State::Pending {
        // The gate refuses the decision and says why, so no question is asked here.
        return Ok(WholeCard::of(approval.id, approval.digest));
    }
    if output.is_json || !output.is_terminal() || !std::io::stdin().is_terminal() {
        let message = format!("approving `{id}` without a terminal needs the digest of its card");
        let place = global.place_words();
        let hint = match output.is_json {
            true => format!(
                "look at it with `countersign show {id} --full{place}`, then add `--digest` with the digest on it"
            ),
            false => {
                output.text(&card(approval, Length::Whole));
                let digest = approval.digest.short();
                match is_plain {
                    true => format!(
                        "if the card above is what you want: `countersign approve {id} --digest {digest}{place}`"
                    ),
                    // The command to repeat cannot be shown in full. A hint without `--only` and `--edit` would approve
                    // the card as it is.
                    false => format!(
                        "if that is what you want, give the same command again with `--digest {digest}`"
                    ),
                }
            }
        };
        return Err(Failure::usage(message).hint(hint));
    }
    output.text(&card(approval, Length::Whole));
    output.text("\n  Approve this? Type `yes`: ");
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::error("no_answer", error.to_string()))?;
    match line.trim() {
        "yes" | "y" => Ok(WholeCard::of(approval.id, approval.digest)),
        _ => Err(Failure::error("not_approved", "nothing was decided")
            .hint(format!("deny it with `countersign deny {id}`"))),
    }
}

pub async fn deny(global: &Global, options: Deny, output: &mut Output) -> Result<Exit, Failure> {
    let backend = Backend::open(global, Missing::Refuse).await?;
    let approval = find::approval(&backend, &options.id).await?;
    let deciding = match &options.decision.digest {
        Some(digits) => Deciding::on(
            WholeCard::of(approval.id, seen(&approval, digits)?),
            Verdict::Deny,
        ),
        None => Deciding::deny(approval.id),
    };
    decide(&backend, approval, deciding, options.decision, output).await
}

async fn decide(
    backend: &Backend,
    approval: ApprovalView,
    mut deciding: Deciding,
    options: cli::Decision,
    output: &mut Output,
) -> Result<Exit, Failure> {
    deciding.comment = options.comment;
    deciding.key = name(options.key.as_deref())?;
    let decided = backend.decide(deciding).await;
    let decided = decided.map_err(|failure| explain(failure, &approval))?;
    print(&wait_for_run(backend, decided, output).await, output)?;
    Ok(Exit::Done)
}

/// Waits a moment for a service to run the calls that were just approved, and returns the approval after that. In
/// JSON mode it does not wait, so that scripts are not delayed; they use `countersign wait --finished`. The decision is
/// on record, so an error here is not reported: the approval is returned as it was.
async fn wait_for_run(backend: &Backend, approval: ApprovalView, output: &mut Output) -> ApprovalView {
    // A gateway or coding agent shows the result itself, and its tools may take long.
    let is_left_to_run = approval.next_released().is_some() && !approval.is_hosted();
    if output.is_json || !is_left_to_run || !backend.has_service().await {
        return approval;
    }
    let id = approval.id;
    if let Ok(Some(finished)) = backend.wait(id, Until::Finished, START_WITHIN).await {
        return finished;
    }
    let current = backend.approval(id).await.ok().flatten().unwrap_or(approval);
    if !current.calls.iter().any(|call| call.state == CallState::Running) {
        return current;
    }
    output.notice(
        "running",
        "approved, and running now; waiting for the result (Ctrl-C ends the wait, not the call)",
    );
    match backend.wait(id, Until::Finished, FINISH_WITHIN).await {
        Ok(Some(finished)) => finished,
        _ => backend.approval(id).await.ok().flatten().unwrap_or(current),
    }
}

/// Adds a hint to some refusals: who may approve, that an edit needs the policy that the call was proposed under, or
/// how to see what an approved call did.
fn explain(failure: Failure, approval: &ApprovalView) -> Failure {
    if failure.code == "bad_edit" && failure.message.contains("does not list the tool") {
        return failure.hint(
            "add `--policy FILE` with the policy that the call was proposed under, or edit it in that service's inbox",
        );
    }
    if failure.code == "already_decided" && approval.status == State::Approved {
        let id = approval.id.short();
        return failure.hint(format!("see what came of it with `countersign show {id}`"));
    }
    if failure.code != "not_allowed" {
        return failure;
    }
    let mut names: Vec<&str> = approval
        .calls
        .iter()
        .flat_map(|call| &call.approvers)
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => failure.hint("its list of approvers is empty, so nobody can approve it; check the policy"),
        false => failure.hint(format!("ask one of its approvers: {}", names.join(", "))),
    }
}

/// Builds one choice per call from `--only` and `--edit`.
fn choices(
    approval: &ApprovalView,
    only: &[u8],
    mut edits: BTreeMap<u8, Arguments>,
) -> Result<Vec<Choice>, Failure> {
    let named = only.iter().chain(edits.keys());
    if let Some(missing) = named.copied().find(|position| approval.call(*position).is_none()) {
        let message = format!("approval `{}` has no call {missing}", approval.id.short());
        let hint = format!("it has {}, counted from 1", approval.calls.len());
        return Err(Failure::usage(message).hint(hint));
    }
    let is_granted = |position: u8| only.is_empty() || only.contains(&position);
    if let Some(edited) = edits.keys().find(|position| !is_granted(**position)) {
        let message = format!("call {edited} is edited but not approved");
        return Err(Failure::usage(message).hint(format!("add {edited} to `--only`, or drop the edit")));
    }
    let choice = |position: u8| match edits.remove(&position) {
        Some(arguments) => Choice::Edit(arguments),
        None if is_granted(position) => Choice::Approve,
        None => Choice::Deny,
    };
    Ok(approval
        .numbered()
        .map(|(position, _)| position)
        .map(choice)
        .collect())
}

/// Parses the values of `--edit`: `N=JSON` or `N=@FILE`.
fn read_edits(edits: &[String]) -> Result<BTreeMap<u8, Arguments>, Failure> {
    let mut read = BTreeMap::new();
    for edit in edits {
        let bad = || {
            Failure::usage(format!("`--edit {edit}` must name a call and its new arguments"))
                .hint("write `--edit 1='{\"to\":\"…\"}'` or `--edit 1=@FILE`")
        };
        let (position, value) = edit.split_once('=').ok_or_else(bad)?;
        let position: u8 = position.trim().parse().map_err(|_| bad())?;
        let bytes = input::argument_bytes(value)?;
        let arguments = Arguments::parse(bytes).map_err(|problem| {
            Failure::error("malformed_arguments", format!("call {position}: {problem}"))
        })?;
        if read.insert(position, arguments).is_some() {
            return Err(
                Failure::usage(format!("call {position} is edited twice")).hint("keep one of the edits")
            );
        }
    }
    Ok(read)
}

/// Returns the digest of the card that the person saw, given as its first digits or in full. Fails if too few digits
/// are given or a prefix does not match.
fn seen(approval: &ApprovalView, digits: &str) -> Result<Hash, Failure> {
    let digits = digits.to_ascii_lowercase();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || digits.len() < FEWEST_DIGITS || digits.len() > 64 {
        return Err(Failure::usage("a digest is 12 to 64 hex digits").hint("see the digest on the card"));
    }
    if approval.digest.to_string().starts_with(&digits) {
        return Ok(approval.digest);
    }
    match Hash::from_hex(&digits) {
        // A complete digest that does not match is passed on: the gate refuses it and records the attempt.
        Some(other) => Ok(other),
        None => Err(Refusal::Stale {
            id: approval.id,
            digest: approval.digest,
        }
        .into()),
    }
}
