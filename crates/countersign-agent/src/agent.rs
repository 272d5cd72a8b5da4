//! The agent: takes a person's message and produces an answer, and a card if a call needs approval.
//!
//! Input: messages and decisions from verified people. Output: [`Progress`] for the listener, and a session that holds
//! the whole conversation. Each turn first settles earlier cards, then reads the message as a reply to the pending
//! approval, and only then asks a model.
//!
//! Fails closed: a store error ends the turn, and calls that have not started do not run. Only the evaluator fails
//! open: an answer that cannot be judged is shown.

mod calls;
mod error;
mod evaluator;
mod history;
mod route;
mod settle;
mod turn;
mod undo;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use countersign::conversation::{Conversations, Message as IncomingMessage};
use countersign::decision::Decider;
use countersign::gate::{Gate, ReplyOutcome};
use countersign::id::{self, CallId, Channel, Person, Tenant};
use countersign::seal::Secret;

use crate::message::Message;
use crate::model::Model;
use crate::progress::{Listener, Progress};
use crate::session::{Session, SessionKey, Step};
use crate::tool::Tool;

pub use error::{LONGEST_MESSAGE, TurnError};

/// Configuration of an agent.
pub struct AgentConfig {
    /// Name under which the agent proposes calls.
    pub name: id::Agent,
    /// Name shown as the requester of the agent's proposals.
    pub requester: Person,
    /// Language tag, such as `es`, for messages that come without one. If `None`, the gate's sentences are in English.
    pub language: Option<String>,
    /// Role that picks a specialist for each message; not used when there is only one specialist. Without an
    /// orchestrator, the first specialist answers.
    pub orchestrator: Option<Role>,
    /// Specialists that answer messages. The first one answers if the orchestrator picks none.
    pub specialists: Vec<Specialist>,
    /// Role that judges answers before a person sees them, if configured.
    pub evaluator: Option<Evaluator>,
    /// Whether the model continues after a card is decided.
    pub after_decision: AfterDecision,
    /// True if a message about something else leaves the pending card as it is; overrides the policy's `on_other`.
    pub keeps_cards: bool,
    /// Source of the credentials that calls run with, if any call needs one.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Tools whose results hold text written by strangers, such as web pages and mail.
    pub outside_tools: HashSet<String>,
    /// Limits on one turn and on what a model is given.
    pub limits: Limits,
}

/// Source of the credentials that calls run with. A credential is kept encrypted with its call while the call waits,
/// goes to the tool only, and is erased when the call ends. Models, cards and sessions never contain it.
pub trait Credentials: Send + Sync {
    /// Returns the credential for a call of this tool on behalf of the turn's person; `None` if the call needs none.
    fn credential(&self, context: &TurnContext, tool: &str) -> Option<Secret>;
}

impl<F> Credentials for F
where
    F: Fn(&TurnContext, &str) -> Option<Secret> + Send + Sync,
{
    fn credential(&self, context: &TurnContext, tool: &str) -> Option<Secret> {
        self(context, tool)
    }
}

/// A system prompt and the model that receives it.
#[derive(Clone)]
pub struct Role {
    /// The system prompt.
    pub prompt: String,
    /// Model that receives the prompt.
    pub model: Arc<dyn Model>,
}

/// A role that answers messages, with its own tools.
#[derive(Clone)]
pub struct Specialist {
    /// Name by which the orchestrator picks the specialist.
    pub name: String,
    /// Description of the specialist, given to the orchestrator.
    pub about: String,
    /// System prompt and model.
    pub role: Role,
    /// Tools that the specialist may call.
    pub tools: Vec<Arc<Tool>>,
}

/// A role that judges answers.
#[derive(Clone)]
pub struct Evaluator {
    /// System prompt and model.
    pub role: Role,
    /// Maximum number of times an answer is generated again after a failed verdict.
    pub retries: u32,
}

/// Whether the model continues after a card is decided and its released calls have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDecision {
    /// The model is told the results and continues its answer.
    #[default]
    Continue,
    /// The channel tells the person how the card ended; the model gets the results with the next message.
    Stop,
}

/// Limits on one turn and on what a model is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of model answers in one turn.
    pub steps: u32,
    /// Maximum number of times the same call may occur in one turn.
    pub repeats: u32,
    /// Maximum number of tokens in one answer.
    pub tokens: u32,
    /// Maximum bytes of conversation sent to a model; older turns are left out. Less is sent to a model that says that
    /// it was too much.
    pub conversation: usize,
    /// Maximum bytes of one tool result sent to a model; the rest is cut off.
    pub result: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 12,
            repeats: 3,
            tokens: 4096,
            conversation: 24 * 1024,
            result: 64 * 1024,
        }
    }
}

