//! One tool call on its way: to the server at once, or through the gate to its answer; and what cancelling it does.

use std::sync::Arc;

use countersign::executor::{Outcome, PermitToken};
use countersign::id::{Actor, ApprovalId, CallId};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Back, Next, Relay, UnderWay, Waiting, open};
use crate::mcp::answer::Form;
use crate::mcp::call::ToolCall;
use crate::mcp::continuation::Continuation;
use crate::mcp::frame::{Frame, Id, Kind, pick};
use crate::mcp::gateway::{Put, Wish};
use crate::mcp::one_line::OneLine;
use crate::mcp::own;
use crate::mcp::seen::Asked;
use crate::mcp::server::Lost;
use crate::mcp::settings::OnCancel;
use crate::mcp::wire;

impl Relay {
    /// A tool call: what passes goes on at once and in order; what takes longer goes its own way.
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
        let under_way = UnderWay {
            form: Form {
                id: call.raw_id.clone(),
                is_modern: call.says.is_modern(),
                has_schema: false,
            },
            back: back.clone(),
            cancelled: waiting.cancelled.clone(),
            call,
        };
        let id = under_way.call.id.clone();
        open(&self.waiting).insert(id.clone(), waiting);
        let relay = self.clone();
        let mut ruling = Box::pin(async move {
            let passed = relay.rule(under_way).await;
            open(&relay.waiting).remove(&id);
            passed
        });
        match futures_util::poll!(ruling.as_mut()) {
            std::task::Poll::Ready(passed) => passed.into(),
            std::task::Poll::Pending => Next::Later(ruling),
        }
    }

    /// Finds out in the background what is to be done with a message, and does it.
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

    /// Tells the client that the server has ended and will not answer its requests.
    pub(in crate::mcp) async fn tell_lost(&self, back: &Back) {
        for id in self.take_unanswered() {
            let problem = "the server ended before it answered";
            let answer = wire::error(Some(id.as_json()), wire::INTERNAL, problem);
            let _ = back.send(answer).await;
        }
    }

    /// Puts a call to the gate. Gives the bytes to send on when it passes; else it has been answered, unless nobody
    /// wants an answer any more.
    async fn rule(self: &Arc<Self>, mut under_way: UnderWay) -> Option<OneLine> {
        if own::is_own(&under_way.call.tool) {
            if let Some(answer) = own::call(self, &under_way).await {
                let _ = under_way.back.send(answer).await;
            }
            return None;
        }
        let listed = self.server.listed(&under_way.call.tool).await;
        under_way.form.has_schema = listed.as_ref().is_some_and(|listed| listed.has_schema);
        let definition = listed.and_then(|listed| listed.definition);
        let (call, form) = (&under_way.call, &under_way.form);
        let wish = Wish {
            definition,
            // The process that the call is for: it runs there, or not at all.
            session: self.gateway.lease.session(self.server.number_here),
            ..self.wish(self.server.qualified(&call.tool), call.arguments.clone())
        };
        if let Some(wanted) = call.continues()
            && self.gateway.holds(&wish)
        {
            if !self.continuations.take(&wanted) {
                let _ = under_way.back.send(no_round(form)).await;
                return None;
            }
            if let Some(answer) = self.go_on(&under_way, &wanted).await {
                let _ = under_way.back.send(answer).await;
            }
            return None;
        }
        if call.brings_ours() && !self.is_round_of(call, &wish).await {
            let _ = under_way.back.send(no_round(form)).await;
            return None;
        }
        let put = self.gateway.put(wish).await;
        let answer = match put {
            // The permit ends here: these bytes go out once.
            Ok(Put::Pass(permit)) => {
                let started = permit.call().zip(permit.token().cloned());
                if under_way.cancelled.is_cancelled() {
                    if let Some((call, token)) = started {
                        let outcome = Outcome::failed("not sent: the client cancelled it");
                        self.finish_passed(call, token, outcome);
                    }
                    return None;
                }
                let call = under_way.call;
                if let Some(started) = started {
                    open(&self.passed).insert(call.id.clone(), started);
                }
                let name = self.server.qualified(&call.tool);
                let arguments = call.arguments;
                self.seen.ask(&call.id, Asked { name, arguments });
                self.forwards(&call.id);
                return Some(call.frame);
            }
            Ok(Put::Forbidden(reason)) => form.failure(&reason),
            Ok(Put::Held(approval)) => self.hold(&under_way, definition, approval).await?,
            // Fail closed: it was not put to anybody, so it does not run.
            Err(error) => form.failure(&format!("nothing was run: {error}")),
        };
        let _ = under_way.back.send(answer).await;
        None
    }

    /// Records how a call ended that passed and is more than a read.
    pub(super) fn passed_answered(&self, id: &Id, frame: &Frame) {
        let outcome = match (frame.part(&frame.result), frame.part(&frame.error)) {
            (Some(result), _) if is_error(result) => Outcome::failed(result),
            (Some(result), _) => Outcome::succeeded(result),
            (None, Some(error)) => Outcome::failed(error),
            (None, None) => Outcome::Unknown("the server answered neither a result nor an error".to_owned()),
        };
        self.passed_ended(id, outcome);
    }

    /// Records this end of a call that passed, if the request of this id was one.
    pub(super) fn passed_ended(&self, id: &Id, outcome: Outcome) {
        if let Some((call, token)) = open(&self.passed).remove(id) {
            self.finish_passed(call, token, outcome);
        }
    }

    /// A call whose end cannot be written, or never comes, ends as unknown by its time-out.
    fn finish_passed(&self, call: CallId, token: PermitToken, outcome: Outcome) {
        let gateway = self.gateway.clone();
        self.gateway.tasks.spawn(async move {
            let finished = gateway.gate.finish(&gateway.tenant, call, &token, outcome).await;
            let problem = match finished {
                Ok(Ok(_)) => return,
                Ok(Err(refusal)) => refusal.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(%call, "how it ended could not be recorded: {problem}");
        });
    }

    /// Sends the rest of an approved call. It goes out under an id of ours: whatever a client numbers its requests with,
    /// no other answer is taken for this one's.
    async fn go_on(&self, under_way: &UnderWay, rest: &Continuation) -> Option<OneLine> {
        let (call, form) = (&under_way.call, &under_way.form);
        let params = String::from_utf8_lossy(&call.params);
        let answered = tokio::select! {
            answered = self.server.request("tools/call", &params) => answered,
            () = under_way.cancelled.cancelled() => return None,
        };
        Some(match answered {
            Ok(frame) => match frame.part(&frame.result) {
                Some(result) => {
                    self.continuations.remember(result, &rest.tool, &rest.arguments);
                    let (name, arguments) = (self.server.qualified(&rest.tool), rest.arguments.clone());
                    self.seen.saw(Asked { name, arguments }, result);
                    wire::kept_result(&form.id, result)
                }
                None => wire::kept_error(&form.id, frame.part(&frame.error).unwrap_or(b"{}")),
            },
            Err(Lost::NotSent(why) | Lost::Unknown(why)) => wire::error(Some(&form.id), wire::INTERNAL, &why),
        })
    }

    /// Hands what the server asks during a run to a client that waits for one; else the server is told that nobody is
    /// there, so that it does not wait for ever.
    pub(in crate::mcp) async fn while_running(&self, message: OneLine) {
        let waiting: Vec<Back> = open(&self.waiting)
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

    /// True when a message cancels a call that waits here: the server knows nothing of it.
    pub(super) fn cancel(self: &Arc<Self>, frame: &Frame) -> bool {
        let params = frame.part(&frame.params).unwrap_or_default();
        let Ok([Some(request)]) = pick(params, ["requestId"]) else {
            return false;
        };
        let Some(id) = Id::read(request) else {
            return false;
        };
        let Some(waiting) = open(&self.waiting).remove(&id) else {
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

    /// Says which approval a call waits for, so that cancelling the one can withdraw the other.
    pub(in crate::mcp) fn waits_for(&self, id: &Id, approval: ApprovalId) {
        if let Some(waiting) = open(&self.waiting).get_mut(id) {
            waiting.approval = Some(approval);
        }
    }

    fn withdraw(self: &Arc<Self>, approval: ApprovalId) {
        let relay = self.clone();
        self.gateway.tasks.spawn(async move {
            let (gateway, by) = (&relay.gateway, Actor::Agent(relay.agent()));
            let reason = Some("the client cancelled the call".to_owned());
            // Decided meanwhile: then that stands.
            let withdrawn = gateway.gate.withdraw(&gateway.tenant, approval, by, reason).await;
            if let Err(error) = withdrawn {
                tracing::warn!(id = %approval, "could not be withdrawn: {error}");
            }
        });
    }
}

/// Whether a tool's result says that the tool failed.
fn is_error(result: &[u8]) -> bool {
    pick(result, ["isError"]).is_ok_and(|[said]| said.is_some_and(|said| said.get() == "true"))
}

/// What a client brings back was not given to it for this.
fn no_round(form: &Form) -> OneLine {
    let problem = "this `requestState` was not given out for this call, or was used before";
    wire::error(Some(&form.id), wire::INVALID_PARAMS, problem)
}
