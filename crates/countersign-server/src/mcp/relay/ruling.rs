//! Handles one tool call: forwards it or submits it to the gate, answers it, and handles its cancellation.

use std::sync::Arc;

use countersign::executor::{Outcome, PermitToken};
use countersign::gate::is_flagged;
use countersign::hash::Hash;
use countersign::id::{Actor, ApprovalId, CallId};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Back, InFlightCall, Next, Relay, Waiting};
use crate::mcp::answer::Form;
use crate::mcp::answer_history::AwaitedAnswer;
use crate::mcp::builtin_tools;
use crate::mcp::call::ToolCall;
use crate::mcp::continuation::Continuation;
use crate::mcp::frame::{Frame, Id, Kind, pick};
use crate::mcp::gateway::{Disposition, ToolCallRequest};
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::server::LATE;
use crate::mcp::settings::OnCancel;
use crate::mcp::wire;
use crate::tool_schema;

impl Relay {
    /// Handles a tool call. If the ruling is immediate, the call keeps its place in the order of messages; otherwise
    /// the ruling is returned to be awaited in the background.
    pub(super) async fn tool_call(self: &Arc<Self>, frame: &Frame, back: &Back) -> Next {
        let call = match ToolCall::read(frame) {
            Ok(call) => call,
            Err(problem) => {
                let problem = format!("the call cannot be read: {problem}");
                let id = frame.part(&frame.id).map(String::from_utf8_lossy);
                let answer = wire::error(id.as_deref(), wire::INVALID_PARAMS, &problem);
                let _ = back.send(answer).await;
                return Next::Done;
            }
        };
        self.learn(&call.says);
        let waiting = Waiting {
            cancelled: CancellationToken::new(),
            approval: None,
            back: back.clone(),
        };
        let in_flight = InFlightCall {
            form: Form {
                id: call.raw_id.clone(),
                is_modern: call.says.is_modern(),
                has_schema: false,
            },
            back: back.clone(),
            cancelled: waiting.cancelled.clone(),
            asks_first: false,
            call,
        };
        let id = in_flight.call.id.clone();
        lock(&self.waiting).insert(id.clone(), waiting);
        let relay = self.clone();
        let mut ruling = Box::pin(async move {
            let passed = relay.rule(in_flight).await;
            lock(&relay.waiting).remove(&id);
            passed
        });
        match futures_util::poll!(ruling.as_mut()) {
            std::task::Poll::Ready(passed) => passed.into(),
            std::task::Poll::Pending => Next::Later(ruling),
        }
    }

    /// Awaits a ruling in the background and sends the message to the server if the call passes.
    pub fn later(self: &Arc<Self>, ruling: BoxFuture<'static, Option<OneLine>>, back: &Back) {
        let (relay, back) = (self.clone(), back.clone());
        self.answers.spawn(async move {
            let Some(passed) = ruling.await else {
                return;
            };
            if relay.server.send(passed).await.is_err() {
                relay.tell_lost(&back).await;
            }
        });
    }

    /// Answers every unanswered request of the client with the error that the server has ended.
    pub(in crate::mcp) async fn tell_lost(&self, back: &Back) {
        for id in self.take_unanswered() {
            let problem = "the server ended before it answered";
            let answer = wire::error(Some(id.as_json()), wire::INTERNAL, problem);
            let _ = back.send(answer).await;
        }
    }

    /// Stores the schema of a tool whose call is held, for the page on which the call may be edited. Without it, the page
    /// offers no choices.
    async fn keep_schema(&self, definition: Hash, schema: &str) {
        let gateway = &self.gateway;
        let kept = tool_schema::keep(gateway.gate.store(), &gateway.tenant, definition, schema);
        if let Err(error) = kept.await {
            tracing::warn!("the schema of a tool could not be stored: {error}");
        }
    }

