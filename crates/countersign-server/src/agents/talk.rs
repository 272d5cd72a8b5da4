//! A talk: one person, one agent, one session, as it goes on.
//!
//! Enters: what the person says or presses, and the fact that something was decided elsewhere. Leaves: news, to who
//! asked and to everybody who listens. Turns of one talk happen one after the other, and go on to their end whoever
//! listens. What was said is in the store; what is here may be lost with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use countersign::conversation::{Message, Origin};
use countersign::decision::Decider;
use countersign::id::{ApprovalId, CallId, Channel, Key};
use countersign::prompt::{Pressed, Prompt};
use countersign_agent::agent::{Agent, Place, TurnError};
use countersign_agent::progress::{Listener, Progress};
use countersign_agent::session::{Session, SessionError};
use tokio::sync::{broadcast, mpsc};

use super::Served;
use crate::http::{Answer, App};

/// How long a turn waits for the one before it.
const TURN_WITHIN: Duration = Duration::from_secs(30);
/// How far a listener may be behind.
const QUEUE: usize = 512;
/// Who does not read for so long is not told any more. The turn does not wait for them.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Beyond so many talks, those that nobody has open are forgotten.
const MOST_TALKS: usize = 1000;

/// One thing that happens in a talk.
#[derive(Clone, Debug)]
pub enum News {
    /// The person said something, or pressed a button.
    Heard,
    /// The turn goes on.
    Progress(Box<Progress>),
    /// The turn ended early.
    Failed {
        /// Why.
        message: String,
        /// What to do now.
        hint: &'static str,
    },
}

impl News {
    /// Nothing more comes of this turn.
    pub fn is_last(&self) -> bool {
        match self {
            News::Progress(progress) => matches!(**progress, Progress::Done { .. }),
            News::Failed { .. } => true,
            News::Heard => false,
        }
    }
}

/// What a person does in a talk.
#[derive(Clone, Debug)]
pub enum Said {
    /// They write.
    Text {
        /// What.
        text: String,
        /// The message's id: sent twice it is heard once.
        id: Key,
        /// The card that they had before their eyes.
        after: Option<Key>,
    },
    /// They press a button.
    Button {
        /// What it says.
        payload: String,
        /// Of several calls only these, by position.
        only: Option<Vec<u8>>,
    },
    /// They want a call of this talk undone.
    Undo(CallId),
}

/// Another turn takes too long.
#[derive(Debug)]
pub struct Busy;

/// A talk. Clones share everything.
#[derive(Clone)]
pub struct Talk {
    served: Arc<Served>,
    place: Place,
    session: String,
    going: Arc<Going>,
}

struct Going {
    turn: tokio::sync::Mutex<()>,
    news: broadcast::Sender<Arc<News>>,
}

/// The talks that somebody has open.
#[derive(Default)]
pub struct Talks(Mutex<HashMap<Channel, Weak<Going>>>);

