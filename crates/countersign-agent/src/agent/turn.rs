//! One turn: from what was said to the agent's last word on it, or to a card.

use std::collections::HashMap;

use countersign::gate::{GUIDE, Heard};
use countersign::id::ApprovalId;
use futures_util::StreamExt as _;

use super::{Agent, Place, Specialist, TurnError, channel_said, tell};
use crate::message::{Message, ModelCall};
use crate::model::{LARGEST_ANSWER, Model, ModelError, Part, Request, Stop, Usage};
use crate::progress::{Listener, Progress};
use crate::session::{Session, Step};

/// A turn that goes on.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a Agent,
    pub(super) place: Place,
    pub(super) session: Session,
    pub(super) listener: &'a Listener,
    /// The approval this turn left pending.
    pub(super) held: Option<ApprovalId>,
    /// How often each call came in this turn.
    pub(super) repeats: HashMap<(String, String), u32>,
    usage: Usage,
    /// What of it the session does not know yet.
    unsaved: Usage,
}

/// What a model answered.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<ModelCall>,
}

/// Whether a listener hears words as they come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// As they come.
    Live,
    /// Not before somebody judged them.
    Kept,
}

impl<'a> Turn<'a> {
    pub(super) fn new(agent: &'a Agent, place: Place, session: Session, listener: &'a Listener) -> Turn<'a> {
        Turn {
            agent,
            place,
            session,
            listener,
            held: None,
            repeats: HashMap::new(),
            usage: Usage::default(),
            unsaved: Usage::default(),
        }
    }

    pub(super) async fn tell(&self, progress: Progress) {
        tell(self.listener, progress).await;
    }

    /// Tells of an answer to a card, if it was one.
    pub(super) async fn tell_answer(&self, heard: &Heard) {
        let (approval, refusal) = match heard {
            Heard::Decided(resolved) => (resolved.approval.clone(), None),
            Heard::Refused(refusal) => (None, Some(refusal.clone())),
            _ => return,
        };
        self.tell(Progress::Answered { approval, refusal }).await;
    }

    /// Adds a step to the session: before anybody sees what it leads to.
    pub(super) async fn append(&mut self, mut step: Step) -> Result<(), TurnError> {
        step.usage = self.unsaved;
        let store = self.agent.gate().store();
        self.session.append(store, step).await?;
        self.unsaved = Usage::default();
        Ok(())
    }

    /// A new message: to whoever it is for.
    pub(super) async fn ask(&mut self, text: &str) -> Result<(), TurnError> {
        let at = self.agent.gate().store().now().await?;
        let said = Message::Person {
            text: text.to_owned(),
            at,
        };
        self.append(Step {
            messages: vec![said],
            ..Step::default()
        })
        .await?;
        if countersign::reply::asks_for_undo(text) {
            return self.undo().await;
        }
        let Some(specialist) = self.route().await? else {
            return Ok(());
        };
        self.answer(&specialist).await
    }

    /// A reply to a card, and what the channel says to it.
    pub(super) async fn reply(&mut self, text: &str, say: Option<&str>) -> Result<(), TurnError> {
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
            self.tell(Progress::Said(say.to_owned())).await;
        }
        Ok(())
    }

    /// The channel says something.
    pub(super) async fn say(&mut self, say: Option<&str>) -> Result<(), TurnError> {
        let Some(say) = say else { return Ok(()) };
        self.append(channel_said(say)).await?;
        self.tell(Progress::Said(say.to_owned())).await;
        Ok(())
    }

    /// Goes on where the last card left off.
    pub(super) async fn go_on(&mut self) -> Result<(), TurnError> {
        let specialist = self.specialist()?;
        self.answer(&specialist).await
    }

    /// Whether this turn left a card.
    pub(super) fn has_card(&self) -> bool {
        self.held.is_some()
    }

    /// The end: the card this turn left, as the last thing shown, and what it all took.
    pub(super) async fn end(mut self) -> Result<(), TurnError> {
        if let Some(held) = self.held.take() {
            self.show_again(held).await?;
        }
        self.tell(Progress::Done { usage: self.usage }).await;
        Ok(())
    }

    /// Who took the last message; the first one when nobody did.
    pub(super) fn specialist(&self) -> Result<Specialist, TurnError> {
        let specialists = &self.agent.plan.specialists;
        let named = self.session.specialist();
        let found = specialists
            .iter()
            .find(|known| Some(known.name.as_str()) == named);
        found.or(specialists.first()).cloned().ok_or(TurnError::Nobody)
    }

    /// A specialist answers, and answers again if it is judged to have done badly. An answer that left a card is not
    /// judged: it cannot have done yet what it was asked for.
    async fn answer(&mut self, specialist: &Specialist) -> Result<(), TurnError> {
        let retries = self
            .agent
            .plan
            .evaluator
            .as_ref()
            .map_or(0, |evaluator| evaluator.retries);
        let mut advice = None;
        for attempt in 0..=retries {
            // The last one stands whatever is said of it; of the others no word is heard that could be taken back.
            let words = match attempt < retries {
                true => Words::Kept,
                false => Words::Live,
            };
            let Some(text) = self.work(specialist, advice.as_deref(), words).await? else {
                return Ok(());
            };
            let verdict = self.judge(&text).await;
            match verdict {
                Some(reason) if attempt < retries => {
                    self.tell(Progress::Again {
                        reason: reason.clone(),
                    })
                    .await;
                    advice = Some(reason);
                }
                _ => return self.speak(text, words).await,
            }
        }
        Ok(())
    }

    /// The agent's words become part of the session, and are heard if they were not yet.
    pub(super) async fn speak(&mut self, text: String, words: Words) -> Result<(), TurnError> {
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
        if words == Words::Kept {
            self.tell(Progress::Text(text)).await;
        }
        Ok(())
    }

    /// Lets the model answer and call, until it only answers. Gives its last words; nothing when a card ends the turn.
    async fn work(
        &mut self,
        specialist: &Specialist,
        advice: Option<&str>,
        words: Words,
    ) -> Result<Option<String>, TurnError> {
        let steps = self.agent.plan.limits.steps;
        for _ in 0..steps {
            let request = self.request(specialist, advice, true);
            let answer = self.think(&*specialist.role.model, request, words).await?;
            if answer.calls.is_empty() {
                return Ok(Some(answer.text));
            }
            if words == Words::Kept && !answer.text.is_empty() {
                self.tell(Progress::Text(answer.text.clone())).await;
            }
            let is_explained = !answer.text.is_empty();
            let ran = self.run_calls(specialist, answer).await?;
            if self.held.is_some() {
                if !(is_explained && ran.all_held) {
                    self.explain(specialist, advice).await?;
                }
                return Ok(None);
            }
        }
        Err(TurnError::TooManySteps(steps))
    }

    /// The specialist says in its own words what it wants. The card is shown whether it finds any or not.
    async fn explain(&mut self, specialist: &Specialist, advice: Option<&str>) -> Result<(), TurnError> {
        let request = self.request(specialist, advice, false);
        match self.think(&*specialist.role.model, request, Words::Live).await {
            Ok(answer) => self.speak(answer.text, Words::Live).await,
            Err(TurnError::Model(error)) => {
                let notice = format!("the agent did not explain it: {error}");
                self.tell(Progress::Notice(notice)).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn request(&self, specialist: &Specialist, advice: Option<&str>, may_call: bool) -> Request {
        let mut system = format!("{}\n\n{GUIDE}", specialist.role.prompt.trim_end());
        if let Some(advice) = advice {
            system.push_str("\n\nYour last answer was not good enough. Answer again, and mind this: ");
            system.push_str(advice);
        }
        Request {
            role: specialist.name.clone(),
            system,
            messages: recent(self.session.messages(), self.agent.plan.limits.conversation),
            tools: specialist.tools.clone(),
            may_call,
            most_tokens: self.agent.plan.limits.tokens,
        }
    }

    /// Takes one answer of a model, whole or not at all.
    pub(super) async fn think(
        &mut self,
        model: &dyn Model,
        request: Request,
        words: Words,
    ) -> Result<Answer, TurnError> {
        let mut parts = model.answer(request);
        let (mut text, mut calls, mut bytes) = (String::new(), Vec::new(), 0usize);
        let mut usage = Usage::default();
        let stop = loop {
            let part = parts.next().await;
            match part.unwrap_or_else(|| Err(ModelError::CutOff("it has no end".to_owned())))? {
                Part::Text(more) => {
                    bytes = bytes.saturating_add(more.len());
                    text.push_str(&more);
                    if words == Words::Live {
                        self.tell(Progress::Text(more)).await;
                    }
                }
                Part::Call(call) => {
                    bytes = bytes.saturating_add(call.arguments.len() + call.tool.len());
                    calls.push(call);
                }
                Part::Usage(so_far) => usage = so_far,
                Part::Stop(stop) => break stop,
            }
            if bytes > LARGEST_ANSWER {
                return Err(ModelError::TooLarge.into());
            }
        };
        self.usage = self.usage.plus(usage);
        self.unsaved = self.unsaved.plus(usage);
        match stop {
            Stop::Done => Ok(Answer { text, calls }),
            // Half a call is no call, and nobody can tell which half is missing.
            Stop::Length if calls.is_empty() && !text.is_empty() => Ok(Answer { text, calls }),
            Stop::Length => Err(TurnError::TooLong),
            Stop::Declined => Err(TurnError::Declined),
        }
    }
}

/// The latest messages that fit, beginning with a person's: no result stands without its call.
fn recent(messages: &[Message], most: usize) -> Vec<Message> {
    let mut bytes = 0usize;
    let mut start = messages.len();
    for (index, message) in messages.iter().enumerate().rev() {
        bytes = bytes.saturating_add(size(message));
        if bytes > most && start < messages.len() {
            break;
        }
        if matches!(message, Message::Person { .. }) {
            start = index;
        }
    }
    let kept = messages.get(start..).unwrap_or_default();
    let for_models = kept
        .iter()
        .filter(|message| !matches!(message, Message::Channel { .. }));
    for_models.cloned().collect()
}

fn size(message: &Message) -> usize {
    match message {
        Message::Person { text, .. } | Message::Reply { text } | Message::Channel { text } => text.len(),
        Message::Agent { text, calls } => {
            text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>()
        }
        Message::Results { results } => results.iter().map(|result| result.content.len()).sum(),
    }
}
