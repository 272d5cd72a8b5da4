//! A talk: the conversation of one person with one agent in one session.
//!
//! Input: the person's messages, buttons and undo requests, and decisions made elsewhere. Output: news, for the caller
//! and all listeners. Turns of one talk run one after the other, and to their end even if nobody listens. The
//! conversation is in the store; the state in memory may be lost with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use countersign::conversation::{Message, Origin};
use countersign::decision::Decider;
use countersign::id::{ApprovalId, CallId, Channel, Key};
use countersign::prompt::{Pressed, Prompt};
use countersign_agent::agent::{Agent, TurnContext, TurnError};
use countersign_agent::progress::{Listener, Progress};
use countersign_agent::session::{Session, SessionError};
use tokio::sync::{broadcast, mpsc};

use super::Served;
use crate::service::{Service, ServiceError};

/// Maximum time that a turn waits for the previous one to end.
const TURN_WITHIN: Duration = Duration::from_secs(30);
/// Number of news items that a listener may lag behind before it misses some.
const QUEUE: usize = 512;
/// How long a turn waits for its caller to read the next item of news. After that, the caller gets no more news.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Number of talks above which unused ones are removed from the map.
const MOST_TALKS: usize = 1000;

/// An item of news in a talk.
#[derive(Clone, Debug)]
pub enum News {
    /// The person said something or pressed a button, or another node changed the session. Listeners should read the
    /// session again.
    Heard,
    /// The turn made progress.
    Progress(Box<Progress>),
    /// The turn ended early.
    Failed {
        /// Message for the person.
        message: String,
        /// Advice on what to do next.
        hint: &'static str,
    },
}

impl News {
    /// Returns true if this is the last item of a turn.
    pub fn is_last(&self) -> bool {
        match self {
            News::Progress(progress) => matches!(**progress, Progress::Done { .. }),
            News::Failed { .. } => true,
            News::Heard => false,
        }
    }
}

/// Input of a person in a talk.
#[derive(Clone, Debug)]
pub enum PersonAction {
    /// A message in words.
    Text {
        /// Text of the message.
        text: String,
        /// Id of the message; a message that is sent twice is handled once.
        id: Key,
        /// Key of the card that the person had on the screen; `None` if there was none.
        after: Option<Key>,
    },
    /// A press of a card's button.
    Button {
        /// Payload of the button, as it came with the card.
        payload: String,
        /// Positions of the calls to approve, if not all.
        only: Option<Vec<u8>>,
    },
    /// A request to undo a call of this talk.
    Undo(CallId),
}

/// Error: the previous turn of the talk is still running and takes too long.
#[derive(Debug)]
pub struct Busy;

/// Handle of a talk. Clones share the same state.
#[derive(Clone)]
pub struct Talk {
    served: Arc<Served>,
    place: TurnContext,
    session: String,
    going: Arc<TalkState>,
}

struct TalkState {
    turn: tokio::sync::Mutex<()>,
    news: broadcast::Sender<Arc<News>>,
}

/// The talks in use, by channel. A talk is dropped with its last handle.
#[derive(Default)]
pub struct Talks(Mutex<HashMap<Channel, Weak<TalkState>>>);

impl Talks {
    pub(super) fn open(&self, served: &Arc<Served>, place: TurnContext, session: &str) -> Talk {
        let mut talks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if talks.len() >= MOST_TALKS {
            talks.retain(|_, going| going.strong_count() > 0);
        }
        let open = talks.get(&place.channel).and_then(Weak::upgrade);
        let going = open.unwrap_or_else(|| {
            let going = Arc::new(TalkState {
                turn: tokio::sync::Mutex::new(()),
                news: broadcast::channel(QUEUE).0,
            });
            talks.insert(place.channel.clone(), Arc::downgrade(&going));
            going
        });
        Talk {
            served: served.clone(),
            place,
            session: session.to_owned(),
            going,
        }
    }
}

