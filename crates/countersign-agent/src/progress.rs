//! What a surface is told while a turn goes on.
//!
//! Enters: what the loop does. Leaves: one [`Progress`] after the other. Who stops listening stops nothing: a turn
//! goes on to its end, and what it did is in the session.

use countersign::approval::SharedApproval;
use countersign::decision::Refusal;
use countersign::prompt::Prompt;
use tokio::sync::mpsc;

use crate::model::Usage;

/// One thing that happened in a turn.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The message was given to this specialist.
    Routed {
        /// Its name.
        specialist: String,
    },
    /// The agent says more. What it says is its own: a surface makes it safe before it shows it.
    Text(String),
    /// The model called a tool.
    Called {
        /// The call's id in the session.
        id: String,
        /// The tool.
        tool: String,
    },
    /// The model is told what became of a call.
    Result {
        /// The call's id in the session.
        id: String,
        /// The tool.
        tool: String,
        /// How it ended, in a word.
        status: String,
        /// Whether it was taken as an error.
        is_error: bool,
        /// What it said.
        content: String,
        /// Whether a person has to confirm it first.
        requires_confirmation: bool,
    },
    /// A card is on record. It is shown when the agent has said what it has to say.
    Proposed {
        /// The approval.
        approval: SharedApproval,
    },
    /// The person answered a card, and was heard or refused. What came of it follows.
    Answered {
        /// The approval as it is now, so far as it is known.
        approval: Option<SharedApproval>,
        /// Why the answer did not count.
        refusal: Option<Refusal>,
    },
    /// The channel says something: an outcome, a cancellation, a reason.
    Said(String),
    /// A card is to be shown now. It is on record, and so is the session.
    Held {
        /// The approval.
        approval: SharedApproval,
        /// The question.
        prompt: Box<Prompt>,
    },
    /// An approval of this session was decided, or ended otherwise, and what it released has run.
    Decided {
        /// The approval as it is now.
        approval: SharedApproval,
    },
    /// The answer was judged, and is given again.
    Again {
        /// Why.
        reason: String,
    },
    /// Something did not work that the turn goes on without.
    Notice(String),
    /// The turn is over.
    Done {
        /// What the models used.
        usage: Usage,
    },
}

/// Where progress goes.
#[derive(Clone, Debug)]
pub struct Listener(Option<mpsc::Sender<Progress>>);

impl Listener {
    /// How many unread pieces of progress wait before the turn waits for its reader.
    const QUEUE: usize = 256;

    /// A listener and what it hears.
    pub fn new() -> (Listener, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(Listener::QUEUE);
        (Listener(Some(sender)), receiver)
    }

    /// Nobody listens.
    pub fn nobody() -> Listener {
        Listener(None)
    }

    pub(crate) async fn tell(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // Whoever is gone needs to hear nothing.
            let _ = sender.send(progress).await;
        }
    }
}