    /// Submits a call to the gate. Returns the message to forward if the call passes; otherwise answers the client,
    /// unless the request was cancelled, and returns `None`.
    async fn rule(self: &Arc<Self>, mut in_flight: InFlightCall) -> Option<OneLine> {
        if builtin_tools::is_own(&in_flight.call.tool) {
            if let Some(answer) = builtin_tools::call(self, &in_flight).await {
                let _ = in_flight.back.send(answer).await;
            }
            return None;
        }
        let listed = self.server.listed(&in_flight.call.tool).await;
        in_flight.form.has_schema = listed.as_ref().is_some_and(|listed| listed.has_schema);
        in_flight.asks_first = listed.as_ref().is_some_and(|listed| listed.declares_flag)
            && !is_flagged(&in_flight.call.arguments);
        let schema = listed.as_ref().and_then(|listed| listed.input_schema.clone());
        let definition = listed.and_then(|listed| listed.definition);
        let (call, form) = (&in_flight.call, &in_flight.form);
        let request = ToolCallRequest {
            definition,
            // The call runs in the server process that it was proposed for, or not at all.
            session: self.gateway.lease.session(self.server.number_here),
            ..self.request(self.server.qualified(&call.tool), call.arguments.clone())
        };
        let located = match self.gateway.located(request, self.server.folders()).await {
            Ok(located) => located,
            Err(problem) => {
                let _ = in_flight
                    .back
                    .send(form.failure(&format!("nothing was run: {problem}")))
                    .await;
                return None;
            }
        };
        if let Some(wanted) = call.continues()
            && located.is_held(&self.gateway)
        {
            if !self.continuations.take(&wanted) {
                let _ = in_flight.back.send(no_round(form)).await;
                return None;
            }
            if let Some(answer) = self.continue_call(&in_flight, &wanted).await {
                let _ = in_flight.back.send(answer).await;
            }
            return None;
        }
        if call.brings_ours() && !self.is_round_of(call, &located.request).await {
            let _ = in_flight.back.send(no_round(form)).await;
            return None;
        }
        let put = self.gateway.join_or_submit(located).await;
        let answer = match put {
            // The permit is consumed here: these bytes are sent once.
            Ok(Disposition::Pass(permit)) => {
                let started = permit.call().zip(permit.token().cloned());
                if in_flight.cancelled.is_cancelled() {
                    if let Some((call, token)) = started {
                        let outcome = Outcome::NotSent("not sent: the client cancelled it".to_owned());
                        self.finish_passed(call, token, outcome);
                    }
                    return None;
                }
                let call = in_flight.call;
                let mut frame = call.frame;
                if let Some(started) = started {
                    let other = lock(&self.passed).insert(call.id.clone(), started);
                    if let Some((other, token)) = other {
                        let why = "another call came under its id before it was answered";
                        self.finish_passed(other, token, Outcome::Unknown(why.to_owned()));
                    }
                    let (limited, held_back) = frame.until(permit.time_limit());
                    frame = limited;
                    self.answer_when_held_back(held_back, &call.id, form, in_flight.back);
                }
                let name = self.server.qualified(&call.tool);
                let arguments = call.arguments;
                self.seen.ask(&call.id, AwaitedAnswer { name, arguments });
                self.forwards(&call.id);
                return Some(frame);
            }
            Ok(Disposition::Forbidden(reason)) => form.failure(&reason),
            Ok(Disposition::Held(approval)) => {
                if let (Some(definition), Some(schema)) = (definition, schema) {
                    self.keep_schema(definition, &schema).await;
                }
                self.hold(&in_flight, definition, approval).await?
            }
            // Fail closed: the call was not submitted, so it does not run.
            Err(error) => form.failure(&format!("nothing was run: {error}")),
        };
        let _ = in_flight.back.send(answer).await;
        None
    }

    /// Waits in the background until a passed call is sent. If the call is held back because its time limit is over,
    /// records that it was not sent and answers the client.
    fn answer_when_held_back(
        self: &Arc<Self>,
        held_back: oneshot::Receiver<()>,
        id: &Id,
        form: &Form,
        back: Back,
    ) {
        let (relay, id) = (self.clone(), id.clone());
        let answer = form.failure(&format!("nothing was run: {LATE}"));
        self.gateway.tasks.spawn(async move {
            // The sender is dropped with the message once that is sent.
            if held_back.await.is_ok() {
                relay.passed_ended(&id, Outcome::NotSent(format!("not sent to the server: {LATE}")));
                relay.seen.forget(&id);
                relay.forget(Some(&id));
                let _ = back.send(answer).await;
            }
        });
    }

    /// Records the outcome of a passed call from the server's response. Reads are not recorded.
    pub(super) fn passed_answered(&self, id: &Id, frame: &Frame) {
        // Most calls that pass are reads, whose results are not copied.
        let Some((call, token)) = lock(&self.passed).remove(id) else {
            return;
        };
        let outcome = match (frame.part(&frame.result), frame.part(&frame.error)) {
            (Some(result), _) if is_error(result) => Outcome::failed(result),
            (Some(result), _) => Outcome::succeeded(result),
            (None, Some(error)) => Outcome::failed(error),
            (None, None) => Outcome::Unknown("the server answered neither a result nor an error".to_owned()),
        };
        self.finish_passed(call, token, outcome);
    }

    /// Records `outcome` if the request of this id was a passed call other than a read.
    pub(super) fn passed_ended(&self, id: &Id, outcome: Outcome) {
        if let Some((call, token)) = lock(&self.passed).remove(id) {
            self.finish_passed(call, token, outcome);
        }
    }

