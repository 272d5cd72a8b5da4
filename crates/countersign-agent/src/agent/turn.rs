//! One turn: from a person's message or decision to the agent's final answer, or to a card.

use std::collections::HashMap;

use countersign::gate::{GUIDE, ReplyOutcome};
use countersign::id::ApprovalId;
use futures_util::StreamExt as _;

use super::history::{fit, total_size};
use super::{Agent, Specialist, TurnContext, TurnError, channel_step, report};
use crate::message::{Message, ModelCall};
use crate::model::{AnswerPart, LARGEST_ANSWER, Model, ModelError, Request, StopReason, Usage};
use crate::progress::{Listener, Progress};
use crate::session::{Session, Step};

/// Maximum number of times that a model is asked again with less of the conversation.
const MOST_SHORTENINGS: u32 = 5;

/// A turn in progress.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a Agent,
    pub(super) context: TurnContext,
    pub(super) session: Session,
    pub(super) listener: &'a Listener,
    /// Approval that this turn left pending, if any. Its card is still to be shown.
    pub(super) pending_card: Option<ApprovalId>,
    /// Number of times each call (tool and arguments) occurred in this turn.
    pub(super) call_counts: HashMap<(String, String), u32>,
    usage: Usage,
    /// Part of `usage` that is not yet saved in the session.
    unsaved_usage: Usage,
}

/// A complete answer of a model.
pub(super) struct ModelAnswer {
    pub(super) text: String,
    pub(super) calls: Vec<ModelCall>,
}

