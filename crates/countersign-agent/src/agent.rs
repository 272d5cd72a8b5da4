//! The agent: a person's message in, an answer and perhaps a card out.
//!
//! Enters: messages and decisions, from verified people. Leaves: [`Progress`], and a session that knows all of it. The
//! order is fixed: what became of earlier cards, the pending approval, and only then a model.
//!
//! It fails closed: a store that fails ends the turn, and nothing of it runs. Only the evaluator fails open.

mod calls;
mod error;
mod judge;
mod route;
mod settle;
mod turn;
mod undo;

use std::collections::HashSet;
use std::sync::Arc;

use countersign::conversation::{Conversations, Message as Heard};
use countersign::decision::Decider;
use countersign::gate::{Gate, Heard as Happened};
use countersign::id::{self, CallId, Channel, Person, Tenant};

use crate::message::Message;
use crate::model::Model;
use crate::progress::{Listener, Progress};
use crate::session::{Owner, Session, Step};
use crate::tool::Tool;

pub use error::{LONGEST_MESSAGE, TurnError};

/// Everything an agent is made of.
pub struct Plan {
    /// Its name.
    pub name: id::Agent,
    /// The credential it proposes with.
    pub requester: Person,
    /// The language it talks in, such as `es`.
    pub language: Option<String>,
    /// Who picks a specialist; not asked when there is only one.
    pub orchestrator: Option<Role>,
    /// Who answers, the first one when nobody was picked.
    pub specialists: Vec<Specialist>,
    /// Who judges answers, if anybody does.
    pub evaluator: Option<Evaluator>,
    /// What happens once a card was decided.
    pub after_decision: AfterDecision,
    /// Tools whose results are what strangers wrote.
    pub outside: HashSet<String>,
    /// How much is enough.
    pub limits: Limits,
}

/// A prompt and the model that gets it.
#[derive(Clone)]
pub struct Role {
    /// The system prompt.
    pub prompt: String,
    /// The model.
    pub model: Arc<dyn Model>,
}

/// One who answers, with tools of its own.
#[derive(Clone)]
pub struct Specialist {
    /// Its name.
    pub name: String,
    /// What it is for, so that it can be picked.
    pub about: String,
    /// Its prompt and model.
    pub role: Role,
    /// What it may call.
    pub tools: Vec<Arc<Tool>>,
}

/// One who judges answers.
#[derive(Clone)]
pub struct Evaluator {
    /// Its prompt and model.
    pub role: Role,
    /// How often an answer is given again because of it.
    pub retries: u32,
}

/// What happens once a card was decided, and what it released has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDecision {
    /// The model is told, and goes on.
    #[default]
    GoOn,
    /// The channel says what came of it; the model is told with the next message.
    Stop,
}

/// How much is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most answers of a model in one turn.
    pub steps: u32,
    /// How often the same call may come in one turn.
    pub repeats: u32,
    /// The most tokens of one answer.
    pub tokens: u32,
    /// The most bytes of the conversation that a model is given.
    pub conversation: usize,
    /// The most bytes of one result that a model is given.
    pub result: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 12,
            repeats: 3,
            tokens: 4096,
            conversation: 512 * 1024,
            result: 64 * 1024,
        }
    }
}

/// An agent over one gate. Clones share everything.
#[derive(Clone)]
pub struct Agent {
    conversations: Conversations,
    plan: Arc<Plan>,
}

/// Where and for whom a turn happens.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose world.
    pub tenant: Tenant,
    /// The conversation.
    pub channel: Channel,
    /// The person the agent acts for.
    pub person: Person,
}

impl Agent {
    /// An agent over conversations. Its tools are the gate's executor's.
    pub fn new(conversations: Conversations, plan: Plan) -> Agent {
        Agent {
            conversations,
            plan: Arc::new(plan),
        }
    }

    /// Names the address of the inbox page: a card that is too long for a message is shown there.
    pub fn leading_to(self, page: &str) -> Agent {
        Agent {
            conversations: self.conversations.with_page(page),
            plan: self.plan,
        }
    }

    /// Its name.
    pub fn name(&self) -> &id::Agent {
        &self.plan.name
    }

    /// What it is made of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The gate behind it.
    pub fn gate(&self) -> &Gate {
        self.conversations.gate()
    }

    /// The conversations it talks in. A surface that showed a card says so there.
    pub fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// What was said in a conversation so far.
    pub async fn session(&self, tenant: &Tenant, channel: &Channel) -> Result<Session, TurnError> {
        let owner = Owner {
            tenant: tenant.clone(),
            agent: self.plan.name.clone(),
            channel: channel.clone(),
        };
        Ok(Session::open(self.gate().store(), owner).await?)
    }