/// Returns the message id of a card. A reply that refers to this id shows that the person saw the card. Never `None` in
/// practice, because the id is always a valid key.
pub fn card_key(approval: ApprovalId) -> Option<Key> {
    Key::new(format!("card-{approval}")).ok()
}

impl Talk {
    /// Returns the agent of the talk.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Returns the id of the session, as used in URLs.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Returns the tenant, the channel and the person of the talk.
    pub fn place(&self) -> &TurnContext {
        &self.place
    }

    /// Loads the conversation so far.
    pub async fn session(&self) -> Result<Session, TurnError> {
        let agent = &self.served.agent;
        agent.session(&self.place.tenant, &self.place.channel).await
    }

    /// Subscribes to all news of this talk from now on, whatever causes them.
    pub fn listen(&self) -> broadcast::Receiver<Arc<News>> {
        self.going.news.subscribe()
    }

    /// Starts a turn and returns its news. The turn continues even if nobody reads the news. Refused if too many turns
    /// are running, because each turn uses a model.
    pub fn say(
        &self,
        service: &Service,
        said: PersonAction,
        by: Decider,
    ) -> Result<mpsc::Receiver<Arc<News>>, ServiceError> {
        let counted = service.limits.turn(&self.place.tenant, &by.person)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let talk = self.clone();
        let service = service.clone();
        service.clone().runs.spawn(async move {
            let _counted = counted;
            let mut news_sender = NewsSender::new(&service, talk.going.news.clone(), Some(sender));
            let Ok(_turn) = talk.turn().await else {
                let message = "another message is being answered in this session".to_owned();
                let hint = "wait for the answer, then say it again";
                return news_sender.tell(News::Failed { message, hint }).await;
            };
            news_sender.tell(News::Heard).await;
            match said {
                PersonAction::Text { text, id, after } => {
                    let message = Message {
                        tenant: talk.place.tenant.clone(),
                        channel: talk.place.channel.clone(),
                        sender: by,
                        text,
                        language: None,
                        id,
                        origin: Origin::Written,
                        after,
                    };
                    let hear = async |agent: Agent, listener: Listener| {
                        agent.handle_message(message, &listener).await
                    };
                    let ended = talk.run_turn(&mut news_sender, hear).await;
                    news_sender.end(ended).await;
                }
                PersonAction::Button { payload, only } => {
                    let place = talk.place.clone();
                    let press = async |agent: Agent, listener: Listener| {
                        let of = Pressed::read(&payload).map(|pressed| pressed.approval);
                        if !is_of(&agent, &place, of).await? {
                            return Err(TurnError::NoSuchCard);
                        }
                        agent
                            .handle_button(place, &payload, only.as_deref(), by, &listener)
                            .await
                    };
                    let ended = talk.run_turn(&mut news_sender, press).await;
                    news_sender.end(ended).await;
                }
                PersonAction::Undo(call) => {
                    let place = talk.place.clone();
                    let undo = async |agent: Agent, listener: Listener| {
                        if !is_of(&agent, &place, Some(call.approval)).await? {
                            return Err(TurnError::NoSuchCard);
                        }
                        agent.undo(place, call, &listener).await
                    };
                    let ended = talk.run_turn(&mut news_sender, undo).await;
                    news_sender.end(ended).await;
                }
            }
        });
        Ok(receiver)
    }

    /// Continues the talk if a card of it was decided elsewhere; otherwise does nothing. Fails if the previous turn
    /// takes too long.
    pub async fn resume(&self, service: &Service) -> Result<(), Busy> {
        let _turn = self.turn().await?;
        let mut news_sender = NewsSender::new(service, self.going.news.clone(), None);
        match self.has_news().await {
            Ok(false) => {}
            Ok(true) => {
                let place = self.place.clone();
                let resume = async |agent: Agent, listener: Listener| agent.resume(place, &listener).await;
                match self.run_turn(&mut news_sender, resume).await {
                    // Another node was faster and continues the talk, so listeners on this node only have to reload it.
                    Err(TurnError::Session(SessionError::Changed)) => news_sender.tell(News::Heard).await,
                    ended => news_sender.end(ended).await,
                }
            }
            Err(error) => news_sender.end(Err(error)).await,
        }
        Ok(())
    }