/// An agent on top of one gate. Clones share all state.
#[derive(Clone)]
pub struct Agent {
    conversations: Conversations,
    config: Arc<AgentConfig>,
    room: Arc<Room>,
}

/// Limits of the agent's models, as learned from their errors. Forgotten when the process ends.
struct Room {
    bytes: AtomicUsize,
    tokens: AtomicU32,
}

/// Lower bound when the token limit of an answer is reduced.
const FEWEST_TOKENS: u32 = 256;

/// Tenant, channel and person of a turn.
#[derive(Clone, Debug)]
pub struct TurnContext {
    /// Tenant in which the agent proposes calls.
    pub tenant: Tenant,
    /// Channel of the conversation, in which cards are shown.
    pub channel: Channel,
    /// Person whom the agent talks to and acts for.
    pub person: Person,
}

impl Agent {
    /// Creates an agent whose tools run in the executor of the gate that `conversations` uses.
    pub fn new(conversations: Conversations, config: AgentConfig) -> Agent {
        let conversations = match config.keeps_cards {
            true => conversations.with_cards_kept(),
            false => conversations,
        };
        Agent {
            conversations,
            room: Arc::new(Room {
                bytes: AtomicUsize::new(config.limits.conversation),
                tokens: AtomicU32::new(config.limits.tokens),
            }),
            config: Arc::new(config),
        }
    }

