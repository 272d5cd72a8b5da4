//! Waits for the decision on a held call, for as long as the client can wait for an answer.
//!
//! Each held call gets one answer, which reports how the call ended or that it is still pending. The end of the wait
//! decides nothing: a call that is approved later still runs, and a client that repeats the call gets its result. A
//! call of a tool with an argument `confirmed` does not wait: its client asks the person, and repeats the call with
//! `confirmed: true`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::approval::{Approval, SharedApproval};
use countersign::gate::{Until, Waited};
use countersign::hash::Hash;
use countersign::id::ApprovalId;
use countersign::state::State;
use countersign::store::StoreError;

use super::answer::Form;
use super::ask::Question;
use super::call::without_round;
use super::one_line::OneLine;
use super::relay::{InFlightCall, Relay};
use super::round::Round;
use super::task::takes_tasks;
use super::upstreams::Origin;
use super::wire;
use crate::output;

/// Maximum time that an elicitation stays open, unless its approval ends sooner.
const LONGEST_QUESTION: Duration = Duration::from_secs(60 * 60);
/// Minimum time to wait for the end of a call after the person at the client has answered its elicitation.
const JUST_DECIDED: Duration = Duration::from_secs(5);
/// Interval of progress notifications to the client.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

impl Relay {
    /// Holds a request open until the call ends or the hold time is over. Returns `None` if the request was cancelled
    /// or the client has disconnected.
    pub(super) async fn hold(
        self: &Arc<Self>,
        in_flight: &InFlightCall,
        definition: Option<Hash>,
        approval: SharedApproval,
    ) -> Option<OneLine> {
        let call = &in_flight.call;
        // Lives until the call is answered or the request is cancelled.
        let request = Arc::new(());
        let origin = Origin {
            server: self.server.clone(),
            definition,
            place: Origin::place_of(&approval),
            params: Some(without_round(&call.params, call.brings_ours())),
            request: Arc::downgrade(&request),
        };
        self.gateway.follow(&approval, origin);
        self.waits_for(&call.id, approval.id);
        announce(&approval, &self.gateway.settings.place_words);
        let is_modern = in_flight.form.is_modern;
        let capabilities = call.says.capabilities.as_deref().unwrap_or_default();
        let wants_task = match is_modern {
            true => takes_tasks(capabilities.as_bytes()) && !approval.is_finished(),
            false => call.wants_task,
        };
        if wants_task {
            return Some(in_flight.form.task(&approval));
        }
        if is_modern && let Round::Answer(answer) = self.round(in_flight, &approval).await {
            return Some(answer);
        }
        let question = match is_modern {
            true => None,
            false => self.question(in_flight, &approval).await,
        };
        let waited = match question {
            Some(question) => self.wait_and_ask(in_flight, &approval, &question).await?,
            None => {
                let limit = match in_flight.asks_first {
                    true => Duration::ZERO,
                    false => self.holds_for(),
                };
                self.wait_finished(in_flight, approval.id, limit).await?
            }
        };
        Some(self.waited(&in_flight.form, waited).await)
    }

    /// Waits for the decision and meanwhile asks the person at the client; the first decision counts. An open
    /// elicitation shows that person why the call waits, so the wait may be longer than usual. Returns `None` if the
    /// request was cancelled or the client has disconnected.
    async fn wait_and_ask(
        &self,
        in_flight: &InFlightCall,
        approval: &SharedApproval,
        question: &Question,
    ) -> Option<Result<Waited, StoreError>> {
        let began = Instant::now();
        tokio::select! {
            biased;
            waited = self.wait_finished(in_flight, approval.id, LONGEST_QUESTION) => return waited,
            () = self.ask(in_flight, approval, question) => {}
        }
        // If the elicitation led to a decision, the call ends soon. If not, only the rest of the usual hold time is
        // left.
        let left = self.holds_for().saturating_sub(began.elapsed()).max(JUST_DECIDED);
        self.wait_finished(in_flight, approval.id, left).await
    }

    async fn wait_finished(
        &self,
        in_flight: &InFlightCall,
        id: ApprovalId,
        limit: Duration,
    ) -> Option<Result<Waited, StoreError>> {
        self.wait(in_flight, id, Until::Finished, limit).await
    }

    /// Waits for an approval and sends progress to the client meanwhile. Returns `None` if the request was cancelled or
    /// the client has disconnected.
    pub(super) async fn wait(
        &self,
        in_flight: &InFlightCall,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Option<Result<Waited, StoreError>> {
        let gateway = &self.gateway;
        let mut waiting = std::pin::pin!(gateway.gate.wait(&gateway.tenant, id, until, limit));
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        let mut count = 0;
        loop {
            tokio::select! {
                biased;
                waited = &mut waiting => return Some(waited),
                () = gateway.store_lost.cancelled() => {
                    let gone = "the gateway's store takes no more writes, and the gateway ends";
                    return Some(Err(StoreError::Stopped(gone.to_owned())));
                }
                () = in_flight.cancelled.cancelled() => return None,
                // The client has disconnected.
                () = in_flight.back.closed() => return None,
                _ = ticks.tick() => {
                    count += 1;
                    let message = format!("waiting for a person to decide ({})", id.short());
                    let progress = in_flight.call.progress.as_ref();
                    // A client without a progress token still gets a keepalive.
                    let sign = progress.map(|token| wire::progress(token, count, &message));
                    let _ = in_flight.back.send(sign.unwrap_or_else(OneLine::sign_of_life)).await;
                }
            }
        }
    }

    /// Returns the answer to the client, from the result of the wait for a held call.
    pub(super) async fn waited(&self, form: &Form, waited: Result<Waited, StoreError>) -> OneLine {
        match waited {
            Ok(Waited::Done(approval)) => {
                // Record this before answering: if the gateway crashes in between, a person is asked again, and the
                // agent never gets an old answer to a new call.
                if let Err(error) = self.gateway.mark_answered(approval.id).await {
                    tracing::warn!(id = %approval.id, "cannot note that the client was told: {error}");
                }
                let large = self.gateway.upstreams.take_large(approval.id);
                self.may_continue(&approval);
                form.finished(&approval, large.as_deref())
            }
            Ok(Waited::TimedOut(approval)) => match approval.state {
                State::Pending => form.pending(&approval),
                _ => form.running(&approval),
            },
            Ok(Waited::NotFound) => form.failure("there is no such approval"),
            // A protocol error, because this is no result of the tool, and repeating the call would not help.
            Err(error @ StoreError::Stopped(_)) => {
                let said = format!("it is not known whether this was decided: {error}");
                wire::error(Some(&form.id), wire::INTERNAL, &said)
            }
            Err(error) => form.failure(&format!(
                "it is not known whether this was decided: {error}. Make the same call again to hear more."
            )),
        }
    }
}

/// Prints the held call to standard error, for readers of the client's log. The digest, which approving requires
/// without a terminal, is not printed here, because the card is not shown.
fn announce(approval: &Approval, place: &str) {
    if approval.state == State::Pending
        && let Some(call) = approval.calls.first()
    {
        let id = approval.id.short();
        output::print_to_stderr(&format!(
            "countersign: held {id} (decide in the inbox, or on a terminal with `countersign approve {id}{place}`; \
             elsewhere look with `countersign show {id} --full{place}` first, then approve with the `--digest` on the \
             card): {}",
            output::foreign::shown(&call.terms.summary)
        ));
    }
}