    /// Returns true if a card of this talk is no longer pending and the session does not contain its result yet.
    async fn has_news(&self) -> Result<bool, TurnError> {
        let session = self.session().await?;
        let store = self.served.agent.gate().store();
        for open in session.open_approvals() {
            let approval = store.approval(&self.place.tenant, *open).await?;
            if approval.is_some_and(|approval| approval.state != countersign::state::State::Pending) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, Busy> {
        tokio::time::timeout(TURN_WITHIN, self.going.turn.lock())
            .await
            .map_err(|_| Busy)
    }

    async fn run_turn(
        &self,
        news_sender: &mut NewsSender,
        turn: impl AsyncFnOnce(Agent, Listener) -> Result<(), TurnError>,
    ) -> Result<(), TurnError> {
        let (listener, mut heard) = Listener::new();
        let turn = turn(self.served.agent.clone(), listener);
        let telling = async {
            while let Some(progress) = heard.recv().await {
                news_sender.count(&progress);
                if let Progress::ShowCard { prompt, .. } = &progress {
                    self.record_shown_card(prompt).await;
                }
                news_sender.tell(News::Progress(Box::new(progress))).await;
            }
        };
        let (ended, ()) = tokio::join!(turn, telling);
        ended
    }

    /// Records that the card is now the last message in the channel. Otherwise a "yes" would not count, and the card
    /// would only be shown again.
    async fn record_shown_card(&self, prompt: &Prompt) {
        let Some(key) = card_key(prompt.approval) else {
            return;
        };
        let TurnContext { tenant, channel, .. } = &self.place;
        let conversations = self.served.agent.conversations();
        if let Err(error) = conversations.shown(tenant, channel, prompt, key).await {
            tracing::warn!(approval = %prompt.approval, "a card that is shown could not be noted: {error}");
        }
    }
}

/// Returns true if the approval `card` was proposed in this talk.
async fn is_of(agent: &Agent, place: &TurnContext, card: Option<ApprovalId>) -> Result<bool, TurnError> {
    let Some(card) = card else {
        return Ok(false);
    };
    let approval = agent.gate().store().approval(&place.tenant, card).await?;
    Ok(approval.is_some_and(|approval| {
        approval.channel.as_ref() == Some(&place.channel) && approval.agent == *agent.name()
    }))
}

/// Sends news to the caller and to all listeners.
struct NewsSender {
    service: Service,
    all: broadcast::Sender<Arc<News>>,
    own: Option<mpsc::Sender<Arc<News>>>,
}

impl NewsSender {
    fn new(
        service: &Service,
        all: broadcast::Sender<Arc<News>>,
        own: Option<mpsc::Sender<Arc<News>>>,
    ) -> NewsSender {
        NewsSender {
            service: service.clone(),
            all,
            own,
        }
    }

    /// Counts proposals and decisions in talks in the same metrics as those of other surfaces.
    fn count(&self, progress: &Progress) {
        match progress {
            Progress::Proposed { approval } => self.service.metrics.proposed(approval),
            Progress::Answered { approval, refusal } => {
                self.service
                    .metrics
                    .answered(approval.as_deref(), refusal.as_ref());
            }
            _ => {}
        }
    }

    async fn tell(&mut self, news: News) {
        let news = Arc::new(news);
        // An error only means that nobody listens.
        let _ = self.all.send(news.clone());
        if let Some(own) = &self.own {
            let told = tokio::time::timeout(READ_WITHIN, own.send(news)).await;
            if !matches!(told, Ok(Ok(()))) {
                self.own = None;
            }
        }
    }

    /// Reports the error of a turn that ended early.
    async fn end(&mut self, ended: Result<(), TurnError>) {
        let Err(error) = ended else { return };
        tracing::warn!("a turn ended early: {error}");
        let (message, hint) = (error.to_string(), error.hint());
        self.tell(News::Failed { message, hint }).await;
    }
}
