//! One conversation: sends lines to the agent and prints what follows. When the card is decided elsewhere, the
//! conversation continues while the person is typing.

use std::sync::mpsc::Sender;
use std::time::Duration;

use countersign::conversation::{Message as Heard, Origin};
use countersign::decision::{Decider, Surface};
use countersign::gate::{Until, Waited};
use countersign::id::{ApprovalId, Key};
use countersign::prompt::Prompt;
use countersign::sentence::Sentences;
use countersign_agent::agent::{Agent, TurnContext, TurnError};
use countersign_agent::progress::{Listener, Progress};
use countersign_agent::session::SessionError;

use super::event::event;
use super::line::Button;
use super::screen::Screen;
use super::sight::Unseen;
use super::typing::Typing;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::card::Length;

const HELP: &str = "  \
  yes, no            answer a card, in your own words; or Alt-Y and Alt-N, `/yes` and `/no`
  all but the third  of several things, some; or leave some out with Tab and Space, or `/3`, then Alt-Y
  undo               take back what was done last
  /card              the whole card that waits
  /history           what was said so far
  /quit              end it; the conversation is kept
";

/// Whether to read another line or to quit.
pub enum Next {
    Line,
    End,
}

/// Conversation of one person with one agent.
pub struct Talk<'a> {
    agent: Agent,
    place: TurnContext,
    person: Decider,
    language: Option<String>,
    screen: Screen<'a>,
    typing: Typing,
    /// The current card, and the key of the message that showed it.
    card: Option<(Key, Prompt)>,
    /// True during a turn that a decision made elsewhere has started, rather than the person at this terminal.
    is_by_itself: bool,
    /// True if a turn has failed.
    pub has_failed: bool,
}

/// Maximum length of one wait for a decision; waits are repeated.
const WAIT: Duration = Duration::from_secs(3600);
/// Pause before waiting again after the store has failed.
const AGAIN: Duration = Duration::from_secs(1);