    /// Hears a message: the pending approval first, then, if the message goes on, a model.
    pub async fn hear(&self, message: Heard, listener: &Listener) -> Result<(), TurnError> {
        if message.text.len() > LONGEST_MESSAGE {
            return Err(TurnError::MessageTooLong(message.text.len()));
        }
        let place = Place {
            tenant: message.tenant.clone(),
            channel: message.channel.clone(),
            person: message.sender.person.clone(),
        };
        let text = message.text.clone();
        let language = self.language(message.language.as_deref()).map(str::to_owned);
        let message = Heard {
            language: language.clone(),
            ..message
        };
        let mut turn = self.turn(place, listener).await?;
        turn.catch_up().await?;
        let said = self.conversations.hear(message).await?;
        turn.tell_answer(&said.heard).await;
        match &said.heard {
            Happened::Decided(_) => {
                turn.reply(&text, said.say.as_deref()).await?;
                if turn.settle().await? && self.plan.after_decision == AfterDecision::GoOn {
                    turn.go_on().await?;
                }
            }
            Happened::NotForUs if !said.goes_on => {}
            Happened::NotForUs => turn.ask(&text).await?,
            Happened::Cancelled(_) => {
                turn.say(said.say.as_deref()).await?;
                turn.settle().await?;
                turn.ask(&text).await?;
            }
            Happened::Kept(approval) => {
                turn.ask(&text).await?;
                // A newer card took its place, or it is still the question.
                if !turn.has_card() {
                    turn.say(said.say.as_deref()).await?;
                    turn.show_again(approval.id).await?;
                }
            }
            // What was said decided nothing, so the model is not told of it: it would only take it for a yes.
            Happened::ShowAgain(approval) => {
                turn.say(said.say.as_deref()).await?;
                turn.show_again(approval.id).await?;
            }
            // The card stands; a second one would be as short as the first.
            Happened::Incomplete(_) => turn.say(said.say.as_deref()).await?,
            Happened::Refused(_) => {
                turn.say(said.say.as_deref()).await?;
                if said.goes_on {
                    turn.ask(&text).await?;
                }
            }
        }
        turn.end().await
    }

    /// Takes a pressed button, and goes on from there. Of several calls it may approve `only` some, by position.
    pub async fn press(
        &self,
        place: Place,
        payload: &str,
        only: Option<&[u8]>,
        by: Decider,
        listener: &Listener,
    ) -> Result<(), TurnError> {
        let mut turn = self.turn(place.clone(), listener).await?;
        turn.catch_up().await?;
        let pressed = self
            .conversations
            .press_only(&place.tenant, &place.channel, payload, only, by, None)
            .await?;
        let Some(resolved) = pressed else {
            return Err(TurnError::NoSuchCard);
        };
        let (approval, refusal) = (resolved.approval.clone(), resolved.refusal.clone());
        turn.tell(Progress::Answered { approval, refusal }).await;
        let say = self.conversations.outcome(&resolved, self.language(None));
        turn.say(Some(&say)).await?;
        if turn.settle().await? && self.plan.after_decision == AfterDecision::GoOn {
            turn.go_on().await?;
        }
        turn.end().await
    }

    /// Proposes the undo of one call of this conversation, as a card of its own; or says why there is none.
    pub async fn undo(&self, place: Place, call: CallId, listener: &Listener) -> Result<(), TurnError> {
        let mut turn = self.turn(place, listener).await?;
        turn.catch_up().await?;
        turn.undo_one(call).await?;
        turn.end().await
    }

    /// Goes on after something was decided elsewhere: on a page, by another program, or by time. Nothing happens when
    /// nothing was.
    pub async fn resume(&self, place: Place, listener: &Listener) -> Result<(), TurnError> {
        let mut turn = self.turn(place, listener).await?;
        if turn.catch_up().await? && self.plan.after_decision == AfterDecision::GoOn {
            turn.go_on().await?;
        }
        turn.end().await
    }

    /// Shows the card that waits in a conversation, as after a restart.
    pub async fn greet(&self, place: Place, listener: &Listener) -> Result<(), TurnError> {
        let mut turn = self.turn(place, listener).await?;
        turn.catch_up().await?;
        if let Some(open) = turn.waiting().await? {
            turn.show_again(open).await?;
        }
        turn.end().await
    }

    fn language<'a>(&'a self, said: Option<&'a str>) -> Option<&'a str> {
        said.or(self.plan.language.as_deref())
    }

    async fn turn<'a>(&'a self, place: Place, listener: &'a Listener) -> Result<turn::Turn<'a>, TurnError> {
        let session = self.session(&place.tenant, &place.channel).await?;
        Ok(turn::Turn::new(self, place, session, listener))
    }
}

/// What a channel adds to a session.
fn channel_said(text: &str) -> Step {
    Step {
        messages: vec![Message::Channel {
            text: text.to_owned(),
        }],
        ..Step::default()
    }
}

/// Tells what a session took in.
async fn tell(listener: &Listener, progress: Progress) {
    listener.tell(progress).await;
}