impl Talks {
    pub(super) fn open(&self, served: &Arc<Served>, place: Place, session: &str) -> Talk {
        let mut talks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if talks.len() >= MOST_TALKS {
            talks.retain(|_, going| going.strong_count() > 0);
        }
        let open = talks.get(&place.channel).and_then(Weak::upgrade);
        let going = open.unwrap_or_else(|| {
            let going = Arc::new(Going {
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

/// The name of a card as a message of ours: who answers it says that they saw it.
pub fn card_key(approval: ApprovalId) -> Option<Key> {
    Key::new(format!("card-{approval}")).ok()
}

impl Talk {
    /// Whom one talks to.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Where it happens.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What was said so far.
    pub async fn session(&self) -> Result<Session, TurnError> {
        let agent = &self.served.agent;
        agent.session(&self.place.tenant, &self.place.channel).await
    }

    /// Everything that happens from now on, whoever caused it.
    pub fn listen(&self) -> broadcast::Receiver<Arc<News>> {
        self.going.news.subscribe()
    }

    /// Says something, and gives what comes of it. It goes on when nobody reads that. Refused when too many messages are
    /// being answered: each of them is a turn of a model.
    pub fn say(&self, app: &App, said: Said, by: Decider) -> Answer<mpsc::Receiver<Arc<News>>> {
        let counted = app.limits.turn(&self.place.tenant, &by.person)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let talk = self.clone();
        let app = app.clone();
        app.clone().runs.spawn(async move {
            let _counted = counted;
            let mut teller = Teller::new(&app, talk.going.news.clone(), Some(sender));
            let Ok(_turn) = talk.turn().await else {
                let message = "another message is being answered in this session".to_owned();
                let hint = "wait for the answer, then say it again";
                return teller.tell(News::Failed { message, hint }).await;
            };
            teller.tell(News::Heard).await;
            match said {
                Said::Text { text, id, after } => {
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
                    let hear = async |agent: Agent, listener: Listener| agent.hear(message, &listener).await;
                    let ended = talk.go(&mut teller, hear).await;
                    teller.end(ended).await;
                }
                Said::Button { payload, only } => {
                    let place = talk.place.clone();
                    let press = async |agent: Agent, listener: Listener| {
                        let of = Pressed::read(&payload).map(|pressed| pressed.approval);
                        if !is_of(&agent, &place, of).await? {
                            return Err(TurnError::NoSuchCard);
                        }
                        agent.press(place, &payload, only.as_deref(), by, &listener).await
                    };
                    let ended = talk.go(&mut teller, press).await;
                    teller.end(ended).await;
                }
                Said::Undo(call) => {
                    let place = talk.place.clone();
                    let undo = async |agent: Agent, listener: Listener| {
                        if !is_of(&agent, &place, Some(call.approval)).await? {
                            return Err(TurnError::NoSuchCard);
                        }
                        agent.undo(place, call, &listener).await
                    };
                    let ended = talk.go(&mut teller, undo).await;
                    teller.end(ended).await;
                }
            }
        });
        Ok(receiver)
    }

    /// Goes on after something was decided elsewhere; nothing happens when nothing was.
    pub async fn resume(&self, app: &App) -> Result<(), Busy> {
        let _turn = self.turn().await?;
        let mut teller = Teller::new(app, self.going.news.clone(), None);
        match self.has_settled().await {
            Ok(false) => {}
            Ok(true) => {
                let place = self.place.clone();
                let resume = async |agent: Agent, listener: Listener| agent.resume(place, &listener).await;
                match self.go(&mut teller, resume).await {
                    // Another node was quicker: there the talk goes on, and here a page only has to look again.
                    Err(TurnError::Session(SessionError::Changed)) => teller.tell(News::Heard).await,
                    ended => teller.end(ended).await,
                }
            }
            Err(error) => teller.end(Err(error)).await,
        }
        Ok(())
    }

    /// Whether a card of this talk has ended that its session does not know the end of.
    async fn has_settled(&self) -> Result<bool, TurnError> {
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

    async fn go(
        &self,
        teller: &mut Teller,
        turn: impl AsyncFnOnce(Agent, Listener) -> Result<(), TurnError>,
    ) -> Result<(), TurnError> {
        let (listener, mut heard) = Listener::new();
        let turn = turn(self.served.agent.clone(), listener);
        let telling = async {
            while let Some(progress) = heard.recv().await {
                teller.count(&progress);
                if let Progress::Held { prompt, .. } = &progress {
                    self.shown(prompt).await;
                }
                teller.tell(News::Progress(Box::new(progress))).await;
            }
        };
        let (ended, ()) = tokio::join!(turn, telling);
        ended
    }

    /// The card is what stands last in the conversation now. Without this a yes only shows it again.
    async fn shown(&self, prompt: &Prompt) {
        let Some(key) = card_key(prompt.approval) else {
            return;
        };
        let Place { tenant, channel, .. } = &self.place;
        let conversations = self.served.agent.conversations();
        if let Err(error) = conversations.shown(tenant, channel, prompt, key).await {
            tracing::warn!(approval = %prompt.approval, "a card that is shown could not be noted: {error}");
        }
    }
}

/// Whether a card is one of this talk's own.
async fn is_of(agent: &Agent, place: &Place, card: Option<ApprovalId>) -> Result<bool, TurnError> {
    let Some(card) = card else {
        return Ok(false);
    };
    let approval = agent.gate().store().approval(&place.tenant, card).await?;
    Ok(approval.is_some_and(|approval| {
        approval.channel.as_ref() == Some(&place.channel) && approval.agent == *agent.name()
    }))
}

/// Tells news to who asked and to who listens.
struct Teller {
    app: App,
    all: broadcast::Sender<Arc<News>>,
    own: Option<mpsc::Sender<Arc<News>>>,
}

impl Teller {
    fn new(app: &App, all: broadcast::Sender<Arc<News>>, own: Option<mpsc::Sender<Arc<News>>>) -> Teller {
        Teller {
            app: app.clone(),
            all,
            own,
        }
    }

    /// Counts what happens in talks as what happens everywhere else.
    fn count(&self, progress: &Progress) {
        match progress {
            Progress::Proposed { approval } => self.app.metrics.proposed(approval),
            Progress::Answered { approval, refusal } => {
                self.app.metrics.answered(approval.as_deref(), refusal.as_ref());
            }
            _ => {}
        }
    }

    async fn tell(&mut self, news: News) {
        let news = Arc::new(news);
        // Nobody has to listen.
        let _ = self.all.send(news.clone());
        if let Some(own) = &self.own {
            let told = tokio::time::timeout(READ_WITHIN, own.send(news)).await;
            if !matches!(told, Ok(Ok(()))) {
                self.own = None;
            }
        }
    }

    /// The turn is over; if it ended early, it is said why.
    async fn end(&mut self, ended: Result<(), TurnError>) {
        let Err(error) = ended else { return };
        tracing::warn!("a turn ended early: {error}");
        let (message, hint) = (error.to_string(), error.hint());
        self.tell(News::Failed { message, hint }).await;
    }
}
