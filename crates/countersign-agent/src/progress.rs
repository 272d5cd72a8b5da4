//! Progress of a turn, as reported to a surface.
//!
//! Input: the steps of the agent loop. Output: a sequence of [`Progress`] values. Dropping the receiver stops nothing:
//! the turn continues to its end, and its result is in the session.

use countersign::approval::SharedApproval;
use countersign::decision::Refusal;
use countersign::prompt::Prompt;
use tokio::sync::mpsc;

use crate::model::Usage;

/// One step of a turn.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The message was given to this specialist.
    Routed {
        /// Name of the specialist.
        specialist: String,
    },
    /// A piece of the agent's text. Untrusted: a surface has to escape it before it is shown.
    Text(String),
    /// The model called a tool.
    Called {
        /// Id of the call in the session.
        id: String,
        /// Name of the tool.
        tool: String,
    },
    /// The model was given the result of a call.
    Result {
        /// Id of the call in the session.
        id: String,
        /// Name of the tool.
        tool: String,
        /// Status of the call in one word.
        status: String,
        /// True if the model is told that the call failed.
        is_error: bool,
        /// Text given to the model.
        content: String,
        /// True if the call waits for a person's decision.
        requires_confirmation: bool,
    },
    /// An approval was created. Its card is shown when the agent has finished its text.
    Proposed {
        /// The new approval, which is pending.
        approval: SharedApproval,
    },
    /// The person replied to a card, and the gate accepted or refused the decision.
    Answered {
        /// The approval after the reply, if known.
        approval: Option<SharedApproval>,
        /// Why the reply was not accepted; `None` if it was accepted.
        refusal: Option<Refusal>,
    },
    /// A message of the channel itself, such as the outcome of a card.
    ChannelMessage(String),
    /// A card has to be shown now. Its approval and the session are saved.
    ShowCard {
        /// The pending approval that the card shows.
        approval: SharedApproval,
        /// The question to show, with its buttons.
        prompt: Box<Prompt>,
    },
    /// An approval of this session was decided or ended otherwise, and its released calls have run.
    Decided {
        /// The approval after its calls have run.
        approval: SharedApproval,
    },
    /// The evaluator rejected the answer, which is generated again.
    Retrying {
        /// Reason given by the evaluator.
        reason: String,
    },
    /// A step failed, and the turn continues without its result. Holds a message for people.
    Notice(String),
    /// The turn is over.
    Done {
        /// Tokens used in the turn.
        usage: Usage,
    },
}

/// Sender of a turn's progress to the surface that started the turn.
#[derive(Clone, Debug)]
pub struct Listener(Option<mpsc::Sender<Progress>>);

impl Listener {
    /// Number of unread values after which the turn waits for the receiver.
    const QUEUE: usize = 256;

    /// Creates a listener with a bounded queue: a slow receiver slows the turn down and loses nothing.
    pub fn new() -> (Listener, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(Listener::QUEUE);
        (Listener(Some(sender)), receiver)
    }

    /// Creates a listener that discards everything.
    pub fn discarding() -> Listener {
        Listener(None)
    }

    pub(crate) async fn report(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // If the receiver was dropped, nobody wants the progress.
            let _ = sender.send(progress).await;
        }
    }
}