    /// Sets the URL of the inbox page, which shows cards that are too long for a message.
    pub fn with_inbox_url(self, page: &str) -> Agent {
        Agent {
            conversations: self.conversations.with_page(page),
            ..self
        }
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &id::Agent {
        &self.config.name
    }

    /// Returns the agent's configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Returns the gate that every call goes through.
    pub fn gate(&self) -> &Gate {
        self.conversations.gate()
    }

    /// Returns the object that builds cards and reads replies. A surface reports to it that a card was shown.
    pub fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// Loads the agent's session in a channel. The session is empty if nothing was recorded yet.
    pub async fn session(&self, tenant: &Tenant, channel: &Channel) -> Result<Session, TurnError> {
        let session_key = SessionKey {
            tenant: tenant.clone(),
            agent: self.config.name.clone(),
            channel: channel.clone(),
        };
        Ok(Session::open(self.gate().store(), session_key).await?)
    }

    /// Handles a person's message. The message is first read as a reply to the pending approval; a model answers it
    /// unless it was only such a reply.
    pub async fn handle_message(
        &self,
        message: IncomingMessage,
        listener: &Listener,
    ) -> Result<(), TurnError> {
        if message.text.len() > LONGEST_MESSAGE {
            return Err(TurnError::MessageTooLong(message.text.len()));
        }
        let context = TurnContext {
            tenant: message.tenant.clone(),
            channel: message.channel.clone(),
            person: message.sender.person.clone(),
        };
        let text = message.text.clone();
        let language = self.language(message.language.as_deref()).map(str::to_owned);
        let message = IncomingMessage {
            language: language.clone(),
            ..message
        };
        let mut turn = self.turn(context, listener).await?;
        turn.settle_earlier_cards().await?;
        let reading = self.conversations.hear(message).await?;
        if reading.is_repeated {
            return turn.finish().await;
        }
        turn.report_decision(&reading.heard).await;
        match &reading.heard {
            ReplyOutcome::Decided(_) => {
                turn.record_reply(&text, reading.say.as_deref()).await?;
                if turn.settle().await? && self.config.after_decision == AfterDecision::Continue {
                    turn.continue_after_decision().await?;
                }
            }
            ReplyOutcome::PassOn if !reading.forward_to_agent => {}
            ReplyOutcome::PassOn => turn.answer_message(&text, None).await?,
            ReplyOutcome::Cancelled(_) => {
                turn.settle().await?;
                turn.answer_message(&text, reading.say.as_deref()).await?;
            }
            ReplyOutcome::Kept(approval) => {
                let answered = match reading.is_about_card {
                    true => turn.answer_about_card(&text).await,
                    false => turn.answer_message(&text, None).await,
                };
                // Show the kept card again, even if the model failed, unless the answer opened a newer one, which
                // superseded it.
                if !turn.has_card() {
                    turn.say_as_channel(reading.say.as_deref()).await?;
                    turn.show_again(approval.id).await?;
                }
                answered?;
            }
            // The reply decided nothing, so it is not added to the session: a model could mistake it for an approval.
            ReplyOutcome::ShowAgain(approval) => {
                turn.say_as_channel(reading.say.as_deref()).await?;
                turn.show_again(approval.id).await?;
            }
            // The card stays pending; another prompt would be as incomplete as the first.
            ReplyOutcome::Incomplete(_) => turn.say_as_channel(reading.say.as_deref()).await?,
            ReplyOutcome::Refused(_) => {
                turn.say_as_channel(reading.say.as_deref()).await?;
                if reading.forward_to_agent {
                    turn.answer_message(&text, None).await?;
                }
            }
        }
        turn.finish().await
    }

    /// Decides a card with a pressed button, then lets the model continue if the configuration says so. `payload` is
    /// the button's data. If `only` is given, the calls at these positions (from 1) are approved and the others denied.
    pub async fn handle_button(
        &self,
        context: TurnContext,
        payload: &str,
        only: Option<&[u8]>,
        by: Decider,
        listener: &Listener,
    ) -> Result<(), TurnError> {
        let mut turn = self.turn(context.clone(), listener).await?;
        turn.settle_earlier_cards().await?;
        let pressed = self
            .conversations
            .press_only(&context.tenant, &context.channel, payload, only, by, None)
            .await?;
        let Some(resolved) = pressed else {
            return Err(TurnError::NoSuchCard);
        };
        let (approval, refusal) = (resolved.approval.clone(), resolved.refusal.clone());
        turn.report(Progress::Answered { approval, refusal }).await;
        let say = self.conversations.outcome(&resolved, self.language(None));
        turn.say_as_channel(Some(&say)).await?;
        if turn.settle().await? && self.config.after_decision == AfterDecision::Continue {
            turn.continue_after_decision().await?;
        }
        turn.finish().await
    }

    /// Proposes to undo one call of this conversation, as a card of its own. If the call cannot be undone, the channel
    /// says why.
    pub async fn undo(
        &self,
        context: TurnContext,
        call: CallId,
        listener: &Listener,
    ) -> Result<(), TurnError> {
        let mut turn = self.turn(context, listener).await?;
        turn.settle_earlier_cards().await?;
        turn.undo_call(call).await?;
        turn.finish().await
    }

    /// Continues after a card was decided elsewhere (on a page, by another program) or expired. Does nothing if no card
    /// was settled.
    pub async fn resume(&self, context: TurnContext, listener: &Listener) -> Result<(), TurnError> {
        let mut turn = self.turn(context, listener).await?;
        if turn.settle_earlier_cards().await? && self.config.after_decision == AfterDecision::Continue {
            turn.continue_after_decision().await?;
        }
        turn.finish().await
    }

    /// Shows the card that is pending in a conversation, for example after a restart. Does nothing if no card is
    /// pending.
    pub async fn show_pending_card(
        &self,
        context: TurnContext,
        listener: &Listener,
    ) -> Result<(), TurnError> {
        let mut turn = self.turn(context, listener).await?;
        turn.settle_earlier_cards().await?;
        if let Some(open) = turn.pending_approval().await? {
            turn.show_again(open).await?;
        }
        turn.finish().await
    }

    /// Returns the maximum bytes of conversation and the maximum tokens of an answer for the next request.
    fn room(&self) -> (usize, u32) {
        let Room { bytes, tokens } = &*self.room;
        (bytes.load(Ordering::Relaxed), tokens.load(Ordering::Relaxed))
    }

    /// Records that a request of this many bytes was too long for a model. A model's context has to hold the answer
    /// too, so both limits are halved.
    fn reduce_room(&self, sent: usize) {
        let (bytes, tokens) = self.room();
        self.room.bytes.store(bytes.min(sent) / 2, Ordering::Relaxed);
        let tokens = (tokens / 2).max(FEWEST_TOKENS.min(tokens));
        self.room.tokens.store(tokens, Ordering::Relaxed);
    }

    fn language<'a>(&'a self, message_language: Option<&'a str>) -> Option<&'a str> {
        message_language.or(self.config.language.as_deref())
    }

    async fn turn<'a>(
        &'a self,
        context: TurnContext,
        listener: &'a Listener,
    ) -> Result<turn::Turn<'a>, TurnError> {
        let session = self.session(&context.tenant, &context.channel).await?;
        Ok(turn::Turn::new(self, context, session, listener))
    }
}

/// Builds a step that adds a message of the channel itself, which neither the person nor the agent wrote.
fn channel_step(text: &str) -> Step {
    Step {
        messages: vec![Message::Channel {
            text: text.to_owned(),
        }],
        ..Step::default()
    }
}

async fn report(listener: &Listener, progress: Progress) {
    listener.report(progress).await;
}