    /// Records an outcome in the background, with retries. If that fails, the call's outcome becomes unknown at its
    /// time limit.
    fn finish_passed(&self, call: CallId, token: PermitToken, outcome: Outcome) {
        let gateway = self.gateway.clone();
        self.gateway.tasks.spawn(async move {
            let finished = gateway
                .gate
                .finish_with_retry(&gateway.tenant, call, &token, outcome)
                .await;
            let problem = match finished {
                Ok(Ok(_)) => return,
                Ok(Err(refusal)) => refusal.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(%call, "how it ended could not be recorded yet: {problem}");
        });
    }

    /// Continues an approved call that the server answered with a question, and returns the server's answer; `None` if
    /// the client cancelled. The request has an id of the gateway, so that no response to another request can be taken
    /// for this one's.
    async fn continue_call(&self, in_flight: &InFlightCall, rest: &Continuation) -> Option<OneLine> {
        let (call, form) = (&in_flight.call, &in_flight.form);
        let params = String::from_utf8_lossy(&call.params);
        let answered = tokio::select! {
            answered = self.server.request("tools/call", &params) => answered,
            () = in_flight.cancelled.cancelled() => return None,
        };
        Some(match answered {
            Ok(frame) => match frame.part(&frame.result) {
                Some(result) => {
                    self.continuations.remember(result, &rest.tool, &rest.arguments);
                    let (name, arguments) = (self.server.qualified(&rest.tool), rest.arguments.clone());
                    self.seen.saw(AwaitedAnswer { name, arguments }, result);
                    wire::raw_result(&form.id, result)
                }
                None => wire::raw_error(&form.id, frame.part(&frame.error).unwrap_or(b"{}")),
            },
            Err(lost) => wire::error(Some(&form.id), wire::INTERNAL, &lost.why()),
        })
    }

    /// Sends a server's message that belongs to no request to a client that waits for a held call. If there is none, a
    /// request is answered with an error, so that the server does not wait forever.
    pub(in crate::mcp) async fn while_running(&self, message: OneLine) {
        let waiting: Vec<Back> = lock(&self.waiting)
            .values()
            .filter(|waiting| waiting.approval.is_some())
            .map(|waiting| waiting.back.clone())
            .collect();
        for back in waiting {
            if back.send(message.clone()).await.is_ok() {
                return;
            }
        }
        let asked = Frame::again(message).ok();
        let id = asked.as_ref().and_then(|asked| match &asked.kind {
            Kind::Request { id, .. } => Some(id.as_json()),
            _ => None,
        });
        if let Some(id) = id {
            let nobody = "the client that this is about does not wait any more, so nobody can be asked";
            let _ = self
                .server
                .send(wire::error(Some(id), wire::INTERNAL, nobody))
                .await;
        }
    }

    /// Handles a cancellation. Returns true if the cancelled request is still in the gateway, so that the server must
    /// not see the cancellation. If the settings say so, the approval that the request waits for is withdrawn.
    pub(super) fn cancel(self: &Arc<Self>, frame: &Frame) -> bool {
        let params = frame.part(&frame.params).unwrap_or_default();
        let Ok([Some(request)]) = pick(params, ["requestId"]) else {
            return false;
        };
        let Some(id) = Id::read(request) else {
            return false;
        };
        let Some(waiting) = lock(&self.waiting).remove(&id) else {
            self.seen.forget(&id);
            self.forget(Some(&id));
            return false;
        };
        waiting.cancelled.cancel();
        if let (OnCancel::Withdraw, Some(approval)) = (self.gateway.settings.on_cancel, waiting.approval) {
            self.withdraw(approval);
        }
        true
    }

    /// Records which approval a call waits for, so that cancelling the call can withdraw the approval.
    pub(in crate::mcp) fn waits_for(&self, id: &Id, approval: ApprovalId) {
        if let Some(waiting) = lock(&self.waiting).get_mut(id) {
            waiting.approval = Some(approval);
        }
    }

    fn withdraw(self: &Arc<Self>, approval: ApprovalId) {
        let relay = self.clone();
        self.gateway.tasks.spawn(async move {
            let (gateway, by) = (&relay.gateway, Actor::Agent(relay.agent()));
            let reason = Some("the client cancelled the call".to_owned());
            // A decision made in the meantime stands.
            let withdrawn = gateway.gate.withdraw(&gateway.tenant, approval, by, reason).await;
            if let Err(error) = withdrawn {
                tracing::warn!(id = %approval, "could not be withdrawn: {error}");
            }
        });
    }
}

/// Returns true if a tool's result says that the tool failed.
fn is_error(result: &[u8]) -> bool {
    pick(result, ["isError"]).is_ok_and(|[said]| said.is_some_and(|said| said.get() == "true"))
}

/// Returns the error for a call with a `requestState` that was not issued for this call.
fn no_round(form: &Form) -> OneLine {
    let problem = "this `requestState` was not given out for this call, or was used before";
    wire::error(Some(&form.id), wire::INVALID_PARAMS, problem)
}