/// Whether the listener gets text while the model writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextDelivery {
    /// Text is passed on as it arrives.
    Streamed,
    /// Text is held back until the answer is complete and accepted.
    Buffered,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        context: TurnContext,
        session: Session,
        listener: &'a Listener,
    ) -> Turn<'a> {
        Turn {
            agent,
            context,
            session,
            listener,
            pending_card: None,
            call_counts: HashMap::new(),
            usage: Usage::default(),
            unsaved_usage: Usage::default(),
        }
    }

    pub(super) async fn report(&self, progress: Progress) {
        report(self.listener, progress).await;
    }

    /// Reports a decision on a card, or its refusal, to the listener.
    pub(super) async fn report_decision(&self, outcome: &ReplyOutcome) {
        let (approval, refusal) = match outcome {
            ReplyOutcome::Decided(resolved) => (resolved.approval.clone(), None),
            ReplyOutcome::Refused(refusal) => (None, Some(refusal.clone())),
            _ => return,
        };
        self.report(Progress::Answered { approval, refusal }).await;
    }

    /// Saves a step in the session. Must be called before the step is reported to the listener.
    pub(super) async fn append(&mut self, mut step: Step) -> Result<(), TurnError> {
        step.usage = self.unsaved_usage;
        let store = self.agent.gate().store();
        self.session.append(store, step).await?;
        self.unsaved_usage = Usage::default();
        Ok(())
    }

    /// Adds a new message to the session, then the channel's response `say` to it, and lets the undo handler or a
    /// specialist answer the message.
    pub(super) async fn answer_message(&mut self, text: &str, say: Option<&str>) -> Result<(), TurnError> {
        self.record_message(text).await?;
        self.say_as_channel(say).await?;
        if countersign::reply::asks_for_undo(text) {
            return self.undo().await;
        }
        let Some(specialist) = self.route().await? else {
            return Ok(());
        };
        self.answer(&specialist).await
    }

    /// Adds a message about the pending card to the session, and lets the specialist who proposed the card answer it.
    /// The orchestrator is not asked, because it does not know the card.
    pub(super) async fn answer_about_card(&mut self, text: &str) -> Result<(), TurnError> {
        self.record_message(text).await?;
        let specialist = self.specialist()?;
        self.answer(&specialist).await
    }

    async fn record_message(&mut self, text: &str) -> Result<(), TurnError> {
        let at = self.agent.gate().store().now().await?;
        let message = Message::Person {
            text: text.to_owned(),
            at,
        };
        self.append(Step {
            messages: vec![message],
            ..Step::default()
        })
        .await
    }

    /// Adds a person's reply to a card and the channel's response `say` to the session, and reports the response.
    pub(super) async fn record_reply(&mut self, text: &str, say: Option<&str>) -> Result<(), TurnError> {
        let mut messages = vec![Message::Reply {
            text: text.to_owned(),
        }];
        messages.extend(say.map(|say| Message::Channel { text: say.to_owned() }));
        self.append(Step {
            messages,
            ..Step::default()
        })
        .await?;
        if let Some(say) = say {
            self.report(Progress::ChannelMessage(say.to_owned())).await;
        }
        Ok(())
    }

    /// Adds a message of the channel to the session and reports it. Does nothing if `say` is `None`.
    pub(super) async fn say_as_channel(&mut self, say: Option<&str>) -> Result<(), TurnError> {
        let Some(say) = say else { return Ok(()) };
        self.append(channel_step(say)).await?;
        self.report(Progress::ChannelMessage(say.to_owned())).await;
        Ok(())
    }

    /// Lets the specialist continue after a card was settled.
    pub(super) async fn continue_after_decision(&mut self) -> Result<(), TurnError> {
        let specialist = self.specialist()?;
        self.answer(&specialist).await
    }

    /// Returns true if this turn left a card pending.
    pub(super) fn has_card(&self) -> bool {
        self.pending_card.is_some()
    }

    /// Ends the turn: shows the card that it left pending, if any, and reports the token usage.
    pub(super) async fn finish(mut self) -> Result<(), TurnError> {
        if let Some(held) = self.pending_card.take() {
            self.show_again(held).await?;
        }
        self.report(Progress::Done { usage: self.usage }).await;
        Ok(())
    }

    /// Returns the specialist that the session was last routed to, or the first one.
    pub(super) fn specialist(&self) -> Result<Specialist, TurnError> {
        let specialists = &self.agent.config.specialists;
        let named = self.session.specialist();
        let found = specialists
            .iter()
            .find(|known| Some(known.name.as_str()) == named);
        found
            .or(specialists.first())
            .cloned()
            .ok_or(TurnError::NoSpecialist)
    }

    /// Lets a specialist answer, and answer again if the evaluator rejects the answer. An answer that left a card
    /// pending is not judged, because its request is not fulfilled yet.
    async fn answer(&mut self, specialist: &Specialist) -> Result<(), TurnError> {
        let retries = self
            .agent
            .config
            .evaluator
            .as_ref()
            .map_or(0, |evaluator| evaluator.retries);
        let mut feedback = None;
        for attempt in 0..=retries {
            // The last attempt is final and can be streamed; earlier ones may be rejected, so their text is held back.
            let delivery = match attempt < retries {
                true => TextDelivery::Buffered,
                false => TextDelivery::Streamed,
            };
            let Some(text) = self
                .run_specialist(specialist, feedback.as_deref(), delivery)
                .await?
            else {
                return Ok(());
            };
            let verdict = self.evaluate(&text).await;
            match verdict {
                Some(reason) if attempt < retries => {
                    self.report(Progress::Retrying {
                        reason: reason.clone(),
                    })
                    .await;
                    feedback = Some(reason);
                }
                _ => return self.save_text(text, delivery).await,
            }
        }
        Ok(())
    }

    /// Saves the agent's text in the session, and reports it if it was held back.
    pub(super) async fn save_text(&mut self, text: String, delivery: TextDelivery) -> Result<(), TurnError> {
        if text.is_empty() {
            return Ok(());
        }
        let calls = Vec::new();
        self.append(Step {
            messages: vec![Message::Agent {
                text: text.clone(),
                calls,
            }],
            ..Step::default()
        })
        .await?;
        if delivery == TextDelivery::Buffered {
            self.report(Progress::Text(text)).await;
        }
        Ok(())
    }

    /// Asks the model and runs its calls until it answers without calls. Returns the final text, or `None` if a card
    /// ended the turn.
    async fn run_specialist(
        &mut self,
        specialist: &Specialist,
        feedback: Option<&str>,
        delivery: TextDelivery,
    ) -> Result<Option<String>, TurnError> {
        let steps = self.agent.config.limits.steps;
        for _ in 0..steps {
            let answer = self
                .ask_shortened(&*specialist.role.model, delivery, |turn, room| {
                    turn.request(specialist, feedback, true, room)
                })
                .await?;
            if answer.calls.is_empty() {
                return Ok(Some(answer.text));
            }
            if delivery == TextDelivery::Buffered && !answer.text.is_empty() {
                self.report(Progress::Text(answer.text.clone())).await;
            }
            let is_explained = !answer.text.is_empty();
            let ran = self.run_calls(specialist, answer).await?;
            if self.pending_card.is_some() {
                if !(is_explained && ran.all_held) {
                    self.explain(specialist, feedback).await?;
                }
                return Ok(None);
            }
        }
        Err(TurnError::TooManySteps(steps))
    }

    /// Asks the specialist to explain its proposal. If the model fails, the card is shown without an explanation.
    async fn explain(&mut self, specialist: &Specialist, feedback: Option<&str>) -> Result<(), TurnError> {
        let answered = self
            .ask_shortened(&*specialist.role.model, TextDelivery::Streamed, |turn, room| {
                turn.request(specialist, feedback, false, room)
            })
            .await;
        match answered {
            Ok(answer) => self.save_text(answer.text, TextDelivery::Streamed).await,
            Err(TurnError::Model(error)) => {
                let notice = format!("the agent did not explain it: {error}");
                self.report(Progress::Notice(notice)).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn request(
        &self,
        specialist: &Specialist,
        feedback: Option<&str>,
        may_call: bool,
        (most_bytes, most_tokens): (usize, u32),
    ) -> Request {
        let fitted = fit(self.session.messages(), most_bytes);
        let mut system = format!("{}\n\n{GUIDE}", specialist.role.prompt.trim_end());
        if let Some(feedback) = feedback {
            system.push_str("\n\nYour last answer was not good enough. Answer again, and mind this: ");
            system.push_str(feedback);
        }
        if let Some(left_out) = &fitted.left_out {
            system.push_str("\n\n");
            system.push_str(left_out);
        }
        Request {
            role: specialist.name.clone(),
            system,
            messages: fitted.messages,
            tools: specialist.tools.clone(),
            may_call,
            most_tokens,
        }
    }

    /// Asks a model with the request that `build` makes for given limits. If the model reports that the request is too
    /// long, asks again with less of the conversation, up to [`MOST_SHORTENINGS`] times.
    pub(super) async fn ask_shortened(
        &mut self,
        model: &dyn Model,
        delivery: TextDelivery,
        build: impl Fn(&Turn<'_>, (usize, u32)) -> Request + Send,
    ) -> Result<ModelAnswer, TurnError> {
        let mut shortened = 0;
        loop {
            let request = build(self, self.agent.room());
            let sent = total_size(&request.messages);
            let answered = self.ask_model(model, request, delivery).await;
            match answered {
                Err(TurnError::Model(ModelError::TooLong(_))) if shortened < MOST_SHORTENINGS => {
                    shortened += 1;
                    self.agent.reduce_room(sent);
                    let notice =
                        "the conversation is too long for the model, which is asked again with less of it";
                    self.report(Progress::Notice(notice.to_owned())).await;
                }
                answered => return answered,
            }
        }
    }

    /// Asks a model and reads its whole answer. An answer that was cut off at the token limit is returned if it
    /// consists only of text; if it contains calls or is empty, that is an error.
    pub(super) async fn ask_model(
        &mut self,
        model: &dyn Model,
        request: Request,
        delivery: TextDelivery,
    ) -> Result<ModelAnswer, TurnError> {
        let mut parts = model.answer(request);
        let (mut text, mut calls, mut bytes) = (String::new(), Vec::new(), 0usize);
        let mut usage = Usage::default();
        let stop = loop {
            let part = parts.next().await;
            match part.unwrap_or_else(|| Err(ModelError::CutOff("it has no end".to_owned())))? {
                AnswerPart::Text(more) => {
                    bytes = bytes.saturating_add(more.len());
                    text.push_str(&more);
                    if delivery == TextDelivery::Streamed {
                        self.report(Progress::Text(more)).await;
                    }
                }
                AnswerPart::Call(call) => {
                    bytes = bytes.saturating_add(call.arguments.len() + call.tool.len());
                    calls.push(call);
                }
                AnswerPart::Usage(so_far) => usage = so_far,
                AnswerPart::Stop(stop) => break stop,
            }
            if bytes > LARGEST_ANSWER {
                return Err(ModelError::TooLarge.into());
            }
        };
        self.usage = self.usage.plus(usage);
        self.unsaved_usage = self.unsaved_usage.plus(usage);
        match stop {
            StopReason::Done => Ok(ModelAnswer { text, calls }),
            // Truncated text is usable. Truncated calls are not: the missing part cannot be known.
            StopReason::Length if calls.is_empty() && !text.is_empty() => Ok(ModelAnswer { text, calls }),
            StopReason::Length => Err(TurnError::AnswerTooLong),
            StopReason::Declined => Err(TurnError::Declined),
        }
    }
}