impl<'a> Talk<'a> {
    pub fn new(
        agent: Agent,
        place: TurnContext,
        person: Decider,
        language: Option<String>,
        typing: Typing,
        output: &'a mut Output,
    ) -> Talk<'a> {
        Talk {
            agent,
            place,
            person,
            language,
            screen: Screen::new(output),
            typing,
            card: None,
            is_by_itself: false,
            has_failed: false,
        }
    }

    /// Offers keys as buttons below each card.
    pub fn with_keys(mut self) -> Talk<'a> {
        self.screen.has_keys = true;
        self
    }

    /// Shows a card that was left pending, for example before a restart.
    pub async fn greet(&mut self) {
        let place = self.place.clone();
        self.turn(|agent, listener| async move { agent.show_pending_card(place, &listener).await })
            .await;
    }

    /// Handles a line. A line begun before the card appeared is not taken as a reply to it.
    pub async fn line(&mut self, line: &str, is_older_than_card: bool) -> Next {
        // Checked before the line itself is counted, whose rows may scroll the card off the screen.
        let unseen = self.unseen();
        self.screen.typed(line);
        match line.trim() {
            "/quit" | "/exit" => return Next::End,
            "/help" | "/?" => self.screen.output.text(HELP),
            "/yes" | "/no" if is_older_than_card => {
                let message = "this card came while you were typing; look at it, then say so again";
                self.screen.output.notice("card", message);
            }
            "/yes" => self.press_yes(unseen).await,
            "/no" => self.press(Button::No).await,
            "/undo" => self.send_message("undo that", is_older_than_card).await,
            "/card" => self.whole_card().await,
            "/history" => self.history().await,
            other if positions(other).is_some() => self.toggle(&positions(other).unwrap_or_default()),
            other if other.starts_with('/') => {
                let message = format!("`{other}` is not a command; `/help` lists all commands");
                self.screen.output.notice("command", &message);
            }
            // A reply to a card that is not fully on the screen decides nothing: the card is shown again.
            _ => {
                self.send_message(line, is_older_than_card || unseen.is_some())
                    .await
            }
        }
        Next::Line
    }

    /// Completes when the current card is decided elsewhere or expires; never completes without a card.
    pub async fn card_ends(&self) {
        let Some((_, prompt)) = &self.card else {
            return std::future::pending().await;
        };
        let gate = self.agent.gate();
        loop {
            let waited = gate.wait(&self.place.tenant, prompt.approval, Until::Decided, WAIT);
            match waited.await {
                Ok(Waited::Done(_) | Waited::NotFound) => return,
                Ok(Waited::TimedOut(_)) => {}
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Continues the agent's turn after the current card was decided elsewhere, and prints how the card ended. Does
    /// nothing if there is no card.
    pub async fn resume(&mut self) {
        let Some(ended) = self.card.as_ref().map(|(_, prompt)| prompt.approval) else {
            return;
        };
        let place = self.place.clone();
        (self.is_by_itself, self.screen.has_said) = (true, false);
        self.turn(|agent, listener| async move {
            match agent.resume(place, &listener).await {
                // The same session is open elsewhere and continues there.
                Err(TurnError::Session(SessionError::Changed)) => Ok(()),
                ended => ended,
            }
        })
        .await;
        self.is_by_itself = false;
        if !self.screen.has_said {
            self.say_ending(ended).await;
        }
    }

    /// Sends further output to `printer`, which prints above the line being typed, or prints directly if `printer` is
    /// `None`.
    pub fn type_below(&mut self, printer: Option<Sender<String>>) {
        self.screen.output.type_below(printer);
    }

    async fn say_ending(&mut self, ended: ApprovalId) {
        let store = self.agent.gate().store();
        match store.approval(&self.place.tenant, ended).await {
            Ok(Some(approval)) => {
                let ending = self.agent.conversations().ending(&approval, self.language());
                let ending = ending.unwrap_or_else(|| format!("This card was {}.", approval.state.as_str()));
                self.screen.say(&ending);
            }
            Ok(None) => {}
            Err(error) => self.screen.output.failure(&error.into()),
        }
    }

    /// Toggles whether the calls at these positions, counted from 1, are left out of an approval.
    fn toggle(&mut self, positions: &[usize]) {
        if !positions.iter().all(|position| self.typing.toggle(*position)) {
            let message = "the card has no such call to leave out; `/card` shows it";
            return self.screen.output.notice("card", message);
        }
        let prompt = self.typing.prompt();
        self.screen.output.line(prompt.trim_end_matches("? ").trim_end());
    }

    /// Shows the next page of the card, after Enter on an empty line.
    pub fn show_next_page(&mut self) {
        self.screen.typed("");
        if self.card.is_some() {
            self.screen.show_next_page();
        }
    }

    /// Returns why the current card cannot be approved now, or `None` if it can be.
    fn unseen(&self) -> Option<Unseen> {
        self.card.as_ref().and_then(|_| self.screen.unseen())
    }

    /// Handles a key that acts as a button.
    pub async fn pressed(&mut self, button: Button) {
        let unseen = self.unseen();
        self.screen.typed("");
        match button {
            Button::Yes => self.press_yes(unseen).await,
            Button::No => self.press(Button::No).await,
        }
    }

    /// Approves the card. If not all of it is on the screen (`unseen`), prints why it cannot be approved; a card that
    /// has scrolled away is printed again.
    async fn press_yes(&mut self, unseen: Option<Unseen>) {
        let Some(unseen) = unseen else {
            return self.press(Button::Yes).await;
        };
        if unseen == Unseen::Gone {
            self.show_again(Length::Short).await;
        }
        self.screen.output.notice("card", unseen.as_str());
    }

    /// Sends the button's payload from the current card. The payload identifies that card, so no other card can be
    /// decided.
    async fn press(&mut self, button: Button) {
        let Some((_, prompt)) = &self.card else {
            return self.screen.output.notice("card", "no card waits for an answer");
        };
        let (payload, only) = match button {
            Button::Yes => (prompt.approve.clone(), self.typing.some()),
            Button::No => (Some(prompt.deny.clone()), None),
        };
        let Some(payload) = payload else {
            let message = format!("part of this card is not shown here; see {}", prompt.place());
            return self.screen.output.notice("card", &message);
        };
        if only.as_ref().is_some_and(Vec::is_empty) {
            let message = "everything is left out; take something in again, or say no";
            return self.screen.output.notice("card", message);
        }
        let by = Decider {
            surface: Surface::Button,
            ..self.person.clone()
        };
        let place = self.place.clone();
        self.turn(|agent, listener| async move {
            let only = only.as_deref();
            agent.handle_button(place, &payload, only, by, &listener).await
        })
        .await;
    }

    async fn send_message(&mut self, text: &str, is_older_than_card: bool) {
        let Ok(id) = self.new_key().await else { return };
        let message = Heard {
            tenant: self.place.tenant.clone(),
            channel: self.place.channel.clone(),
            sender: Decider {
                surface: Surface::Text,
                ..self.person.clone()
            },
            text: text.to_owned(),
            language: self.language.clone(),
            id,
            origin: Origin::Written,
            after: self
                .card
                .as_ref()
                .filter(|_| !is_older_than_card)
                .map(|(key, _)| key.clone()),
        };
        self.turn(|agent, listener| async move { agent.handle_message(message, &listener).await })
            .await;
    }

    /// Runs a turn and prints its progress. Ctrl-C stops it; what is recorded stays.
    async fn turn<F>(&mut self, turn: impl FnOnce(Agent, Listener) -> F)
    where
        F: Future<Output = Result<(), TurnError>>,
    {
        let (listener, mut heard) = Listener::new();
        let agent = self.agent.clone();
        let had_card = self.card.take().is_some();
        self.typing.no_card();
        let turn = turn(agent, listener);
        tokio::pin!(turn);
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                progress = heard.recv() => match progress {
                    Some(progress) => self.show(progress).await,
                    None => break,
                },
                result = &mut turn, if ended.is_none() => ended = Some(result),
                _ = tokio::signal::ctrl_c() => {
                    ended = None;
                    self.screen.end_line();
                    self.screen.output.notice("interrupted", "stopped listening; what was on record stays");
                    break;
                }
            }
            if ended.is_some() && heard.is_closed() && heard.is_empty() {
                break;
            }
        }
        self.screen.end_line();
        if let Some(Err(error)) = ended {
            self.has_failed = true;
            self.screen.output.failure(&failed(error));
        }
        if had_card && self.card.is_none() {
            // The card is no longer the last message. If this cannot be recorded, a "yes" shows the card again.
            let (tenant, channel) = (&self.place.tenant, &self.place.channel);
            let _ = self.agent.conversations().said(tenant, channel).await;
        }
    }

    async fn show(&mut self, progress: Progress) {
        let line = event(&progress).and_then(|event| self.screen.output.json_line(&event).ok());
        if let (true, Some(line)) = (self.screen.output.is_json, line) {
            self.screen.output.line(&line);
        }
        match progress {
            Progress::ShowCard { approval, prompt } => {
                // Recorded before the card is printed, because text already in the line cannot be meant for this card.
                self.typing.card(prompt.numbered, self.is_by_itself);
                if !self.screen.output.is_json {
                    let sentences = self.sentences();
                    self.screen
                        .card(self.agent.gate(), &approval, Length::Short, &prompt, &sentences)
                        .await;
                }
                self.record_shown_card(*prompt).await;
            }
            other if !self.screen.output.is_json => self.screen.progress(other),
            Progress::ChannelMessage(_) => self.screen.has_said = true,
            _ => {}
        }
    }

    fn language(&self) -> Option<&str> {
        self.language
            .as_deref()
            .or(self.agent.config().language.as_deref())
    }

    fn sentences(&self) -> Sentences {
        self.agent.conversations().sentences(self.language())
    }

    /// Records that this card is now the last message.
    async fn record_shown_card(&mut self, prompt: Prompt) {
        let noted = async {
            let key = self.new_key().await?;
            let (tenant, channel) = (&self.place.tenant, &self.place.channel);
            let conversations = self.agent.conversations();
            conversations.shown(tenant, channel, &prompt, key.clone()).await?;
            Ok::<_, Failure>(key)
        };
        match noted.await {
            Ok(key) => self.card = Some((key, prompt)),
            Err(failure) => self.screen.output.failure(&failure),
        }
    }

    async fn whole_card(&mut self) {
        self.show_again(Length::Whole).await;
    }

    async fn show_again(&mut self, length: Length) {
        let Some((_, prompt)) = &self.card else {
            return self.screen.output.notice("card", "no card waits for an answer");
        };
        let found = self
            .agent
            .gate()
            .store()
            .approval(&self.place.tenant, prompt.approval)
            .await;
        let prompt = prompt.clone();
        match found {
            Ok(Some(approval)) => {
                let sentences = self.sentences();
                self.screen
                    .card(self.agent.gate(), &approval, length, &prompt, &sentences)
                    .await;
            }
            Ok(None) => {}
            Err(error) => self.screen.output.failure(&error.into()),
        }
    }

    async fn history(&mut self) {
        let session = self.agent.session(&self.place.tenant, &self.place.channel).await;
        match session {
            Ok(session) => self.screen.history(session.messages()),
            Err(error) => self.screen.output.failure(&failed(error)),
        }
    }

    /// Returns a random key that identifies a message.
    async fn new_key(&mut self) -> Result<Key, Failure> {
        let mut random = [0; 16];
        let drawn = getrandom::fill(&mut random);
        drawn.map_err(|error| Failure::error("no_randomness", error.to_string()))?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Key::new(format!("chat-{hex}")).map_err(|problem| Failure::error("bad_name", problem.to_string()))
    }
}

/// Converts a turn's error to a failure with the error's hint.
pub fn failed(error: TurnError) -> Failure {
    let hint = error.hint();
    Failure::error("turn", error.to_string()).hint(hint)
}

/// Parses the positions in `/3` or `/1 4`. Returns `None` for any other command.
fn positions(command: &str) -> Option<Vec<usize>> {
    let named = command.strip_prefix('/')?;
    let numbers = named.split([' ', ',']).filter(|number| !number.is_empty());
    let numbers: Result<Vec<usize>, _> = numbers.map(str::parse).collect();
    numbers.ok().filter(|numbers| !numbers.is_empty())
}
